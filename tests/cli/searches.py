"""What tests of keelson-search share: a table, and a search on it."""

import json
import os
import random

from programs import Case, Program

PROGRAM = Program("keelson-search")
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


def write_table(path, rows=240, features=5, classes=3):
    """A class for each row that follows from its features."""
    chance = random.Random(1)
    with open(path, "w") as out:
        out.write(",".join(f"f{k}" for k in range(features)) + ",kind\n")
        for _ in range(rows):
            x = [chance.gauss(0, 1) for _ in range(features)]
            kind = ("water", "ice", "none")[int(x[0] > 0.5) + int(x[1] > 0.3)]
            out.write(",".join(f"{v:.5f}" for v in x) + f",{kind}\n")


def lines_of(folder, kind):
    lines = []
    for line in (folder / "search.jsonl").read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:  # torn by a kill
            pass
    return [line for line in lines if line.get("type") == kind]


class SearchCase(Case):
    program = PROGRAM

    def setUp(self):
        super().setUp()
        self.table = self.folder / "table.csv"
        write_table(self.table)
        self.out = self.folder / "out"

    def words(self, *others, verb="run"):
        return [verb, "--data", self.table, "--classes", "--out", self.out, "--epochs", 4, "--first-epochs", 1, "--space",
                self.space(), *others]

    def space(self):
        return self.write("space.json", json.dumps({"dense": {"layers": [1, 2], "units": [16, 23, 32]},
                                                    "training": {"batch": [16, 32]}}))

    def run_search(self, *others, ranks=0, **options):
        return PROGRAM.run(*self.words(*others), ranks=ranks, env=ONE_THREAD, **options)

    def complete(self, networks):
        """Every network that was begun has a result or a failure, and none has two."""
        self.assertEqual(len(lines_of(self.out, "birth")), networks)
        results = [(line["id"], line["rung"]) for line in lines_of(self.out, "result")]
        self.assertEqual(len(results), len(set(results)))
        ended = {i for i, _ in results} | {line["id"] for line in lines_of(self.out, "failure")}
        self.assertEqual(ended, set(range(networks)))
