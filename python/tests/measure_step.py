"""What a step costs from Python, beside the same step from C++: medians of both, in turns, in one process.

C++ makes its steps by Trainer::run(), and the time between two of them is taken where the engine calls back. Python makes
its own by `for step in trainer`. Network and batch are the same: python measure_step.py --size 32 --batch 4
"""

import argparse
import statistics
import time

import numpy

import keelson
from keelson import data, nets


class Clock:
    """Notes when each step ends."""

    def __init__(self):
        self.at = []

    def on_step(self, trainer, step):
        self.at.append(time.perf_counter())


def intervals(at):
    return [b - a for a, b in zip(at[2:], at[3:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    o = parser.parse_args()
    x = data.empty((o.batch * 4, 4, o.size, o.size, o.size))
    x[:] = numpy.random.default_rng(1).random(x.shape, dtype="float32")
    y = numpy.random.default_rng(2).random((o.batch * 4, 4), dtype="float32")
    parameters = keelson.Parameters(nets.cosmoflow(size=o.size), keelson.Context())

    def trainer(*callbacks):
        return keelson.Trainer(parameters, {"x": x, "y": y}, batch=o.batch, epochs=10**6, max_steps=o.steps,
                               callbacks=list(callbacks))

    by_cpp, by_python = [], []
    for _ in range(o.rounds):
        clock = Clock()
        with trainer(clock) as t:
            t.run()
        by_cpp += intervals(clock.at)
        at = []
        with trainer() as t:
            for step in t:
                at.append(time.perf_counter())
        by_python += intervals(at)
    cpp, python = statistics.median(by_cpp), statistics.median(by_python)
    print(f"C++ {1e3 * cpp:.3f} ms a step, Python {1e3 * python:.3f} ms: {100 * (python / cpp - 1):+.2f} % "
          f"(medians of {len(by_cpp)} steps each)")


if __name__ == "__main__":
    main()
