"""Compares the time of a step from Python with the same step from C++: python measure_step.py --size 32 --batch 4

The time that Python adds is the time of a step in `for step in trainer` minus that of a step in Trainer.run(), whose
loop is in C++. It does not depend on the network, so a network of one weight shows it best (medians over rounds, both
ways in turn). Then CosmoFlow is trained in both ways, to see which share of a real step this time is.
"""

import argparse
import statistics
import time

import numpy

import keelson
from keelson import data, layers, nets


def step_seconds(trainer, steps):
    """Seconds per step, by run() and by a Python loop."""

    def timed(train):
        with trainer(steps) as t:
            start = time.perf_counter()
            train(t)
            return (time.perf_counter() - start) / steps

    return timed(lambda t: t.run(progress=False)), timed(lambda t: [step.loss for step in t])


def medians(trainer, steps, rounds):
    step_seconds(trainer, steps)  # warm-up
    return [statistics.median(seconds) for seconds in zip(*(step_seconds(trainer, steps) for _ in range(rounds)))]


def trainer_of(graph, arrays, batch):
    parameters = keelson.Parameters(graph, keelson.Context())
    return lambda steps: keelson.Trainer(parameters, arrays, batch=batch, epochs=10**9, max_steps=steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    o = parser.parse_args()
    graph = keelson.Graph()
    layers.mse(layers.dense(graph.input("x", (1,)), 1), graph.input("y", (1,)))
    zeros = numpy.zeros((4096, 1), "float32")
    cpp, python = medians(trainer_of(graph, {"x": zeros, "y": zeros}, 1), 20000, o.rounds)
    added = python - cpp
    print(f"one weight: C++ {1e6 * cpp:.2f} us a step, Python {1e6 * python:.2f} us")

    x = data.empty((4 * o.batch, 4, o.size, o.size, o.size))
    x[:] = numpy.random.default_rng(1).random(x.shape, dtype="float32")
    y = numpy.random.default_rng(2).random((4 * o.batch, 4), dtype="float32")
    cpp, python = medians(trainer_of(nets.cosmoflow(size=o.size), {"x": x, "y": y}, o.batch), 20, o.rounds)
    print(f"CosmoFlow {o.size}^3, batch {o.batch}: C++ {1e3 * cpp:.3f} ms a step, Python {1e3 * python:.3f} ms")
    print(f"what Python adds to a step of one weight is {100 * added / cpp:.4f} % of this one")


if __name__ == "__main__":
    main()
