#!/usr/bin/env python3
"""Runs Optuna's TPE on the table of a grid, to compare with `keelson-search compare --also FILE`.

    peer-search.py grid/search.jsonl --seeds 100 --networks 200 --out tpe.json

The trials of a seed are made one after the other, so each knows the results of all before. A genome that TPE draws twice
counts twice. Needs the package optuna.
"""

import argparse
import json

import optuna


def read_table(path):
    """The space, and the loss after the longest training by genome."""
    space, genomes, losses, rungs = None, [], {}, 0
    seen = set()
    for line in filter(str.strip, open(path)):
        entry = json.loads(line)
        if entry["type"] == "search":
            space = entry["space"]
        elif entry["type"] == "birth":
            key = json.dumps(entry["genome"], sort_keys=True)
            if key not in seen:
                seen.add(key)
                genomes.append(key)
        elif entry["type"] == "result":
            rungs = max(rungs, entry["rung"])
            losses.setdefault(genomes[entry["id"]], {})[entry["rung"]] = entry["loss"]
    worst = max(loss[rungs] for loss in losses.values() if rungs in loss)
    return space, {key: losses.get(key, {}).get(rungs, worst) for key in genomes}


def part_of(trial, prefix, genes):
    names = [name for name in genes if name not in ("number", "layers")]
    return {name: trial.suggest_categorical(f"{prefix}{name}", genes[name]) for name in names}


def genome_of(trial, space):
    """Of a table of dense layers, repaired as the engine does."""
    layers = trial.suggest_int("layers", *space["dense"]["layers"])
    genome = {"stages": [], "dense": [part_of(trial, f"dense{k}_", space["dense"]) for k in range(layers)],
              "training": part_of(trial, "", space["training"])}
    if genome["training"]["optimizer"] != "sgd":
        genome["training"]["momentum"] = space["training"]["momentum"][0]
    return json.dumps(genome, sort_keys=True)


def course(space, table, seed, networks):
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(lambda trial: table[genome_of(trial, space)], n_trials=networks)
    best, least, regret = min(table.values()), float("inf"), []
    for trial in study.trials:
        least = min(least, trial.value)
        regret.append(least - best)
    return regret


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space, table = read_table(options.log)
    if space["stages"]["number"][1] > 0:
        parser.error(f"{options.log}: only tables of dense layers are read here")
    curves = [course(space, table, seed, options.networks) for seed in range(1, options.seeds + 1)]
    with open(options.out, "w") as out:
        json.dump({"TPE": curves}, out)


if __name__ == "__main__":
    main()
