#!/usr/bin/env python3
"""Compares the rounding errors of a training step's gradients in Keelson and in PyTorch, against PyTorch in float64.

    ./dev python scripts/compare-gradients.py keelson gradients.npz --size 64 --batch 4 --train 40
    OMP_NUM_THREADS=2 python3 scripts/compare-gradients.py torch gradients.npz

The first command trains MLPerf's CosmoFlow network for some steps, makes one more step with SGD, and stores its weights,
samples and gradients. The second one computes the same gradients in float64, in float32, and in float32 with PyTorch's
channels_last layout. For each array it prints the mean error (of all elements, relative to the mean magnitude in float64) and
how many times PyTorch's error Keelson's is. Where rounding decides which element of a pooling window is the largest, or a sign
before a ReLU, a whole gradient moves, in either program: such errors are much larger than those of the layers behind. Needs the
package whose gradients it computes, and NumPy.
"""

import argparse
import os

import numpy


def samples_of(size, batch, seed):
    """Positive fields with structure at several scales; the targets are their moments."""
    random = numpy.random.default_rng(seed)
    x = numpy.zeros((batch, 4, size, size, size))
    for edge in (4, 8, 16):
        coarse = random.normal(size=(batch, 4, edge, edge, edge))
        for axis in (2, 3, 4):
            coarse = numpy.repeat(coarse, size // edge, axis)
        x += coarse
    x = numpy.log1p(numpy.exp(x + random.normal(size=x.shape) / 2))
    flat = x.reshape(batch, 4, -1)
    return x.astype("float32"), numpy.tanh(flat.mean(2) - 1 + flat.std(2) / 2).astype("float32")


def compute_keelson(o):
    import keelson
    graph = keelson.nets.cosmoflow("mlperf", size=o.size, channels=4, targets=4, dropout=0.0)
    parameters = keelson.Parameters(graph, keelson.Context(), seed=o.seed)
    x, y = samples_of(o.size, o.batch, o.seed)
    samples = {"x": x, "y": y}
    if o.train:
        losses = [step.loss for step in keelson.Trainer(parameters, samples, epochs=o.train, batch=o.batch, learning_rate=1e-4)]
        print(f"loss of the first of {o.train} steps: {losses[0]:.4g}, of the last one: {losses[-1]:.4g}")
    trainer = keelson.Trainer(parameters, samples, epochs=1, batch=o.batch, shuffle=False, optimizer=keelson.optim.SGD())
    weights = {name: numpy.array(parameters[name]) for name in graph.parameters}
    trainer.step(samples)
    stored = {"weights " + name: value for name, value in weights.items()}
    stored |= {"gradient " + name: value for name, value in trainer.gradients().items()}
    with open(o.file, "wb") as file:
        numpy.savez(file, x=x, y=y, **stored)


def torch_gradients(stored, dtype, channels_last):
    import torch
    from torch.nn import functional
    torch.set_num_threads(2)
    p = {key.split(" ", 1)[1]: torch.tensor(stored[key], dtype=dtype) for key in stored.files if key.startswith("weights ")}
    x, y = torch.tensor(stored["x"], dtype=dtype), torch.tensor(stored["y"], dtype=dtype)
    if channels_last:
        x = x.to(memory_format=torch.channels_last_3d)
        p = {k: v.to(memory_format=torch.channels_last_3d) if v.dim() == 5 else v for k, v in p.items()}
    for value in p.values():
        value.requires_grad_()
    convolutions = sum(name.startswith("conv") and name.endswith("/weights") for name in p)
    for i in range(1, convolutions + 1):
        x = functional.conv3d(x, p[f"conv{i}/weights"], p[f"conv{i}/bias"], padding="same")
        x = functional.max_pool3d(functional.leaky_relu(x, 0.3), 2)
    x = x.permute(0, 2, 3, 4, 1).flatten(1)
    for i in (1, 2):
        x = functional.leaky_relu(functional.linear(x, p[f"dense{i}/weights"], p[f"dense{i}/bias"]), 0.3)
    x = 1.2 * torch.tanh(functional.linear(x, p["dense3/weights"], p["dense3/bias"]))
    functional.mse_loss(x, y).backward()
    return {name: value.grad.double().numpy() for name, value in p.items()}


def compare(o):
    import torch
    stored = numpy.load(o.file)
    exact = torch_gradients(stored, torch.float64, False)
    plain, last = (torch_gradients(stored, torch.float32, channels_last) for channels_last in (False, True))
    print(f"{'mean relative error':24} {'Keelson':>10} {'PyTorch':>10} {'channels_last':>14} {'times':>8} {'times c.l.':>11}")
    for name, right in exact.items():
        def error(value):
            return numpy.abs(value - right).mean() / numpy.abs(right).mean()
        own, other, other_last = error(stored["gradient " + name]), error(plain[name]), error(last[name])
        print(f"{name:24} {own:10.2e} {other:10.2e} {other_last:14.2e} {own / other:8.2f} {own / other_last:11.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=["keelson", "torch"])
    parser.add_argument("file", help=".npz that the first command writes and the second one reads")
    parser.add_argument("--size", type=int, default=64, help="cells along an edge, a multiple of 32")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--train", type=int, default=0, help="steps of Adam before the compared step (default: fresh weights)")
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    if o.size < 32 or o.size % 32:
        parser.error(f"--size is {o.size}; a positive multiple of 32 is expected, for example 64")
    if o.batch < 1 or o.train < 0:
        parser.error(f"--batch is {o.batch} and --train {o.train}; at least 1 and 0 are expected")
    folder = os.path.dirname(o.file) or "."
    if not os.path.isdir(folder):
        parser.error(f"there is no folder {folder}; make it first, or name another file")
    if o.program == "torch" and not os.path.isfile(o.file):
        parser.error(f"there is no file {o.file}; make it by: ./dev python scripts/{parser.prog} keelson {o.file}")
    compute_keelson(o) if o.program == "keelson" else compare(o)


if __name__ == "__main__":
    main()
