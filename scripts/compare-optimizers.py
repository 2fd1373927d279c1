#!/usr/bin/env python3
"""Compares optimizers at several global batch sizes: steps and seconds to the same validation error.

    ./dev python scripts/compare-optimizers.py run --task universes --out comparison
    ./dev python scripts/compare-optimizers.py run --task weather --out comparison
    ./dev python scripts/compare-optimizers.py time --out comparison     # alone on the machine: seconds of a step
    ./dev python scripts/compare-optimizers.py report --out comparison   # tables in Markdown, and a figure of each task

Each optimizer trains the same network with the same number of settings (TRIALS): that with the least validation error at
the end is the best one, and trains with three seeds. The learning rate is constant. The settings for universes are
tried by keelson-search's method "grid"; those for weather one after the other. A run that was ended goes on where it was.
"""

import argparse
import glob
import json
import math
import os
import statistics
import time

import h5py
import numpy

import keelson
import keelson.data
from keelson import layers, optim

# The settings of each optimizer: learning rates, and texts for --optimizer-options. All others are the defaults.
TRIALS = {
    "sgd": (("0.001", "0.003", "0.01", "0.03", "0.1", "0.3"), ("momentum=0.9",)),
    "adam": (("0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03"), ("",)),
    "lars": (("0.01", "0.03", "0.1", "0.3", "1", "3"), ("momentum=0.9",)),
    "lamb": (("0.0003", "0.001", "0.003", "0.01", "0.03", "0.1"), ("nvlamb=true",)),
    "kfac": (("0.001", "0.003", "0.01", "0.03", "0.1", "0.3"), ("",)),
    "shampoo": (("0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03"), ("",)),
    "muon": (("0.0003", "0.001", "0.003", "0.01", "0.03", "0.1"), ("",)),
}
NAMES = {"sgd": "SGD", "adam": "Adam", "lars": "LARS", "lamb": "LAMB", "kfac": "K-FAC", "shampoo": "Shampoo",
         "muon": "Muon"}
COLORS = dict(zip(NAMES, ("#2a78d6", "#d9653b", "#7a7f87", "#a45bb8", "#1f9e6e", "#c2a11d", "#cf3f6e")))
SEEDS = (1, 2, 3)
BATCHES = (4, 32, 256)

# Steps of a run by batch, and steps from one validation to the next.
STEPS = {"universes": {4: (2500, 100), 32: (625, 25), 256: (390, 13)},
         "weather": {4: (300, 20), 32: (80, 5), 256: (24, 2)}}
ERROR_NAMES = {"universes": "mean squared error", "weather": "loss"}


def make_optimizer(name, options):
    """An object of keelson.optim from its name in small letters and "damping=0.03,...": the numbers of its settings."""
    classes = {c.__name__.lower(): c for c in vars(optim).values() if isinstance(c, type)}
    values = (text.split("=") for text in options.split(",") if text)
    return classes[name](**{k: v == "true" if v in ("true", "false") else float(v) if "." in v else int(v)
                            for k, v in values})


def settings_of(optimizer):
    rates, options = TRIALS[optimizer]
    return [(rate, option) for option in options for rate in rates]


class Task:
    """A network and its data. Subclasses have graph(), training and validation."""

    def train(self, optimizer, batch, rate, options, seed, steps, interval):
        """The curve [[step, validation error], ...] of a training, and the seconds of each step."""
        parameters = keelson.Parameters(self.graph(), keelson.Context(), seed=seed)
        trainer = keelson.Trainer(parameters, self.training, self.validation, batch=batch, epochs=10**6, max_steps=steps,
                                  optimizer=make_optimizer(optimizer, options), learning_rate=float(rate), seed=seed)
        curve, times, before = [], [], time.perf_counter()
        for step in trainer:
            now = time.perf_counter()
            times.append(now - before)
            if step.step % interval == 0:
                error = trainer.validate().loss
                curve.append([step.step, error if math.isfinite(error) else None])
                if curve[-1][1] is None:
                    break
            before = time.perf_counter()
        return curve, times

    def tune(self, optimizer, batch, settings, steps):
        """The errors at the end of a training with each of the settings."""
        errors = []
        for rate, options in settings:
            curve, _ = self.train(optimizer, batch, rate, options, SEEDS[0], steps, steps)
            errors.append(curve[-1][1] if curve else None)
        return errors


class Universes(Task):
    """A convolutional network on universes of 8^3 cells, tuned by keelson-search."""

    def __init__(self, folder):
        self.folder = folder
        keelson.data.generate_universes(folder, train=10000, validation=1000, size=8, seed=1)
        arrays = {}
        for part in ("train", "validation"):
            path = f"{folder}/{part}.npz"
            if not os.path.exists(path):
                files = sorted(glob.glob(f"{folder}/{part}/*.h5"))
                x, y = zip(*(read_sample(f) for f in files))
                numpy.savez(path, x=numpy.log1p(numpy.array(x, "float32")), y=numpy.array(y, "float32"))
            arrays[part] = dict(numpy.load(path))
        # keelson-search standardises features and targets in this way.
        mean, deviation = arrays["train"]["x"].mean((0, 1, 2, 3)), arrays["train"]["x"].std((0, 1, 2, 3))
        y_mean, y_deviation = arrays["train"]["y"].mean(0), arrays["train"]["y"].std(0)
        self.training, self.validation = ({"x": numpy.moveaxis((a["x"] - mean) / deviation, -1, 1).astype("float32"),
                                           "y": ((a["y"] - y_mean) / y_deviation).astype("float32")}
                                          for a in (arrays["train"], arrays["validation"]))

    def graph(self):
        graph = keelson.Graph("universes")
        x, y = graph.input("x", (4, 8, 8, 8)), graph.input("y", (4,))
        h = layers.conv(x, 16, 3, stride=2, activation="relu", name="conv1")
        h = layers.conv(h, 16, 3, stride=2, activation="relu", name="conv2")
        h = layers.dense(layers.flatten(h), 64, activation="relu", name="dense1")
        h = layers.dense(h, 4, name="dense2")
        graph.output("prediction", h)
        layers.mse(h, y)
        return graph

    def tune(self, optimizer, batch, settings, steps):
        space = {"stages": {"number": [2, 2], "kind": ["conv"], "filters": [16], "kernel_d": [3], "kernel_h": [3],
                            "kernel_w": [3], "stride": [2], "padding": ["same"], "activation": ["relu"],
                            "batch_norm": ["no"], "dropout": ["0"]},
                 "dense": {"layers": [1, 1], "units": [64], "activation": ["relu"], "batch_norm": ["no"],
                           "dropout": ["0"]},
                 "training": {"optimizer": [optimizer], "batch": [batch], "schedule": ["constant"], "warmup": ["0"],
                              "momentum": ["0.9"], "weight_decay": ["0"],
                              "rate": sorted({float(rate) for rate, _ in settings}),
                              "options": sorted({options for _, options in settings})}}
        found = keelson.search(f"{self.folder}/train.npz", validation=f"{self.folder}/validation.npz", classes=False,
                               layout="channels_last", method="grid", space=space, seed=SEEDS[0], networks=100,
                               epochs=round(steps * batch / len(self.training["y"])), out=f"{self.folder}/search",
                               overwrite=True, progress=False)
        errors = {}
        for network in found.networks:
            training = network.genome["training"]
            errors[float(training["rate"]), training["options"]] = network.loss
        return [errors.get((float(rate), options)) for rate, options in settings]


def read_sample(path):
    with h5py.File(path) as f:
        return f["x"][()], f["y"][()]


class Weather(Task):
    """A small Tiramisu on generated snapshots of 64 x 96 points."""

    def __init__(self, folder):
        grid = {"rows": 64, "columns": 96}
        keelson.data.generate_snapshots(folder, train=1024, validation=64, cyclones=5, rivers=5, **grid)
        self.training = keelson.data.SnapshotDataset(folder + "/train")
        self.validation = keelson.data.SnapshotDataset(folder + "/validation", like=self.training)
        self.graph = lambda: keelson.nets.tiramisu(**grid, first=8, growth=8, blocks=[1, 1], kernel=3, loss="deepcam")


TASKS = {"universes": Universes, "weather": Weather}


def load(path):
    return json.load(open(path)) if os.path.exists(path) else {}


def store(path, content):
    with open(path + ".new", "w") as f:
        json.dump(content, f)
    os.replace(path + ".new", path)


def least(curve):
    """The least error of a curve; infinite if the training failed."""
    errors = [e for _, e in curve if e is not None and math.isfinite(e)]
    return min(errors, default=math.inf)


def run(args):
    os.makedirs(args.out, exist_ok=True)
    path = f"{args.out}/{args.task}.json"
    results, task = load(path), TASKS[args.task](f"{args.out}/{args.task}")
    for batch in args.batches:
        for optimizer in args.optimizers:
            cell = results.setdefault(f"{optimizer} {batch}", {})
            settings, (steps, interval) = settings_of(optimizer), STEPS[args.task][batch]
            if "best" not in cell:
                cell["errors"] = task.tune(optimizer, batch, settings, steps)
                cell["best"] = min(range(len(settings)), key=lambda i: least([[0, cell["errors"][i]]]))
                store(path, results)
            cell.setdefault("curves", [])
            for seed in SEEDS[len(cell["curves"]):]:
                curve, times = task.train(optimizer, batch, *settings[cell["best"]], seed, steps, interval)
                cell["step_ms"] = 1e3 * statistics.median(times)
                cell["curves"].append(curve)
                store(path, results)
            print(f"{args.task} batch {batch} {optimizer}: best {settings[cell['best']]}, errors",
                  *(f"{least(c):.4f}" for c in cell["curves"]), flush=True)


def time_steps(args):
    """Times the steps 3 to 12 of each optimizer and batch, in turns, three times. Their mean counts what K-FAC does every
    10 steps."""
    for name in TASKS:
        path = f"{args.out}/{name}.json"
        results = load(path)
        if not results:
            continue
        task, means = TASKS[name](f"{args.out}/{name}"), {}
        for _ in range(3):
            for key, cell in results.items():
                optimizer, batch = key.split()
                _, times = task.train(optimizer, int(batch), *settings_of(optimizer)[cell["best"]], 1, 12, 10**9)
                means.setdefault(key, []).append(statistics.mean(times[2:]))
        for key, values in means.items():
            results[key]["step_ms"] = 1e3 * statistics.median(values)
            print(name, key, f"{results[key]['step_ms']:.3f} ms a step", flush=True)
        store(path, results)


def steps_to(curve, error):
    """The step at which the error is reached, by interpolation between validations; infinite if it is not."""
    before = None
    for step, e in curve:
        if e is not None and e <= error:
            return step if before is None or before[1] == e else step - (step - before[0]) * (error - e) / (before[1] - e)
        before = (step, e) if e is not None else None
    return math.inf


def shown(number, form="{:.0f}"):
    return form.format(number) if math.isfinite(number) else "-"


def report(args):
    if not any(os.path.exists(f"{args.out}/{name}.json") for name in TASKS):
        raise SystemExit(f"compare-optimizers: no results in {args.out}; first: compare-optimizers.py run --out {args.out}")
    for name in TASKS:
        results = load(f"{args.out}/{name}.json")
        batches = [b for b in BATCHES if any(key.endswith(f" {b}") and "curves" in c for key, c in results.items())]
        for batch in batches:
            cells = {o: results[f"{o} {batch}"] for o in NAMES if "curves" in results.get(f"{o} {batch}", {})}
            if "adam" not in cells:
                continue
            error = statistics.median(least(c) for c in cells["adam"]["curves"])
            adam = statistics.median(steps_to(c, error) for c in cells["adam"]["curves"])
            print(f"\n{name}, batch {batch}: steps and seconds to Adam's best {ERROR_NAMES[name]}, {error:.4f}\n")
            print("| optimizer | best setting | least error | steps | of Adam's | ms a step | seconds |\n|---|---|---|---|---|---|---|")
            for optimizer, cell in cells.items():
                rate, options = settings_of(optimizer)[cell["best"]]
                steps = statistics.median(steps_to(c, error) for c in cell["curves"])
                ms = cell.get("step_ms", math.nan)
                edge = " (at the edge)" if rate in (TRIALS[optimizer][0][0], TRIALS[optimizer][0][-1]) else ""
                print(f"| {NAMES[optimizer]} | lr {rate}{edge} {options} | "
                      f"{statistics.median(least(c) for c in cell['curves']):.4f} | {shown(steps)} | "
                      f"{shown(steps / adam, '{:.2f}')} | {shown(ms, '{:.2f}')} | {shown(steps * ms / 1e3, '{:.2f}')} |")
        if batches:
            plot(f"{args.out}/{name}.svg", name, results, batches)


def plot(path, name, results, batches):
    """Medians of the error over steps, a panel for each batch."""
    width, height, left, top = 330, 250, 60, 30
    parts = []
    for column, batch in enumerate(batches):
        cells = {o: results[f"{o} {batch}"]["curves"] for o in NAMES if "curves" in results.get(f"{o} {batch}", {})}
        medians = {o: [[points[0][0], statistics.median(e if e is not None else math.inf for _, e in points)]
                       for points in zip(*curves)] for o, curves in cells.items()}
        finite = [e for m in medians.values() for _, e in m if math.isfinite(e)]
        if not finite:
            continue
        low, high = min(finite) * 0.98, min(max(finite), 1.05 * medians.get("adam", [[0, max(finite)]])[0][1])
        last = max(m[-1][0] for m in medians.values() if m)
        x0 = left + column * (width + 60)

        def point(step, error):
            part = (math.log(max(min(error, high), low)) - math.log(low)) / (math.log(high) - math.log(low))
            return f"{x0 + width * step / last:.1f},{top + height * (1 - part):.1f}"

        parts.append(f'<text x="{x0 + width / 2}" y="18" text-anchor="middle" font-weight="600">batch {batch}</text>')
        parts.append(f'<path d="M{x0},{top}V{top + height}H{x0 + width}" fill="none" stroke="#888"/>')
        for k in range(5):
            error = low * (high / low) ** (k / 4)
            y = top + height * (1 - k / 4)
            parts.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{error:.3g}</text>'
                         f'<path d="M{x0},{y:.1f}h{width}" stroke="#8883"/>')
        for k in range(1, 5):
            parts.append(f'<text x="{x0 + width * k / 4}" y="{top + height + 16}" text-anchor="middle">'
                         f"{last * k / 4:.0f}</text>")
        parts.append(f'<text x="{x0 + width / 2}" y="{top + height + 34}" text-anchor="middle">steps</text>')
        for optimizer, points in medians.items():
            parts.append(f'<polyline fill="none" stroke-width="1.8" stroke="{COLORS[optimizer]}" points="'
                         + " ".join(point(*p) for p in points) + '"/>')
    for k, optimizer in enumerate(NAMES):
        x = left + 110 * k
        parts.append(f'<path d="M{x},{top + height + 56}h22" stroke-width="3" stroke="{COLORS[optimizer]}"/>'
                     f'<text x="{x + 28}" y="{top + height + 60}">{NAMES[optimizer]}</text>')
    parts.append(f'<text x="14" y="{top + height / 2}" text-anchor="middle" transform="rotate(-90 14 {top + height / 2})">'
                 f"{ERROR_NAMES[name]}, validation</text>")
    total = left + len(batches) * (width + 60)
    with open(path, "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {top + height + 76}" font-family="sans-serif" '
                f'font-size="12" fill="#555">{"".join(parts)}</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "time", "report"))
    parser.add_argument("--task", choices=sorted(TASKS), default="universes")
    parser.add_argument("--out", default="comparison", help="folder of the data and the results")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)))
    parser.add_argument("--optimizers", default=",".join(TRIALS))
    args = parser.parse_args()
    for name, known in (("batches", [str(b) for b in BATCHES]), ("optimizers", list(TRIALS))):
        wrong = [word for word in getattr(args, name).split(",") if word not in known]
        if wrong:
            parser.error(f"--{name}: found {wrong[0]!r}, expected a list of {', '.join(known)}")
    args.batches = [int(b) for b in args.batches.split(",")]
    args.optimizers = args.optimizers.split(",")
    {"run": run, "time": time_steps, "report": report}[args.what](args)


if __name__ == "__main__":
    main()
