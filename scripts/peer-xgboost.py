#!/usr/bin/env python3
"""Trains boosted trees on the tables of `keelson-tabular generate`, to compare with its networks.

    keelson-tabular generate --out collisions --train 50000 --validation 5000 --test 20000
    peer-xgboost.py collisions

Trees of depth 4, 6 and 8 (hist) with learning rate 0.05, each from 80 % of the rows and 80 % of the columns; the validation rows
choose the depth and the number of trees, at most 2000. Prints the area under the curve (AUC) on the test rows, median and
range over the seeds, of the columns that are measured, those that are derived, and all. Needs xgboost and numpy.
"""

import argparse
import pathlib
import time

import numpy
import xgboost

COLUMNS = {"the 21 that are measured": slice(1, 22), "the 7 that are derived": slice(22, 29), "all 28": slice(1, 29)}


def rows(folder):
    return numpy.concatenate([numpy.loadtxt(file, delimiter=",", skiprows=1, dtype="float32")
                              for file in sorted(pathlib.Path(folder).glob("*.csv"))])


def area_under_curve(scores, label):
    """The probability that a row of class 1 has a higher score than one of class 0, by ranks; scores are nearly all
    different."""
    rank = numpy.empty(len(scores))
    rank[numpy.argsort(scores)] = numpy.arange(1, len(scores) + 1)
    ones = int(label.sum())
    return (rank[label == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(label) - ones))


def boosted(parts, columns, seed, threads):
    """AUC on the test rows by the trees that are the best on the validation rows; their depth and number; seconds."""
    train, validation, test = (xgboost.DMatrix(part[:, columns], part[:, 0]) for part in parts)
    found, begin = [], time.monotonic()
    for depth in (4, 6, 8):
        settings = {"objective": "binary:logistic", "eval_metric": "auc", "max_depth": depth, "eta": 0.05,
                    "subsample": 0.8, "colsample_bytree": 0.8, "tree_method": "hist", "seed": seed, "nthread": threads}
        trees = xgboost.train(settings, train, 2000, evals=[(validation, "validation")], early_stopping_rounds=50,
                              verbose_eval=False)
        found.append((trees.best_score, depth, trees))
    _, depth, trees = max(found, key=lambda f: f[0])
    count = trees.best_iteration + 1
    auc = area_under_curve(trees.predict(test, iteration_range=(0, count)), test.get_label())
    return auc, depth, count, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="with train/, validation/ and test/")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    parts = [rows(pathlib.Path(options.folder) / part) for part in ("train", "validation", "test")]
    for name, columns in COLUMNS.items():
        of_seeds = [boosted(parts, columns, seed, options.threads) for seed in range(1, options.seeds + 1)]
        aucs = sorted(auc for auc, *_ in of_seeds)
        print(f"{name}: AUC {numpy.median(aucs):.3f} ({aucs[0]:.3f} to {aucs[-1]:.3f}); depth and number of trees "
              f"{', '.join(f'{depth} x {count}' for _, depth, count, _ in of_seeds)}; "
              f"{numpy.median([seconds for *_, seconds in of_seeds]):.0f} s a seed", flush=True)


if __name__ == "__main__":
    main()
