#!/usr/bin/env python3
"""Compares five networks that are trained to the end with one that trains for the same processor time.

    keelson-cosmoflow generate --out universes --prior wide --size 8 --train 2000 --validation 500 --test 500
    compare-ensemble.py universes --ensembles 5
    compare-ensemble.py letter.csv --ensembles 5

Of a folder of universes, each network predicts mean and variance of the four parameters, and learns by the normal
distribution's negative logarithm. Of a table with classes in its last column, a dense network learns the classes from
80 % of the rows; 10 % are validation data, 10 % test data. A network keeps the weights of the epoch whose validation data
it predicts best, and a member ends when 10 epochs have brought nothing. All predictions are calibrated on the validation
data: by a factor on the variance of each parameter, or by the temperature of the averaged probabilities. Prints the
scores on the test data. Needs the packages keelson and h5py.
"""

import argparse
import csv
import glob
import math
import time

import h5py
import numpy

import keelson
from keelson import layers, optim

TARGETS, PATIENCE = 4, 10


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


class Universes:
    """Numbers: mean and variance of each."""

    names, judge, batch = ("MAE", "CRPS", "NLL"), 2, 16

    def __init__(self, folder):
        self.train, self.validation, self.test = (read(f"{folder}/{part}") for part in ("train", "validation", "test"))
        mean, std = self.train[0].mean((0, 2, 3, 4), keepdims=True), self.train[0].std((0, 2, 3, 4), keepdims=True)
        for x, _ in (self.train, self.validation, self.test):
            x -= mean
            x /= std

    network = staticmethod(network)
    predict = staticmethod(moments)

    def loss(self, predicted, y):
        return nll(*predicted, y)

    def scores(self, found, validation):
        scale = ((self.validation[1] - validation[0]) ** 2 / validation[1]).mean(0)
        mean, variance, y = found[0], scale * found[1], self.test[1]
        return [float(abs(y - mean).mean()), crps(mean, variance, y), nll(mean, variance, y)]

    @staticmethod
    def mixture(members):
        """The mean of the means; the mean of the variances, and the variance of the means."""
        return (numpy.mean([m for m, _ in members], 0),
                numpy.mean([v for _, v in members], 0) + numpy.var([m for m, _ in members], 0))


def cross_entropy(p, y):
    return float(-numpy.log(numpy.maximum(p[numpy.arange(len(y)), y], 1e-300)).mean())


def calibration_error(p, y, bins=15):
    """ECE: how far confidence and accuracy are apart in each bin of confidence, weighted by the predictions in it."""
    confidence, right = p.max(1), p.argmax(1) == y
    bin_of = numpy.minimum((confidence * bins).astype(int), bins - 1)
    return sum(abs(float((right[bin_of == b] - confidence[bin_of == b]).sum())) for b in range(bins)) / len(y)


def tempered(p, temperature):
    logits = numpy.log(numpy.maximum(p, 1e-300)) / temperature
    powers = numpy.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


class Table:
    """Classes: the probability of each."""

    names, judge, batch = ("error", "ECE", "NLL"), 2, 64

    def __init__(self, file):
        with open(file, newline="") as rows:
            rows = list(csv.reader(rows))[1:]
        x = numpy.array([row[:-1] for row in rows], "f4")
        classes, y = numpy.unique([row[-1] for row in rows], return_inverse=True)
        self.classes, order = len(classes), numpy.random.default_rng(1).permutation(len(y))
        tenth = len(y) // 10
        parts = order[2 * tenth:], order[:tenth], order[tenth:2 * tenth]
        x = (x - x[parts[0]].mean(0)) / (x[parts[0]].std(0) + 1e-6)
        self.train, self.validation, self.test = ((x[p], y[p].astype("i4")) for p in parts)

    def network(self, sample):
        graph = keelson.Graph("classes")
        x, y = graph.input("x", sample), graph.input("y", (), "int32")
        h = layers.dropout(layers.relu(layers.dense(x, 128, name="dense1")), 0.2)
        h = layers.dropout(layers.relu(layers.dense(h, 128, name="dense2")), 0.2)
        h = layers.dense(h, self.classes, name="head")
        graph.output("prediction", h)
        layers.loss(h, y, "cross_entropy")
        return graph

    @staticmethod
    def predict(parameters, x):
        return tempered(numpy.exp(keelson.Inference(parameters, batch=256)(x).astype("float64")), 1)

    def loss(self, predicted, y):
        return cross_entropy(predicted, y)

    def scores(self, found, validation):
        temperatures = numpy.geomspace(0.25, 4, 161)
        best = min(temperatures, key=lambda t: cross_entropy(tempered(validation, t), self.validation[1]))
        p, y = tempered(found, best), self.test[1]
        return [float((p.argmax(1) != y).mean()), calibration_error(p, y), cross_entropy(p, y)]

    @staticmethod
    def mixture(members):
        return numpy.mean(members, 0)


def trained(task, seed, seconds=None):
    """Predictions of the test and of the validation data by the best weights, the epochs, and the processor time.
    Without `seconds`: until the validation data are not predicted better any more."""
    graph = task.network(task.train[0].shape[1:])
    parameters = keelson.Parameters(graph, keelson.Context(), seed=seed)
    x, y = map(numpy.ascontiguousarray, task.train)
    trainer = keelson.Trainer(parameters, {"x": x, "y": y}, batch=task.batch, epochs=10 ** 5, optimizer=optim.Adam(),
                              learning_rate=0.001, seed=seed)
    begin, best, best_epoch, found = time.process_time(), math.inf, 0, None
    for number, _ in enumerate(trainer, 1):
        epoch, rest = divmod(number, -(-len(x) // task.batch))
        if rest:
            continue
        validation = task.predict(parameters, task.validation[0])
        loss = task.loss(validation, task.validation[1])
        if loss < best:
            best, best_epoch, found = loss, epoch, (task.predict(parameters, task.test[0]), validation)
        took = time.process_time() - begin
        if took > seconds if seconds else epoch - best_epoch >= PATIENCE:
            return found, epoch, took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a folder of universes, or a table: FILE.csv")
    parser.add_argument("--ensembles", type=int, default=5)
    options = parser.parse_args()
    task, rows = (Table if options.data.endswith(".csv") else Universes)(options.data), {}
    for ensemble in range(options.ensembles):
        members = [trained(task, 100 * ensemble + m) for m in range(5)]
        seconds = sum(took for _, _, took in members)
        one, epochs, _ = trained(task, 100 * ensemble + 50, seconds)
        each = [task.scores(*found) for found, _, _ in members]
        mixed = [task.mixture([found[part] for found, _, _ in members]) for part in range(2)]
        of_this = {"mean of the five members": numpy.mean(each, 0),
                   "best of the five members": min(each, key=lambda s: s[task.judge]),
                   "ensemble of the five": task.scores(*mixed), "one network for the same time": task.scores(*one)}
        print(f"ensemble {ensemble}: members of {', '.join(str(e) for _, e, _ in members)} epochs, {seconds:.0f} s; the one: {epochs}")
        for name, scores in of_this.items():
            rows.setdefault(name, []).append(scores)
            told = ", ".join(f"{score} {value:.4f}" for score, value in zip(task.names, scores))
            print(f"  {name}: {told}", flush=True)
    for name, scores in rows.items():
        print(f"| {name} |", " | ".join(f"{mean:.4f}" for mean in numpy.mean(scores, 0)), "|")


if __name__ == "__main__":
    main()
