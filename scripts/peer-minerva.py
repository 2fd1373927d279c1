#!/usr/bin/env python3
"""Times a training step of MINERvA's Epsilon network in PyTorch, to compare with `keelson-bench step --net minerva-epsilon`.

The network is that of nets/minerva: the same layers, parameters and loss. Needs PyTorch. Prints the median of the steps.

    peer-minerva.py --batch 100 --threads 2 [--channels-last] [--compile] [--precision bf16]
"""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy


class View(nn.Module):
    """Four convolutions, each with ReLU and a maximum over two strips, and a dense layer."""

    def __init__(self, planes, first):
        super().__init__()
        layers, channels = [], 1
        for filters, kernel in ((12, (8, first)), (20, (7, 3)), (28, (6, 3)), (36, (6, 3))):
            layers += [nn.Conv2d(channels, filters, kernel), nn.ReLU(inplace=True), nn.MaxPool2d((2, 1))]
            channels = filters
        planes -= first - 1 + 3 * 2
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(36 * 3 * planes, 196), nn.ReLU(inplace=True), nn.Dropout(0.5))

    def forward(self, image):
        return self.layers(image)


class Epsilon(nn.Module):
    def __init__(self):
        super().__init__()
        self.views = nn.ModuleList([View(50, 3), View(25, 5), View(25, 5)])
        self.end = nn.Sequential(nn.Dropout(0.5), nn.Linear(588, 98), nn.ReLU(inplace=True), nn.Linear(98, 67))

    def forward(self, *images):
        return self.end(torch.cat([view(image) for view, image in zip(self.views, images)], 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--steps", type=int, default=20, help="timed steps (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=5, help="steps before these (default: %(default)s)")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    net = Epsilon()
    assert sum(p.numel() for p in net.parameters()) == 1_690_367
    images = [torch.rand(o.batch, 1, 127, planes) for planes in (50, 25, 25)]
    if o.channels_last:
        net = net.to(memory_format=torch.channels_last)
        images = [image.to(memory_format=torch.channels_last) for image in images]
    labels = torch.randint(0, 67, (o.batch,))
    optimizer = torch.optim.Adam(net.parameters(), 1e-3, fused=True)
    forward = torch.compile(net) if o.compile else net

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=o.precision == "bf16"):
            loss = cross_entropy(forward(*images), labels)
        loss.backward()
        optimizer.step()

    times, used = [], []
    for number in range(o.warmup + o.steps):
        begin, begin_used = time.perf_counter(), time.process_time()
        step()
        if number >= o.warmup:
            times.append(time.perf_counter() - begin)
            used.append(time.process_time() - begin_used)
    seconds = statistics.median(times)
    print(f"batch {o.batch}, {o.threads} threads: {1e3 * seconds:.1f} ms per step, {o.batch / seconds:.0f} events/s; "
          f"{1e3 * statistics.median(used):.0f} ms of processor time per step")


if __name__ == "__main__":
    main()
