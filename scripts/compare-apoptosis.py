#!/usr/bin/env python3
"""Compares a network that loses units while it trains with the whole network, and with the network that is left.

    keelson-cosmoflow generate --out universes --size 16 --train 1024 --validation 128 --test 128
    OMP_NUM_THREADS=1 compare-apoptosis.py --universes universes --text text.txt --seeds 5

Three tasks: a table like HIGGS (momenta of simulated decays; five dense layers), universes (three convolutions) and a
text (two LSTM layers, 1000 words). Each network keeps the weights of the epoch that is the best on validation data, and
is judged on test data. For each seed three networks are trained:

    whole      without apoptosis
    shrinking  with apoptosis, as many epochs
    small      of the widths that the shrinking network has in the end, from the beginning, for the processor time of
               the shrinking network

Times are processor time of the training alone, with all that an event of apoptosis costs. Needs keelson, h5py, numpy.

What counts as the same metric was decided before the first comparison (MARGIN): the mean difference over the seeds of
the shrinking and the whole network is at most so much worse.
"""

import argparse
import collections
import glob
import re
import time

import numpy

import keelson
from keelson import layers, optim

# 0.5 points of AUC; 3 % of the mean absolute error; 2 % of the perplexity
MARGIN = {"table": 0.005, "universes": 0.03, "text": 0.02}


class Task:
    """Arrays of three splits, and a network of given widths. A smaller score() is better."""

    epochs, batch, rate = 10, 100, 0.001

    def network(self, widths):
        raise NotImplementedError

    def score(self, prediction, y):
        raise NotImplementedError

    def relative(self, score, whole):
        """How much worse than the whole network, as MARGIN counts it."""
        return score / whole - 1


def decays(samples, seed):
    """Four massless particles, as transverse momentum, pseudorapidity, cos and sin of the azimuth, of two decays. In
    the signal, the invariant masses of the pairs are near 1; in the background they vary widely."""
    draw = numpy.random.default_rng(seed)
    label = draw.integers(0, 2, samples)
    columns = []
    for _ in range(2):
        mass = numpy.where(label == 1, draw.normal(1, 0.15, samples), draw.gamma(4, 0.25, samples))
        boost, cosine, turn = draw.gamma(2, 0.7, samples), draw.uniform(-1, 1, samples), draw.uniform(0, 2 * numpy.pi, samples)
        azimuth, polar = draw.uniform(0, 2 * numpy.pi, samples), 2 * numpy.arctan(numpy.exp(-draw.normal(0, 1, samples)))
        sine = numpy.sqrt(1 - cosine ** 2)
        for side in (1, -1):  # in the rest frame, then boosted along z, then turned
            energy = numpy.abs(mass) / 2
            x, y, z = (side * energy * c for c in (sine * numpy.cos(turn), sine * numpy.sin(turn), cosine))
            z = numpy.sqrt(1 + boost ** 2) * z + boost * energy
            x, z = x * numpy.cos(polar) + z * numpy.sin(polar), z * numpy.cos(polar) - x * numpy.sin(polar)
            x, y = x * numpy.cos(azimuth) - y * numpy.sin(azimuth), x * numpy.sin(azimuth) + y * numpy.cos(azimuth)
            momentum = numpy.hypot(x, y) + 1e-6
            columns += [numpy.log(momentum), numpy.arcsinh(z / momentum), x / momentum, y / momentum]
    return numpy.stack(columns, 1).astype("float32"), label.astype("int32")


class Table(Task):
    epochs = 15

    def __init__(self, _):
        self.splits = [decays(n, seed) for n, seed in ((30000, 1), (10000, 2), (20000, 3))]
        mean, std = self.splits[0][0].mean(0), self.splits[0][0].std(0)
        self.splits = [(numpy.ascontiguousarray((x - mean) / std), y) for x, y in self.splits]

    def network(self, widths):
        graph = keelson.Graph("table")
        h = graph.input("x", self.splits[0][0].shape[1:])
        for i in range(1, 6):
            h = layers.tanh(layers.dense(h, widths.get(f"dense{i}", 300), name=f"dense{i}"))
        h = layers.dense(h, 2, name="out")
        graph.output("prediction", h)
        layers.loss(h, graph.input("y", (), dtype="int32"), "cross_entropy")
        return graph

    def score(self, prediction, y):
        """1 - AUC, by ranks."""
        order = numpy.argsort(prediction[:, 1] - prediction[:, 0])
        rank = numpy.empty(len(order))
        rank[order] = numpy.arange(1, len(order) + 1)
        ones = int(y.sum())
        return 1 - (rank[y == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(y) - ones))

    def relative(self, score, whole):
        return score - whole


class Universes(Task):
    epochs, batch, rate = 12, 16, 0.001

    def __init__(self, options):
        import h5py
        self.splits = []
        for part in ("train", "validation", "test"):
            xs, ys = [], []
            for path in sorted(glob.glob(f"{options.universes}/{part}/*.h5")):
                with h5py.File(path) as file:
                    xs.append(numpy.log1p(file["x"][...].astype("float32")).transpose(3, 0, 1, 2))
                    ys.append(file["y"][...])
            self.splits.append((numpy.stack(xs), numpy.ascontiguousarray(numpy.stack(ys), dtype="float32")))
        mean, std = (f(self.splits[0][0], axis=(0, 2, 3, 4), keepdims=True) for f in (numpy.mean, numpy.std))
        self.splits = [(numpy.ascontiguousarray((x - mean) / std), y) for x, y in self.splits]

    def network(self, widths):
        graph = keelson.Graph("universes")
        h = graph.input("x", self.splits[0][0].shape[1:])
        for name, filters in (("conv1", 32), ("conv2", 64), ("conv3", 128)):
            h = layers.max_pool(layers.leaky_relu(layers.conv(h, widths.get(name, filters), name=name), 0.3), 2)
        h = layers.flatten(h)
        for name, features in (("dense1", 128), ("dense2", 64)):
            h = layers.leaky_relu(layers.dense(h, widths.get(name, features), name=name), 0.3)
        h = layers.dense(h, 4, name="out")
        graph.output("prediction", h)
        layers.loss(h, graph.input("y", (4,)), "mse")
        return graph

    def score(self, prediction, y):
        return float(abs(prediction - y).mean())


class Text(Task):
    epochs, batch, rate, unroll, words = 10, 20, 0.002, 20, 1000

    def __init__(self, options):
        tokens = re.findall(r"[a-z']+|[.,;:!?\n]", open(options.text).read().lower())[:options.tokens]
        counts = collections.Counter(tokens)
        numbers = {word: i for i, (word, _) in enumerate(counts.most_common(self.words - 1), 1)}
        ids = numpy.array([numbers.get(t, 0) for t in tokens], "int32")
        ends = [0, int(0.8 * len(ids)), int(0.9 * len(ids)), len(ids)]
        self.splits = []
        for begin, end in zip(ends, ends[1:]):
            windows = (end - begin - 1) // self.unroll
            x, y = (ids[begin + o:begin + o + windows * self.unroll].reshape(windows, -1).copy() for o in (0, 1))
            self.splits.append((x, y))

    def network(self, widths):
        graph = keelson.Graph("text")
        x = graph.input("x", (self.unroll,), dtype="int32")
        h = layers.embedding(x, self.words, widths.get("embedding", 128), name="embedding")
        for name in ("lower", "upper"):
            h = layers.lstm(h, widths.get(f"{name}1", 128), name=name)
        h = layers.dense(h, self.words, name="out")
        graph.output("prediction", h)
        layers.loss(h, graph.input("y", (self.unroll,), dtype="int32"), "cross_entropy")
        return graph

    def score(self, prediction, y):
        """Perplexity."""
        logits = prediction.reshape(-1, self.words).astype("float64")
        logits -= logits.max(1, keepdims=True)
        likely = logits[numpy.arange(len(logits)), y.reshape(-1)] - numpy.log(numpy.exp(logits).sum(1))
        return float(numpy.exp(-likely.mean()))


TASKS = {"table": Table, "universes": Universes, "text": Text}


def trained(task, seed, widths, epochs, apoptosis="off", log=None):
    """Scores on test data by the epoch that is the best on validation data; parameters; seconds; widths; of the last
    epoch: seconds."""
    graph = task.network(widths)
    parameters = keelson.Parameters(graph, keelson.Context(), seed=seed)
    (x, y), *others = task.splits
    trainer = keelson.Trainer(parameters, {"x": x, "y": y}, batch=task.batch, epochs=epochs, optimizer=optim.Adam(),
                              learning_rate=optim.Schedule(task.rate, "cosine", epochs=epochs), seed=seed, apoptosis=apoptosis)
    best, took, of_epoch, begin = (numpy.inf, numpy.inf), 0, 0, time.process_time()
    per_epoch = -(-len(x) // task.batch)
    for number, _ in enumerate(trainer, 1):
        if number % per_epoch:
            continue
        of_epoch = time.process_time() - begin
        took += of_epoch
        inference = keelson.Inference(parameters, batch=100)
        best = min(best, tuple(task.score(inference(part[0]), part[1]) for part in others))
        if log:
            log(f"    epoch {number // per_epoch}: {of_epoch:.2f} s, validation {best[0]:.4f}, {sizes(parameters)}")
        begin = time.process_time()
    count = sum(array.size for array in parameters.values())
    return best[1], count, took, sizes(parameters), of_epoch


def sizes(parameters):
    """Units of each layer but the last one."""
    found = {}
    for name, array in parameters.items():
        layer = name.split("/")[0]
        if name.endswith("/weights") and layer != "out":
            found[layer] = array.shape[1 if layer == "embedding" else 0] // (4 if layer in ("lower1", "upper1") else 1)
    return found


def compare(name, task, options):
    print(f"{name}: {len(task.splits[0][0])} samples, {task.epochs} epochs, margin {MARGIN[name]}")
    rows = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        log = print if options.verbose else None
        whole = trained(task, seed, {}, task.epochs, log=log)
        shrinking = trained(task, seed, {}, task.epochs, options.apoptosis, log)
        epochs = max(1, round(shrinking[2] / shrinking[4]))
        small = trained(task, seed, shrinking[3], epochs, log=log)
        rows.append((whole, shrinking, small))
        for what, r in zip(("whole", f"shrinking to {shrinking[3]}", f"small, {epochs} epochs"), rows[-1]):
            print(f"  seed {seed} {what}: score {r[0]:.4f}, {r[1]} parameters, {r[2]:.1f} s", flush=True)
    table = numpy.array([[r[:3] for r in row] for row in rows])  # seed, network, (score, parameters, seconds)
    for i, what in enumerate(("whole", "shrinking", "small for the same time")):
        mean, spread = table[:, i].mean(0), table[:, i, 0].std(ddof=1) if len(rows) > 1 else 0
        print(f"| {name} | {what} | {mean[0]:.4f} ± {spread:.4f} | {mean[1]:.0f} | {mean[2]:.1f} s |")
    worse = [numpy.mean([task.relative(row[i][0], row[j][0]) for row in rows]) for i, j in ((1, 0), (1, 2))]
    print(f"{name}: shrinking against whole: {worse[0]:+.4f} ({'same' if worse[0] <= MARGIN[name] else 'worse'}), "
          f"parameters / {table[:, 0, 1].mean() / table[:, 1, 1].mean():.1f}, "
          f"time {100 * (table[:, 1, 2].mean() / table[:, 0, 2].mean() - 1):+.0f} %; against small: {worse[1]:+.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="table,universes,text", help="some of table, universes, text")
    parser.add_argument("--universes", help="folder of keelson-cosmoflow generate")
    parser.add_argument("--text", help="a text file")
    parser.add_argument("--tokens", type=int, default=120000, help="of the text's beginning")
    parser.add_argument("--apoptosis", default="normal")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    for name in options.tasks.split(","):
        compare(name, TASKS[name](options), options)


if __name__ == "__main__":
    main()
