"""keelson-tabular: classes and numbers from the rows of tables."""

import csv
import json
import pathlib
import random
import shutil
import tempfile
import unittest

from programs import Case, Program, arrays, h5py, needs_h5py, newest, numpy, records

TABULAR = Program("keelson-tabular")


class Tabular(Case):
    """With a table of three classes, which two of four columns tell apart, and one of numbers."""

    program = TABULAR
    small = ["--layers", 1, "--units", 16, "--batch", 16, "--lr", 0.01]

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="keelson-cli-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        draws = random.Random(5)
        cls.rows = [[round(draws.gauss(m, s), 4) for m, s in ((3, 2), (100, 40), (0, 1), (-1, 0.1))] for _ in range(400)]
        cls.classes = cls.shared / "classes.csv"
        cls.write(cls.classes, ["a", "b", "c", "d", "kind"],
                  [row + [("low", "middle", "high")[(row[0] > 3) + (row[1] > 100)]] for row in cls.rows])
        cls.numbers = cls.shared / "numbers.csv"
        cls.write(cls.numbers, ["a", "b", "c", "d", "sum", "product"],
                  [row + [row[0] + row[1] / 20, row[0] * row[2]] for row in cls.rows])

    @staticmethod
    def write(file, names, rows):
        with file.open("w", newline="") as text:
            csv.writer(text).writerows([names, *rows])

    def train(self, data, *arguments, epochs=8, out=None, **options):
        return self.succeed("train", "--data", data, "--out", out or self.out, *self.small, "--epochs", epochs, *arguments,
                            **options)

    def evaluate(self, *arguments, checkpoint=None, **options):
        return json.loads(self.succeed("evaluate", "--checkpoint", checkpoint or self.out, "--json", *arguments, **options))

    def parameters(self, folder):
        return {k: v.tobytes() for k, v in arrays(newest(folder)).items() if k.startswith(("parameters", "optimizer"))}

    @needs_h5py
    def test_classes(self):
        """Trains, resumes bit for bit, says what it knows, and finds the columns that matter."""
        text = self.train(self.classes)
        self.assertIn("360 of 400 rows of 4 features with 3 classes", text)
        page = (self.out / "report.html").read_text()
        for words in ("Confusion", "Receiver operating characteristic", "middle"):
            self.assertIn(words, page)
        e = self.evaluate()
        self.assertEqual(e["samples"], 40)
        self.assertGreater(e["scores"]["accuracy"]["ensemble"], 0.8)
        self.assertGreater(e["scores"]["ROC AUC"]["ensemble"], 0.9)
        self.assertEqual(e["classes"], ["high", "low", "middle"])
        self.assertEqual(sum(map(sum, e["confusion"])), 40)
        last = records(self.out, "epoch")
        best = max(r["metric"] for r in last)
        self.assertAlmostEqual(e["scores"]["accuracy"]["ensemble"], best, places=6)
        page = self.folder / "scores.html"
        e = self.evaluate("--data", self.classes, "--importance", 2, "--report", page)
        self.assertEqual({i["feature"] for i in e["importance"][:2]}, {"a", "b"})
        self.assertGreater(e["importance"][1]["increase"], 10 * abs(e["importance"][2]["increase"]))
        self.assertIn("Importance of features", page.read_text())
        self.assertEqual(self.evaluate("--data", self.classes, "--importance", 2, ranks=2)["importance"], e["importance"])
        self.assertRegex(self.succeed("export", "--checkpoint", self.out, "--onnx", self.folder / "rows.onnx"), "prediction")
        self.train(self.classes, "--max-steps", 50, out=self.folder / "cut")
        self.succeed("train", "--resume", self.folder / "cut", "--max-steps", -1)
        self.assertEqual(self.parameters(self.folder / "cut"), self.parameters(self.out))

    def test_ranks_see_the_same_rows(self):
        """One, two and four ranks, the same global batch: the same losses but for rounding."""
        losses = []
        for ranks in (1, 2, 4):
            out = self.folder / f"on{ranks}"
            self.succeed("train", "--data", self.classes, "--out", out, "--layers", 1, "--units", 16, "--global-batch", 16,
                         "--epochs", 2, ranks=ranks)
            losses.append([r["train_loss"] for r in records(out, "epoch")])
        for other in losses[1:]:
            for a, b in zip(losses[0], other):
                self.assertAlmostEqual(a, b, places=4)

    def test_numbers(self):
        self.train(self.numbers, "--target", "sum,product", epochs=40)
        e = self.evaluate()
        self.assertEqual([t["name"] for t in e["targets"]], ["sum", "product"])
        self.assertGreater(e["targets"][0]["r2"], 0.9)
        self.assertLess(e["targets"][0]["mae"], 0.3 * e["targets"][0]["mae_of_mean"])
        self.assertIn("always the mean", self.succeed("evaluate", "--checkpoint", self.out))
        self.assertIn("sum", (self.out / "report.html").read_text())
        done = TABULAR.run("evaluate", "--checkpoint", self.out, "--require", "R2:0.9999")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "R2 is 0.*, expected at least 0.9999")
        self.refused("evaluate", "--checkpoint", self.out, "--calibrate", says="one network predicts no uncertainty")

    def test_ensembles(self):
        """Members of a table, also trained together; numbers get a distribution."""
        self.train(self.classes, "--members", 5, "--stack", "--seed", 3)
        e = self.evaluate("--data", self.classes, "--calibrate")
        self.assertEqual(e["members"], 5)
        self.assertLessEqual(e["scores"]["NLL"]["ensemble"], sum(e["scores"]["NLL"]["members"]) / 5 + 1e-9)
        self.assertEqual(len(e["scores"]["ROC AUC"]["members"]), 5)
        self.train(self.numbers, "--target", "sum", "--features", "a,b,c,d", "--members", 2, out=self.folder / "numbers")
        e = self.evaluate("--calibrate", checkpoint=self.folder / "numbers")
        self.assertIn("CRPS", e["scores"])

    @needs_h5py
    def test_arrays(self):
        """The same rows in HDF5 and NumPy files give the same network as the table."""
        names = sorted(["low", "middle", "high"])
        x = numpy.array(self.rows, "f4")
        y = numpy.array([names.index(("low", "middle", "high")[(row[0] > 3) + (row[1] > 100)]) for row in self.rows], "i4")
        with h5py.File(self.folder / "rows.h5", "w") as file:
            file["x"], file["y"] = x, y
        numpy.save(self.folder / "x.npy", x)
        numpy.save(self.folder / "y.npy", y)
        self.train(self.classes, out=self.folder / "table")
        self.train(self.folder / "rows.h5", out=self.folder / "hdf5")
        self.train(self.folder, "--x", "x.npy", "--y", "y.npy", out=self.folder / "npy")
        for form in ("hdf5", "npy"):
            self.assertEqual(self.parameters(self.folder / form), self.parameters(self.folder / "table"))
        self.assertGreater(self.evaluate("--data", self.folder / "rows.h5", checkpoint=self.folder / "hdf5")["scores"]["accuracy"]["ensemble"], 0.8)

    def test_collisions(self):
        """Made on any number of ranks alike; a network learns them."""
        data = self.folder / "collisions"
        size = ["--train", 3000, "--validation", 600, "--test", 600]
        self.succeed("generate", "--out", data, *size)
        self.succeed("generate", "--out", self.folder / "again", *size, ranks=2)
        files = sorted(p.relative_to(data) for p in data.glob("*/*.csv"))
        self.assertEqual(len(files), 3)
        for file in files:
            self.assertEqual((data / file).read_bytes(), (self.folder / "again" / file).read_bytes())
        self.succeed("train", "--data", data, "--recipe", "higgs-demo", "--units", 32, "--batch", 32, "--epochs", 6, "--out", self.out)
        e = self.evaluate("--data", data, "--require", "ROC AUC:0.65")
        self.assertEqual(e["samples"], 600)
        self.assertNotIn("label", self.succeed("evaluate", "--checkpoint", self.out, "--importance", 1))

    def test_refusals(self):
        self.refused("generate", "--out", self.classes / "folder", says="--out .*: cannot be made .* choose a folder")
        self.refused("train", "--out", self.out, says="give --data")
        self.refused("train", "--data", self.classes, "--out", self.out, "--target", "nothing", says="nothing")
        self.refused("train", "--data", self.classes, "--out", self.out, "--kind", "numbers", says="kind|low|high|middle")
        self.refused("train", "--data", self.numbers, "--out", self.out, "--judge", "auc", says="the target is a number, not a class")
        self.refused("train", "--data", self.classes, "--out", self.out, "--batch", 1000, says="360")
        self.refused("train", "--data", self.folder / "none.csv", "--out", self.out, says="none.csv")
        self.train(self.classes, "--max-steps", 0)
        bad = self.folder / "bad.csv"
        self.write(bad, ["a", "b", "c", "kind"], [[1, 2, 3, "low"]])
        self.refused("evaluate", "--checkpoint", self.out, "--data", bad, says="d")
        self.write(bad, ["a", "b", "c", "d", "kind"], [[1, 2, 3, 4, "new"]])
        self.refused("evaluate", "--checkpoint", self.out, "--data", bad, says="the class 'new' is not one of the 3 classes")
        self.refused("evaluate", "--checkpoint", self.out, "--require", "AUC:0.5", says="one of the scores NLL")

    @needs_h5py
    def test_rows_with_wrong_classes(self):
        """Members that have not learned from them find most."""
        names = ("low", "middle", "high")
        right = [(row[0] > 3) + (row[1] > 100) for row in self.rows]
        wrong = set(random.Random(1).sample(range(400), 20))
        table = self.folder / "wrong.csv"
        self.write(table, ["a", "b", "c", "d", "kind"],
                   [row + [names[(right[i] + (1 if i in wrong else 0)) % 3]] for i, row in enumerate(self.rows)])
        self.train(table, "--members", 6, "--bag", epochs=15)
        found, page = self.folder / "found.csv", self.folder / "page.html"
        self.evaluate("--out-of-bag", found, "--report", page)
        with found.open(newline="") as text:
            rows = list(csv.DictReader(text))
        self.assertEqual([int(r["index"]) for r in rows], list(range(360)))
        self.assertEqual({r["file"] for r in rows}, {str(table)})
        numbers = [int(r["row"]) for r in rows]
        self.assertEqual(len(set(numbers)), 360)
        self.assertTrue(all((r["loss"] == "") == (r["members"] == "0") for r in rows))
        rows = sorted((r for r in rows if r["loss"]), key=lambda r: -float(r["loss"]))
        trained = wrong & set(numbers)
        worst = {int(r["row"]) for r in rows[:len(trained)]}
        self.assertGreater(len(worst & trained), len(trained) / 2)
        self.assertIn("Training samples out of bag", page.read_text())
        two = self.folder / "two.csv"
        self.evaluate("--out-of-bag", two, ranks=2)
        self.assertEqual(two.read_text(), found.read_text())
        self.train(self.classes, "--members", 2, epochs=1, out=self.folder / "plain")
        self.refused("evaluate", "--checkpoint", self.folder / "plain", "--out-of-bag", found, says="trained without --bag")


if __name__ == "__main__":
    unittest.main()
