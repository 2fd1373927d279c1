"""What the tests of keelson-lm share: a text whose source is known, and the model's formulas."""

import json
import os
import pathlib
import shutil
import tempfile

from programs import Case, Program, arrays, numpy

LM = Program("keelson-lm")
SMALL = ["--hidden", 12, "--unroll", 6]
os.environ["OMP_NUM_THREADS"] = "1"  # the networks are too small for more


class LmCase(Case):
    """With a text of 6016 tokens, 42 types, and 801 and 903 tokens of validation and test text."""

    program = LM

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="keelson-cli-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        cls.text = cls.shared / "text"
        cls.prepare("corpus", "--out", cls.text, "--words", 6000, "--validation-words", 800, "--test-words", 900, "--vocab-size", 40,
                    "--branching", 4, "--topics", 2)

    @staticmethod
    def prepare(*arguments):
        done = LM.run(*arguments)
        assert done.returncode == 0, done.stderr

    def tokens(self, file):
        return (self.text / file).read_text().replace("\n", " <eos> ").split()

    def train(self, *arguments, out=None, data=None, **options):
        return self.succeed("train", "--data", data or self.text, "--out", out or self.out, *arguments, **options)

    def evaluate(self, checkpoint, *arguments, **options):
        return json.loads(self.succeed("evaluate", "--checkpoint", checkpoint, "--json", *arguments, **options))

    def sample(self, checkpoint, *arguments):
        return self.succeed("sample", "--checkpoint", checkpoint, *arguments)


class Oracle:
    """The model's arithmetic once more, in numpy and double precision."""

    def __init__(self, folder):
        stored = arrays(folder / "checkpoints/best.h5")
        self.p = {name[11:]: a.astype("f8") for name, a in stored.items() if name.startswith("parameters/")}
        lines = stored["texts/vocabulary"].tobytes().decode().splitlines()[1:]
        self.words = [line.split("\t")[0] for line in lines]
        self.h = self.c = numpy.zeros(self.p["lstm1/weights"].shape[1])

    def next(self, word):
        """Log-probabilities of the words after this one, which follows those given before."""
        p = self.p
        x = p["embedding/weights"][self.words.index(word)]
        gates = p["lstm1_input/weights"] @ x + p["lstm1_input/bias"] + p["lstm1/weights"] @ self.h
        i, f, g, o = numpy.split(gates, 4)
        sigmoid = lambda v: 1 / (1 + numpy.exp(-v))
        self.c = sigmoid(f) * self.c + sigmoid(i) * numpy.tanh(g)
        self.h = sigmoid(o) * numpy.tanh(self.c)
        logits = p["output/weights"] @ self.h + p["output/bias"]
        return logits - numpy.log(numpy.exp(logits).sum())
