#!/usr/bin/env python3
"""Times small networks, as they are trained at a notebook, in Keelson or in PyTorch.

    ./dev python scripts/peer-small.py keelson
    OMP_NUM_THREADS=1 python3 scripts/peer-small.py torch

Adam, batches of 32, whole epochs of 1600 samples from memory:
    sequence    50 steps of 16 numbers, an LSTM of 64 units, 4 classes
    text        20 tokens of 100, an embedding and two LSTMs of 64 units, 4 classes
    images      28 x 28 pixels, two convolutions of 16 and 32 filters with max pools, two dense layers, 10 classes
Prints the microseconds for a sample: the median of the epochs but the first, and the fastest one. Needs the package that it
times, and NumPy.
"""

import argparse
import os
import time

import numpy

SAMPLES, BATCH = 1600, 32


def data_of(kind):
    random = numpy.random.default_rng(0)
    if kind == "text":
        x = random.integers(0, 100, (SAMPLES, 20)).astype("int32")
    else:
        x = random.normal(size=(SAMPLES, 50, 16) if kind == "sequence" else (SAMPLES, 1, 28, 28)).astype("float32")
    return x, random.integers(0, 10 if kind == "images" else 4, SAMPLES).astype("int32")


def keelson_seconds(kind, epochs):
    import keelson
    from keelson import layers
    x, y = data_of(kind)
    graph = keelson.Graph(kind)
    h = graph.input("x", x.shape[1:], str(x.dtype))
    if kind == "images":
        for filters in (16, 32):
            h = layers.max_pool(layers.conv(h, filters, activation="relu"), 2)
        logits = layers.dense(layers.dense(layers.flatten(h), 64, activation="relu"), 10)
    else:
        h = layers.embedding(h, 100, 64) if kind == "text" else layers.flatten(h, features=16)
        h = layers.lstm(h, 64, layers=2 if kind == "text" else 1, carries_state=False)
        logits = layers.dense(layers.last_step(h), 4)
    layers.cross_entropy(logits, graph.input("y", (), "int32"))
    parameters = keelson.Parameters(graph, keelson.Context(), seed=1)
    return keelson.Trainer(parameters, {"x": x, "y": y}, epochs=epochs, batch=BATCH).run(progress=False)["seconds"]


def torch_model(kind):
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            text = kind == "text"
            self.embedding = nn.Embedding(100, 64) if text else nn.Identity()
            self.lstm = nn.LSTM(64 if text else 16, 64, 2 if text else 1, batch_first=True)
            self.head = nn.Linear(64, 4)

        def forward(self, x):
            return self.head(self.lstm(self.embedding(x))[0][:, -1])

    if kind != "images":
        return Recurrent()
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 64), nn.ReLU(), nn.Linear(64, 10))


def torch_seconds(kind, epochs):
    import torch
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    x, y = (torch.from_numpy(array) for array in data_of(kind))
    model, y = torch_model(kind), y.long()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    seconds = []
    for _ in range(epochs):
        begin = time.perf_counter()
        for batch in torch.randperm(SAMPLES).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
        seconds.append(time.perf_counter() - begin)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", choices=["keelson", "torch"])
    parser.add_argument("--epochs", type=int, default=11)
    options = parser.parse_args()
    for kind in ("sequence", "text", "images"):
        seconds = (keelson_seconds if options.package == "keelson" else torch_seconds)(kind, options.epochs)[1:]
        print(f"{options.package} {kind}: {numpy.median(seconds) / SAMPLES * 1e6:.0f} us for a sample, "
              f"the fastest epoch {min(seconds) / SAMPLES * 1e6:.0f}", flush=True)


if __name__ == "__main__":
    main()
