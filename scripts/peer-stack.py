#!/usr/bin/env python3
"""Times the training of many small networks in PyTorch, to compare with `keelson-bench stack`.

The networks, the samples' shapes, the batch and the optimizer are those of `keelson-bench stack --design dense|cubes`.
--mode alone trains one network, as a program does that trains them one after the other; --mode vmap trains all members
at once with torch.func.vmap, with the fused Adam. Prints microseconds per step of a network. Needs PyTorch.

    peer-stack.py --design dense --mode alone --threads 2 [--fused] [--channels-last]
    peer-stack.py --design dense --mode vmap --threads 2 --members 100
"""

import argparse
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy

BATCH, CLASSES = 32, 6


def dense_network():
    sizes = (36, 64, 64, 64)
    hidden = [layer for n, m in zip(sizes, sizes[1:]) for layer in (nn.Linear(n, m), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(sizes[-1], CLASSES))


def cube_network():
    convolutions = [nn.Conv3d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(8, 16, 3, padding=1), nn.ReLU(),
                    nn.MaxPool3d(2)]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(16 * 3**3, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def made_batches(o):
    shape = (36,) if o.design == "dense" else (1, 12, 12, 12)
    x = 2 * torch.rand(16, BATCH, *shape) - 1
    if o.channels_last:
        x = [part.to(memory_format=torch.channels_last_3d) for part in x]
    y = torch.randint(0, CLASSES, (16, BATCH))
    return lambda step: (x[step % 16], y[step % 16])


def step_of_one(o, make, batch):
    net = make()
    if o.channels_last:
        net = net.to(memory_format=torch.channels_last_3d)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3, fused=o.fused)

    def step(number):
        x, y = batch(number)
        optimizer.zero_grad()
        cross_entropy(net(x), y).backward()
        optimizer.step()

    return step


def step_of_all(o, make, batch):
    parameters, buffers = torch.func.stack_module_state([make() for _ in range(o.members)])
    parameters = {name: p.detach().requires_grad_() for name, p in parameters.items()}
    skeleton = make().to("meta")
    optimizer = torch.optim.Adam(parameters.values(), 1e-3, fused=True)

    def loss(p, b, x, y):
        return cross_entropy(torch.func.functional_call(skeleton, (p, b), (x,)), y)

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(0, 0, None, None))

    def step(number):
        for name, gradient in gradients(parameters, buffers, *batch(number)).items():
            parameters[name].grad = gradient
        optimizer.step()

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--design", choices=("dense", "cubes"), default="dense")
    parser.add_argument("--mode", choices=("alone", "vmap"), default="alone")
    parser.add_argument("--members", type=int, default=100, help="of vmap (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--steps", type=int, default=200, help="timed steps (default: %(default)s)")
    parser.add_argument("--fused", action="store_true", help="the fused Adam")
    parser.add_argument("--channels-last", action="store_true", help="of cubes: channels-last tensors")
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    make = dense_network if o.design == "dense" else cube_network
    step = (step_of_one if o.mode == "alone" else step_of_all)(o, make, made_batches(o))
    for number in range(5):
        step(number)
    begin = time.perf_counter()
    for number in range(o.steps):
        step(number)
    seconds = (time.perf_counter() - begin) / o.steps / (1 if o.mode == "alone" else o.members)
    print(f"{o.design}, {o.mode}, {o.threads} threads: {1e6 * seconds:.1f} us per step of a network")


if __name__ == "__main__":
    main()
