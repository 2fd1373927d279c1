#!/usr/bin/env python3
"""Compares five networks that are trained to the end with one that trains for the same processor time.

    keelson-cosmoflow generate --out universes --prior wide --size 8 --train 2000 --validation 500 --test 500
    compare-ensemble.py universes --ensembles 5

Each network predicts mean and variance of the four parameters, learns by the normal distribution's negative logarithm,
and keeps the weights of the epoch whose validation data it predicts best. A member ends when 10 epochs have brought
nothing. All predictions are calibrated: a factor on the variance of each parameter, which fits the validation data best.
Prints the scores on the test data. Needs the packages keelson and h5py.
"""

import argparse
import glob
import math
import time

import h5py
import numpy

import keelson
from keelson import layers, optim

TARGETS, PATIENCE, BATCH = 4, 10, 16


def read(folder):
    xs, ys = [], []
    for path in sorted(glob.glob(f"{folder}/*.h5")):
        with h5py.File(path) as file:
            xs.append(numpy.log1p(file["x"][...].astype("float32")).transpose(3, 0, 1, 2))
            ys.append(file["y"][...])
    return numpy.stack(xs), numpy.ascontiguousarray(numpy.stack(ys), dtype="float32")


def network(sample):
    graph = keelson.Graph("mean and variance")
    x, y = graph.input("x", sample), graph.input("y", (TARGETS,))
    h = layers.max_pool(layers.relu(layers.conv(x, 16, name="conv1")), 2)
    h = layers.max_pool(layers.relu(layers.conv(h, 32, name="conv2")), 2)
    h = layers.dropout(layers.relu(layers.dense(layers.flatten(h), 64, name="dense1")), 0.3)
    h = layers.dense(h, 2 * TARGETS, name="head")
    graph.output("prediction", h)
    layers.loss(h, y, "gaussian_nll")
    return graph


def moments(parameters, x):
    """Means and variances."""
    found = keelson.Inference(parameters, batch=128)(x).astype("float64")
    return found[:, :TARGETS], numpy.logaddexp(0, found[:, TARGETS:]) + 1e-6


def nll(mean, variance, y):
    return float((numpy.log(2 * math.pi * variance) + (y - mean) ** 2 / variance).mean() / 2)


def crps(mean, variance, y):
    """Of normal distributions (Gneiting et al. 2005)."""
    s = numpy.sqrt(variance)
    z = (y - mean) / s
    density = numpy.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return float((s * (z * numpy.vectorize(math.erf)(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))).mean())


class Comparison:
    def __init__(self, folder):
        self.train, self.validation, self.test = (read(f"{folder}/{part}") for part in ("train", "validation", "test"))
        mean, std = self.train[0].mean((0, 2, 3, 4), keepdims=True), self.train[0].std((0, 2, 3, 4), keepdims=True)
        for x, _ in (self.train, self.validation, self.test):
            x -= mean
            x /= std

    def trained(self, seed, seconds=None):
        """Moments of the test and the validation data by the best weights, the epochs, and the processor time. Without
        `seconds`: until the validation data are not predicted better any more."""
        graph = network(self.train[0].shape[1:])
        parameters = keelson.Parameters(graph, keelson.Context(), seed=seed)
        x, y = map(numpy.ascontiguousarray, self.train)
        trainer = keelson.Trainer(parameters, {"x": x, "y": y}, batch=BATCH, epochs=10 ** 5, optimizer=optim.Adam(),
                                  learning_rate=0.001, seed=seed)
        begin, best, best_epoch, found = time.process_time(), math.inf, 0, None
        for number, _ in enumerate(trainer, 1):
            epoch, rest = divmod(number, len(x) // BATCH)
            if rest:
                continue
            validation = moments(parameters, self.validation[0])
            score = nll(*validation, self.validation[1])
            if score < best:
                best, best_epoch, found = score, epoch, (moments(parameters, self.test[0]), validation)
            took = time.process_time() - begin
            if took > seconds if seconds else epoch - best_epoch >= PATIENCE:
                return found, epoch, took

    def scores(self, found):
        """MAE, CRPS and NLL of the test data, calibrated."""
        (mean, variance), (validation_mean, validation_variance) = found
        scale = ((self.validation[1] - validation_mean) ** 2 / validation_variance).mean(0)
        y = self.test[1]
        return [float(abs(y - mean).mean()), crps(mean, scale * variance, y), nll(mean, scale * variance, y)]


def mixture(members):
    """The mean of the means; the mean of the variances, and the variance of the means."""
    return [(numpy.mean([m for m, _ in part], 0), numpy.mean([v for _, v in part], 0) + numpy.var([m for m, _ in part], 0))
            for part in zip(*members)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--ensembles", type=int, default=5)
    options = parser.parse_args()
    comparison, rows = Comparison(options.folder), {}
    for ensemble in range(options.ensembles):
        members = [comparison.trained(100 * ensemble + m) for m in range(5)]
        seconds = sum(took for _, _, took in members)
        one, epochs, _ = comparison.trained(100 * ensemble + 50, seconds)
        each = [comparison.scores(found) for found, _, _ in members]
        of_this = {"mean of the five members": numpy.mean(each, 0), "best of the five members": min(each, key=lambda s: s[2]),
                   "ensemble of the five": comparison.scores(mixture([found for found, _, _ in members])),
                   "one network for the same time": comparison.scores(one)}
        print(f"ensemble {ensemble}: members of {', '.join(str(e) for _, e, _ in members)} epochs, {seconds:.0f} s; the one: {epochs}")
        for name, scores in of_this.items():
            rows.setdefault(name, []).append(scores)
            print(f"  {name}: MAE {scores[0]:.4f}, CRPS {scores[1]:.4f}, NLL {scores[2]:.4f}", flush=True)
    for name, scores in rows.items():
        print(f"| {name} |", " | ".join(f"{mean:.3f}" for mean in numpy.mean(scores, 0)), "|")


if __name__ == "__main__":
    main()
