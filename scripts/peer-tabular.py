#!/usr/bin/env python3
"""Times the training of a dense tanh network on a table in PyTorch, to compare with `keelson-tabular train`.

The network is that of `--recipe higgs`: 5 layers of 300 tanh units, with its momentum and L2 term. The rows are made up
and lie in memory. Each epoch shuffles a copy of them, and a batch is a slice of the copy, so that no loader takes time.
Needs PyTorch, with a BLAS that shares its OpenMP threads (Debian: libopenblas0-openmp). Prints samples/s of whole epochs
(median), and the processor time of a sample.

    peer-tabular.py --batch 100 --threads 2 [--compile] [--rows 50000]
"""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits


def network(inputs, layers, units):
    parts = []
    for _ in range(layers):
        parts += [nn.Linear(inputs, units), nn.Tanh()]
        inputs = units
    return nn.Sequential(*parts, nn.Linear(inputs, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50000)
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--units", type=int, default=300)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--epochs", type=int, default=3, help="timed epochs; one more warms up (default: %(default)s)")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    net = network(o.columns, o.layers, o.units)
    forward = torch.compile(net) if o.compile else net
    x, y = torch.randn(o.rows, o.columns), torch.randint(0, 2, (o.rows,)).float()
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, weight_decay=1e-5, fused=True)

    def step(rows, labels):
        optimizer.zero_grad()
        binary_cross_entropy_with_logits(forward(rows).squeeze(1), labels).backward()
        optimizer.step()

    def epoch():
        order = torch.randperm(o.rows)
        shuffled, labels = x[order], y[order]
        for begin in range(0, o.rows - o.batch + 1, o.batch):
            step(shuffled[begin:begin + o.batch], labels[begin:begin + o.batch])

    for begin in range(0, min(o.rows, 20 * o.batch), o.batch):
        step(x[begin:begin + o.batch], y[begin:begin + o.batch])
    times, used = [], []
    for _ in range(o.epochs):
        begin, begin_used = time.perf_counter(), time.process_time()
        epoch()
        times.append(time.perf_counter() - begin)
        used.append(time.process_time() - begin_used)
    seconds = statistics.median(times)
    print(f"{o.layers} x {o.units}, batch {o.batch}, {o.threads} threads{', compiled' if o.compile else ''}: "
          f"{o.rows / seconds:.0f} samples/s, {1e6 * statistics.median(used) / o.rows:.1f} us of processor time a sample")


if __name__ == "__main__":
    main()
