"""The subcommands `export`: onnxruntime gives the numbers that `evaluate` gives, from data and metadata of the file alone."""

import json
import math
import os
import pathlib
import re
import unittest

from lm_support import SMALL, LmCase
from onnx_session import onnxruntime, open_session, quiet
from programs import Case, Program, h5py, needs_h5py, numpy

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/onnx.md"
needs_onnxruntime = unittest.skipUnless(onnxruntime and numpy, "needs onnxruntime")


def metadata(session):
    return session.get_modelmeta().custom_metadata_map


class LanguageModel(LmCase):
    def export(self, *arguments):
        path = self.folder / "lm.onnx"
        return path, self.succeed("export", "--checkpoint", self.out, "--onnx", path, *arguments)

    def test_it_says_what_it_wrote(self):
        self.train(*SMALL, "--layers", 2, "--max-steps", 3)
        path, text = self.export("--unroll", 9)
        self.assertRegex(text.splitlines()[0], r"lm.onnx: 3450 parameters of .*/step-0+3.h5 \(epoch 0, step 3\)")
        self.assertEqual(text.splitlines()[1:],
                         ["input   x: s32 (batch, 9)", "input   lstm1_state: f32 (batch, 2, 12)", "input   lstm2_state: f32 (batch, 2, 12)",
                          "output  logits: f32 (9*batch, 42)", "output  lstm1_state_next: f32 (batch, 2, 12)",
                          "output  lstm2_state_next: f32 (batch, 2, 12)"])
        before = path.read_bytes()
        self.assertIn(b"keelson", before)
        self.succeed("export", "--checkpoint", self.out, "--onnx", path, "--unroll", 9, ranks=2)
        self.assertEqual(path.read_bytes(), before)

    def test_refusals(self):
        self.train(*SMALL, "--max-steps", 1)
        self.refused("export", "--onnx", "x.onnx", says="give --checkpoint")
        self.refused("export", "--checkpoint", self.out, says="give --onnx")
        self.refused("export", "--checkpoint", self.folder, "--onnx", "x.onnx", says="no checkpoint")
        self.ends(1, "export", "--checkpoint", self.out, "--onnx", self.folder / "no/x.onnx", says="cannot write .*No such file")

    @needs_onnxruntime
    def test_the_perplexity_is_that_of_evaluate(self):
        for cell in ("lstm", "gru"):
            with self.subTest(cell):
                self.train(*SMALL, "--cell", cell, "--layers", 2, "--epochs", 1, "--overwrite")
                path, _ = self.export()
                session = open_session(path)
                lines = metadata(session)["vocabulary"].splitlines()[1:]
                number = {line.split("\t")[0]: i for i, line in enumerate(lines)}
                tokens = [number[t] for t in self.tokens("ptb.test.txt")]
                states = {i.name: numpy.zeros([1, *i.shape[1:]], "f4") for i in session.get_inputs() if i.name != "x"}
                steps, nats = session.get_inputs()[0].shape[1], 0.0
                for begin in range(0, len(tokens) - 1, steps):
                    window = tokens[begin:begin + steps + 1]
                    x = numpy.zeros([1, steps], "i4")
                    x[0, :len(window) - 1] = window[:-1]
                    logits, *following = session.run(None, {"x": x, **states})
                    states = dict(zip(states, following))
                    logits = logits.astype("f8")
                    for row, target in zip(logits, window[1:]):
                        nats += numpy.log(numpy.exp(row).sum()) - row[target]
                expected = self.evaluate(self.out, "--test", self.text / "ptb.test.txt")
                self.assertEqual(len(tokens) - 1, expected["tokens"])
                self.assertAlmostEqual(math.exp(nats / (len(tokens) - 1)) / expected["perplexity"], 1, delta=1e-5)

    @needs_onnxruntime
    def test_the_documented_example_runs(self):
        self.train(*SMALL, "--max-steps", 3)
        self.export("--unroll", 1)
        block = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)[1]
        self.assertEqual(len(run_there(block, self.folder)["words"]), 20)


def run_there(code, folder):
    """Runs code with `folder` as the working directory and returns its variables."""
    variables, before = {}, os.getcwd()
    os.chdir(folder)
    try:
        with quiet():
            exec(code, variables)
    finally:
        os.chdir(before)
    return variables


class CosmoFlow(Case):
    program = Program("keelson-cosmoflow")

    @needs_h5py
    @needs_onnxruntime
    def test_the_errors_are_those_of_evaluate(self):
        data, path = self.folder / "data", self.folder / "cosmoflow.onnx"
        self.succeed("generate", "--out", data, "--size", 32, "--particles", 1, "--order", 1, "--train", 2, "--validation", 2, "--test", 3)
        self.succeed("train", "--data", data, "--out", self.out, "--max-steps", 2)
        text = self.succeed("export", "--checkpoint", self.out, "--onnx", path)
        self.assertIn("output  prediction: f32 (batch, 4)\n", text)
        expected = json.loads(self.succeed("evaluate", "--checkpoint", self.out, "--data", data, "--json"))
        session = open_session(path)
        self.assertEqual({**metadata(session), "epoch": "1"}, {"normalise": "log1p", "network": "cosmoflow-mlperf", "epoch": "1", "step": "2"})
        samples = []
        for file in sorted((data / "test").iterdir()):
            with h5py.File(file) as f:
                samples.append((numpy.log1p(f["x"][()].astype("f4").transpose(3, 0, 1, 2)), f["y"][()]))
        prediction = session.run(["prediction"], {"x": numpy.stack([x for x, _ in samples])})[0]
        errors = abs(prediction - numpy.stack([y for _, y in samples])).mean(0)
        numpy.testing.assert_allclose(errors, [t["error"] for t in expected["targets"]], rtol=1e-4)
        block = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)[0]
        self.assertEqual(run_there(block, self.folder)["prediction"].shape, (2, 4))


class Climate(Case):
    program = Program("keelson-climate")
    NETWORKS = {"tiramisu": ("--blocks", "1,1", "--growth", 2, "--first", 4, "--kernel", 3),
                "deepcam": ("--width", 0.0625, "--middle-blocks", 1),
                "deeplab": ("--width", 0.0625, "--batch-norm")}

    @needs_h5py
    @needs_onnxruntime
    def test_the_classes_are_those_of_evaluate(self):
        data, path = self.folder / "data", self.folder / "climate.onnx"
        self.succeed("generate", "--out", data, "--height", 64, "--width", 96, "--cyclones", 4, "--train", 2, "--validation", 2, "--test", 2)
        for net, arguments in self.NETWORKS.items():
            with self.subTest(net):
                out = self.folder / net
                self.succeed("train", "--data", data, "--out", out, "--net", net, *arguments, "--channels", "0,3,7", "--batch", 2, "--epochs", 1)
                self.succeed("export", "--checkpoint", out, "--onnx", path)
                expected = json.loads(self.succeed("evaluate", "--checkpoint", out, "--data", data, "--json"))["confusion"]
                session = open_session(path)
                self.assertEqual(metadata(session)["channels"], "TMQ,UBOT,PSL")
                ranges = numpy.array([r.split(":") for r in metadata(session)["ranges"].split(",")], "f4")
                confusion = numpy.zeros((3, 3), int)
                for file in sorted((data / "test").iterdir()):
                    with h5py.File(file) as f:
                        x, truth = f["climate/data"][()][..., [0, 3, 7]], f["climate/labels_0"][()].astype(int)
                    x = (x - ranges[:, 0]) / (ranges[:, 1] - ranges[:, 0])
                    logits = session.run(["prediction"], {"x": x.transpose(2, 0, 1)[None]})[0]
                    numpy.add.at(confusion, (truth, logits[0].argmax(0)), 1)
                self.assertEqual(confusion.sum(), 2 * 64 * 96)
                self.assertLessEqual(abs(confusion - numpy.array(expected)).sum(), 4)  # pixels whose logits are nearly equal


if __name__ == "__main__":
    unittest.main(verbosity=2)
