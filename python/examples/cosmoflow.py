"""CosmoFlow: predicts cosmological parameters from cubes of matter. On two ranks: mpirun -n 2 python cosmoflow.py"""
import argparse

import keelson
from keelson import data, metrics, optim

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--folder", default="universes")
parser.add_argument("--samples", type=int, default=1000)
parser.add_argument("--epochs", type=int, default=20)
o = parser.parse_args()
world = keelson.world()
data.generate_universes(o.folder, train=o.samples, validation=o.samples // 8, size=32, particles=1, comm=world)
training, validation = (data.UniverseDataset(f"{o.folder}/{part}", comm=world) for part in ("train", "validation"))

parameters = keelson.Parameters(keelson.nets.cosmoflow(size=32, dropout=0), keelson.Context(comm=world))
trainer = keelson.Trainer(
    parameters, training, validation, batch=4 // world.size, epochs=o.epochs, optimizer=optim.SGD(momentum=0.9),
    learning_rate=optim.Schedule(0.006, "cosine", epochs=o.epochs), transform=data.RandomCubeSymmetry(),
    metrics=[metrics.MeanAbsoluteError(training.targets)], checkpoints=o.folder + "/run/checkpoints")
for step in trainer:
    if step.step % 50 == 0 and world.rank == 0:
        print(f"epoch {step.epoch:.2f}: loss {step.loss:.4f}, {step.rate:.0f} samples/s")
result = trainer.validate()
if world.rank == 0:
    print({name: round(error, 4) for (name, _, _), error in zip(training.targets, result.values["MAE"])})
