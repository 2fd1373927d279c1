"""Finds tropical cyclones and atmospheric rivers in climate snapshots, with one of three networks."""
import argparse

import keelson
from keelson import data, metrics, nets, optim

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--net", choices=["tiramisu", "deepcam", "deeplab"], default="tiramisu")
parser.add_argument("--folder", default="climate")
parser.add_argument("--samples", type=int, default=100)
parser.add_argument("--epochs", type=int, default=4)
o = parser.parse_args()
grid = dict(rows=96, columns=144)
data.generate_snapshots(o.folder, train=o.samples, validation=max(o.samples // 10, 2), cyclones=5, rivers=5, **grid)
training = data.SnapshotDataset(o.folder + "/train")
validation = data.SnapshotDataset(o.folder + "/validation", like=training)

network = {
    "tiramisu": lambda: nets.tiramisu(**grid, first=24, growth=12, blocks=[2, 2, 2, 2], kernel=3, loss="deepcam"),
    "deepcam": lambda: nets.deepcam(**grid, width=0.125, middle_blocks=2),
    "deeplab": lambda: nets.deeplab_sc18(**grid, width=0.125, batch_norm=True, loss="deepcam"),
}[o.net]()
print(network)
iou = metrics.MeanImageIoU(["background", "cyclone", "river"])
trainer = keelson.Trainer(keelson.Parameters(network, keelson.Context()), training, validation, batch=2, epochs=o.epochs,
                          optimizer=optim.Adam(), learning_rate=0.003, metrics=[iou])
for step in trainer:
    if step.step % 10 == 0:
        print(f"epoch {step.epoch:.2f}: loss {step.loss:.4f}, {step.rate:.1f} samples/s")
result = trainer.validate()
print(f"mean IoU {result.metric:.3f}; by class {[round(v, 3) for v in result.values[iou.name]]}")
