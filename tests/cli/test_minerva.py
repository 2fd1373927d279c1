"""keelson-minerva: the vertices of neutrino interactions."""

import json
import pathlib
import shutil
import tempfile
import unittest

from onnx_session import onnxruntime, open_session
from programs import Case, Program, arrays, h5py, long_test, needs_h5py, newest, numpy, records

MINERVA = Program("keelson-minerva")


class Minerva(Case):
    """With a few simulated events."""

    program = MINERVA
    small = ["--width", 0.2, "--batch", 16, "--lr", 0.003, "--weight-decay", 0]

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="keelson-cli-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        cls.data = cls.shared / "events"
        cls.made = ["--train", 96, "--validation", 32, "--test", 40, "--events-per-file", 40]
        done = MINERVA.run("generate", "--out", cls.data, *cls.made)
        assert done.returncode == 0, done.stderr

    def train(self, *arguments, out=None, data=None, **options):
        return self.succeed("train", "--data", data or self.data, "--out", out or self.out, *self.small, *arguments, **options)

    def evaluate(self, *arguments, checkpoint=None, **options):
        return json.loads(self.succeed("evaluate", "--checkpoint", checkpoint or self.out, "--json", *arguments, **options))

    def parameters(self, folder):
        return {k: v.tobytes() for k, v in arrays(newest(folder)).items() if k.startswith(("parameters", "optimizer"))}

    @needs_h5py
    def test_events(self):
        """The same files from any number of ranks, in the experiment's layout."""
        again = self.folder / "again"
        self.succeed("generate", "--out", again, *self.made, ranks=2)
        files = sorted(p.relative_to(self.data) for p in self.data.glob("*/*.h5"))
        self.assertEqual(len(files), 3 + 1 + 1)
        for file in files:
            self.assertEqual((self.data / file).read_bytes(), (again / file).read_bytes())
        with h5py.File(self.data / files[-1]) as f:
            shapes = {name: (f[name].shape, f[name].dtype.name) for name in
                      ("img_data/hitimes-x", "img_data/hitimes-u", "img_data/hitimes-v", "vtx_data/planecodes",
                       "vtx_data/segments", "vtx_data/zs", "event_data/eventids")}
            n = shapes["vtx_data/zs"][0][0]
            self.assertEqual(shapes, {"img_data/hitimes-x": ((n, 2, 127, 50), "float32"),
                                      "img_data/hitimes-u": ((n, 2, 127, 25), "float32"),
                                      "img_data/hitimes-v": ((n, 2, 127, 25), "float32"),
                                      "vtx_data/planecodes": ((n,), "uint16"), "vtx_data/segments": ((n,), "uint8"),
                                      "vtx_data/zs": ((n,), "float32"), "event_data/eventids": ((n,), "int64")})

    @needs_h5py
    def test_train_and_evaluate(self):
        """Trains, resumes bit for bit, judges beside the rules, draws events, and exports."""
        text = self.train("--epochs", 2)
        self.assertIn("96 events of 127 x 50, 25 and 25 planes with 67 classes of planecodes", text)
        page = (self.out / "report.html").read_text()
        for words in ("Confusion by target", "Residual in z", "event 0: ", "view u"):
            self.assertIn(words, page)
        scores = self.folder / "scores.html"
        e = self.evaluate("--data", self.data, "--report", scores)
        self.assertEqual(e["samples"], 40)
        self.assertEqual(sum(map(sum, e["confusion_by_target"])), 40)
        self.assertEqual(len(e["found_by_class"]), 67)
        self.assertEqual(len(e["targets"]), 12)
        self.assertGreater(e["baselines"]["passive"], e["baselines"]["first_plane"])
        self.assertIn("accuracy of the passive rule", scores.read_text())
        self.assertEqual(self.evaluate("--data", self.data, ranks=2), e)
        self.assertAlmostEqual(self.evaluate()["scores"]["accuracy"]["ensemble"],
                               max(r["metric"] for r in records(self.out, "epoch")), places=6)
        done = MINERVA.run("evaluate", "--checkpoint", self.out, "--data", self.data, "--require-margin", 0.5)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "its accuracy is 0.*, expected to be larger by at least 0.5")
        self.assertIn("residual in z", done.stdout)
        self.train("--epochs", 2, "--max-steps", 7, out=self.folder / "cut")
        self.succeed("train", "--resume", self.folder / "cut", "--max-steps", -1)
        self.assertEqual(self.parameters(self.folder / "cut"), self.parameters(self.out))

    @needs_h5py
    def test_onnx(self):
        """The exported model has three inputs and predicts what the network does."""
        self.train("--epochs", 1, "--target", "segment", "--channels", "energy+time", "--normalise", "none")
        model = self.folder / "vertex.onnx"
        printed = self.succeed("export", "--checkpoint", self.out, "--onnx", model)
        for name in ("x", "u", "v"):
            self.assertRegex(printed, rf"input +{name}: f32")
        if onnxruntime is None:
            self.skipTest("Python has no onnxruntime")
        session = open_session(model)
        with h5py.File(sorted((self.data / "test").glob("*.h5"))[0]) as f:
            images = {name: f[f"img_data/hitimes-{name}"][()] for name in "xuv"}
            truth = f["vtx_data/segments"][()]
        found = numpy.argmax(session.run(None, images)[0], axis=1)
        e = self.evaluate("--data", self.data / "test")
        self.assertAlmostEqual(e["scores"]["accuracy"]["ensemble"], (found == truth).mean(), places=6)

    def test_ranks_see_the_same_events(self):
        """One, two and four ranks, the same global batch: the same losses but for rounding."""
        losses = []
        for ranks in (1, 2, 4):
            out = self.folder / f"on{ranks}"
            self.succeed("train", "--data", self.data, "--out", out, "--width", 0.2, "--global-batch", 16, "--epochs", 1,
                         "--dropout", 0, ranks=ranks)
            losses.append([r["train_loss"] for r in records(out, "epoch")])
        for other in losses[1:]:
            for a, b in zip(losses[0], other):
                self.assertAlmostEqual(a, b, places=4)

    @long_test
    def test_what_all_programs_have(self):
        """Ensembles, stacked members, apoptosis, growth, pruned samples, with three inputs."""
        self.train("--epochs", 1, "--members", 2, out=self.folder / "two")
        e = self.evaluate("--data", self.data, checkpoint=self.folder / "two")
        self.assertEqual(len(e["scores"]["accuracy"]["members"]), 2)
        self.train("--epochs", 1, "--members", 2, "--stack", out=self.folder / "stacked")
        self.assertEqual(self.evaluate(checkpoint=self.folder / "stacked")["members"], 2)
        self.train("--epochs", 4, "--apoptosis", "aggressive", out=self.folder / "fewer")
        self.evaluate(checkpoint=self.folder / "fewer")
        self.train("--epochs", 3, "--prune-samples", "infobatch", out=self.folder / "pruned")
        self.assertLess(min(r["samples"] for r in records(self.folder / "pruned", "epoch")), 96)
        self.train("--epochs", 1, "--net", "epsilon", "--sync", "local:2", out=self.folder / "local", ranks=2)

    @long_test
    def test_evolved_network(self):
        full = self.folder / "full"
        self.succeed("generate", "--out", full, "--images", "full", "--train", 16, "--validation", 8, "--test", 0)
        self.train("--net", "evolved633167", "--classes", 173, "--channels", "energy+time", "--epochs", 1, data=full)
        self.assertEqual(len(self.evaluate()["found_by_class"]), 173)
        self.refused("evaluate", "--checkpoint", self.out, "--data", self.data,
                     says="has images of 50 planes in the view x, but the network of .* reads 94")

    @needs_h5py
    def test_refusals(self):
        self.refused("train", "--out", self.out, says="no training data: give --data")
        self.refused("train", "--data", self.data, "--out", self.out, "--net", "evolved633167",
                     says="the evolved network on images of 127 strips and 50 planes: expected at least 42 and 94")
        self.refused("train", "--data", self.data, "--out", self.out, "--target", "segment", "--classes", 173,
                     says="--classes 173 belongs to --target planecode")
        self.refused("generate", "--out", next(self.data.glob("test/*.h5")) / "x", says="cannot be made .* choose a folder")
        bad = self.folder / "bad.h5"
        for change, says in (("img_data/hitimes-u", "img_data/hitimes-u"), ("vtx_data/planecodes", "vtx_data/planecodes")):
            shutil.copy(next(self.data.glob("test/*.h5")), bad)
            with h5py.File(bad, "a") as f:
                del f[change]
            self.refused("train", "--train", bad, "--out", self.out, says=says)
        with h5py.File(bad, "w") as f:
            for view, planes in (("x", 50), ("u", 25), ("v", 24)):
                f[f"img_data/hitimes-{view}"] = numpy.zeros((4, 1, 127, planes), "f4")
            f["vtx_data/planecodes"] = numpy.ones(4, "u2")
        self.refused("train", "--train", bad, "--out", self.out, says="'img_data/hitimes-v' has images of 1x127x24")
        with h5py.File(bad, "a") as f:
            del f["img_data/hitimes-v"]
            f["img_data/hitimes-v"] = numpy.zeros((3, 1, 127, 25), "f4")
        self.refused("train", "--train", bad, "--out", self.out, says="has 4 samples, and 'img_data/hitimes-v' has 3")
        self.train("--epochs", 1, "--max-steps", 1)
        self.refused("evaluate", "--checkpoint", self.out, "--require", "AUC:0.5", says="one of the scores NLL")


if __name__ == "__main__":
    unittest.main()
