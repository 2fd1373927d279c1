"""The noise scale of the gradient, and the search for learning rates."""

import csv
import json
import math
import pathlib
import random
import shutil
import tempfile

from programs import Case, Program, arrays, needs_h5py, newest, records


class Rates(Case):
    """With a table of two classes."""

    program = Program("keelson-tabular")
    small = ["--layers", 1, "--units", 16, "--global-batch", 32, "--lr", 0.01]

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="keelson-cli-"))
        cls.addClassCleanup(shutil.rmtree, folder)
        draws = random.Random(5)
        cls.data = folder / "classes.csv"
        with cls.data.open("w", newline="") as text:
            rows = [[draws.gauss(0, 1) for _ in range(4)] for _ in range(400)]
            csv.writer(text).writerows([["a", "b", "c", "d", "kind"],
                                        *[row + ["low" if row[0] + row[1] + draws.gauss(0, 1) < 0 else "high"] for row in rows]])

    def train(self, *arguments, out=None, **options):
        return self.succeed("train", "--data", self.data, "--out", out or self.out, *self.small, *arguments, **options)

    def parameters(self, folder):
        return {k: v.tobytes() for k, v in arrays(newest(folder)).items() if k.startswith(("parameters", "optimizer"))}

    def noise(self, folder):
        return [[r.get(k) for k in ("gradient_square", "gradient_noise", "noise_scale")] for r in records(folder, "epoch")]

    @needs_h5py
    def test_noise_scale(self):
        """Two ranks and two micro-batches measure the same, no bit of the run changes, and the figures go on with it."""
        text = self.train("--noise-scale", 2, "--epochs", 4, "--log-every", 1, ranks=2)
        self.assertRegex(text, r"gradient noise scale: .* samples. A batch of 32 needs .* times the fewest possible steps")
        self.assertRegex(text, r"epoch 4/4 .* noise scale \d")
        noise = self.noise(self.out)
        self.assertTrue(all(n > 0 for row in noise for n in row), noise)
        self.assertEqual(len([r for r in records(self.out, "step") if "noise_scale" in r]), 4 * 12 - 1)
        page = (self.out / "report.html").read_text()
        self.assertIn("Gradient noise scale", page)
        self.assertIn("times the fewest possible samples", page)
        self.train("--epochs", 4, out=self.folder / "plain", ranks=2)
        self.assertEqual(self.parameters(self.folder / "plain"), self.parameters(self.out))
        self.assertNotIn("noise", (self.folder / "plain" / "metrics.jsonl").read_text())
        self.train("--noise-scale", 2, "--epochs", 4, "--micro-batches", 2, out=self.folder / "one")
        for a, b in zip(self.noise(self.folder / "one"), noise):
            for x, y in zip(a, b):
                self.assertTrue(math.isclose(x, y, rel_tol=0.01), (a, b))
        self.train("--noise-scale", 2, "--epochs", 4, "--max-steps", 29, out=self.folder / "cut", ranks=2)
        self.succeed("train", "--resume", self.folder / "cut", "--max-steps", -1, ranks=2)
        self.assertEqual(self.noise(self.folder / "cut"), noise)
        self.assertEqual(self.parameters(self.folder / "cut"), self.parameters(self.out))

    def test_refusals_of_the_noise_scale(self):
        train = ["train", "--data", self.data, "--out", self.out, *self.small, "--noise-scale", 10]
        self.refused(*train, says="on one rank in one pass: .*Give --micro-batches 2 or more")
        self.refused(*train, "--sync", "lag", ranks=2, says="with synchronization lag")
        self.refused(*train, "--prune-samples", "random", "--micro-batches", 2, says="with --prune-samples random")
        self.refused(*train, "--members", 2, "--stack", says="--noise-scale with --stack")
        self.assertFalse((self.out / "checkpoints").exists())

    def test_lr_range(self):
        """Two ranks find what one finds; a page, a table, and nothing of a run."""
        found = []
        for ranks in (1, 2):
            out = self.folder / f"on{ranks}"
            text = self.succeed("lr-range", "--data", self.data, "--out", out, *self.small, "--optimizer", "sgd",
                                "--lr-max", 1e4, "--steps", 60, ranks=ranks)
            self.assertRegex(text, r"suggested learning rate: \S+, where the smoothed loss falls fastest")
            self.assertRegex(text, r"training diverged at")
            self.assertEqual(sorted(p.name for p in out.iterdir()), ["lr-range.csv", "lr-range.html"])
            self.assertIn("Loss by learning rate", (out / "lr-range.html").read_text())
            with (out / "lr-range.csv").open() as table:
                found.append([{k: float(v) for k, v in row.items()} for row in csv.DictReader(table)])
        one, two = found
        self.assertLess(len(one), 60)
        self.assertAlmostEqual(one[0]["learning_rate"], 1e-7)
        self.assertGreater(one[-1]["smoothed_loss"], 3 * min(row["smoothed_loss"] for row in one))
        for a, b in zip(one[:30], two[:30]):
            self.assertTrue(math.isclose(a["loss"], b["loss"], rel_tol=1e-4), (a, b))
        self.assertEqual(json.dumps([row["learning_rate"] for row in one[:30]]),
                         json.dumps([row["learning_rate"] for row in two[:30]]))

    def test_refusals_of_lr_range(self):
        search = ["lr-range", "--data", self.data, "--out", self.out]
        self.refused(*search, "--lr-min", 1, "--lr-max", 0.1, says="learning rates from 1 to 0.1: expected")
        self.refused(*search, "--lr-min", 0, says="lr-min")
        self.refused(*search, "--steps", 2, says="in 2 steps: expected at least 3")
        self.refused(*search, "--sync", "lag", says="with synchronization lag")
        self.refused(*search, "--resume", self.out, says="resume")
        self.assertEqual(list(self.folder.glob("out/*")), [])
