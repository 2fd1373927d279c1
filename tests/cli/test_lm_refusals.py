"""What keelson-lm train refuses: texts, options, vocabularies, checkpoints."""

import resource
import unittest

from lm_support import LM, SMALL, LmCase
from programs import Program

class Refusals(LmCase):
    def refused_train(self, *arguments, says, **options):
        self.refused("train", "--out", self.out, *arguments, says=says, **options)
        self.assertFalse(self.out.exists())

    def test_texts(self):
        self.refused_train(says="give --data")
        self.refused_train("--data", self.folder / "nothing", says="nothing: does not exist")
        self.refused_train("--train", self.folder / "nothing", says="nothing: cannot be opened")
        self.refused_train("--data", self.text, "--validation", self.folder / "nothing", says="nothing: cannot be opened")
        self.refused_train("--data", self.write("empty", ""), says="empty: is empty")
        self.refused_train("--data", LM.path, says="keelson-lm: byte [0-9]+ is 0x", ranks=2)

    def test_texts_that_are_too_short(self):
        short = self.write("short", "a b c d e\n" * 5)
        fits = ["--data", short, "--hidden", 4, "--batch", 4, "--unroll", 6]
        self.refused_train("--data", short, says="20 streams x 20 words needs at least 420 tokens, but short has 30; give a "
                                                 "smaller --batch or --unroll")
        self.refused_train(*fits, says="8 streams x 6 words needs at least 56 tokens", ranks=2)
        self.refused_train(*fits, "--validation", self.write("v", "a b c\n"), says="needs at least 8 tokens, but v has 4")
        self.succeed("train", "--out", self.out, *fits, "--max-steps", 1)
        self.refused("evaluate", "--checkpoint", self.out, says="the run had no validation text: give --data or --test")

    def test_options(self):
        for arguments, says in [
            (["--tied", "--embedding", 8, "--hidden", 12], "--tied .* --embedding 8 is not --hidden 12"),
            (["--recipe", "tiny"], "tiny"), (["--dropout", 1], "--dropout"),
            (["--schedule", "decay"], "needs --decay-factor")]:
            with self.subTest(arguments):
                self.refused_train("--data", self.text, *arguments, says=says)
        self.refused_train("--data", self.text, "--global-batch", 5, says="global batch of 5 cannot be divided .* 2 ranks", ranks=2)
        file = self.write("file", "")
        self.refused("train", "--data", self.text, "--out", file / "run", says="file is not a folder")

    def test_networks_beyond_all_needs(self):
        for arguments, says in ((["--layers", 100000], "more than 10000 nodes"),
                                (["--hidden", 1000000], r"1.6e\+13 parameters with 3.2e\+13 numbers in all .* GiB are available"),
                                (["--hidden", 10**9, "--optimizer", "adam"], r"1.6e\+19 parameters with 6.4e\+19 numbers"),
                                (["--embedding", 10**12], "give a smaller network")):
            with self.subTest(arguments):
                self.refused("train", "--data", self.text, "--out", self.out, *arguments, says=says)

    def test_threads_that_cannot_be_started(self):
        def little_space():
            resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))  # their stacks are more

        self.ends(1, "train", "--data", self.text, "--out", self.out, *SMALL, "--loader-threads", 20000,
                  says=r"only \d+ of 20000 threads that read and decode samples can be started", preexec_fn=little_space)

    def test_vocabularies(self):
        def vocabulary(name, *arguments):
            self.succeed("vocab", "--data", self.text, "--out", self.folder / name, *arguments)
            return self.folder / name

        whole, half = vocabulary("whole"), vocabulary("half", "--vocab-size", 20)
        characters = vocabulary("characters", "--level", "char")
        self.refused_train("--data", self.text, "--vocab", whole, "--vocab-size", 30, says="has 42 tokens, more than the 30")
        self.refused_train("--data", self.text, "--vocab", characters, says="holds characters, but --level is word")
        self.refused_train("--data", self.text, "--vocab", self.write("none", "a b c\n"), says="none")
        arguments = ["--hidden", 4, "--unroll", 6, "--batch", 8, "--vocab", half, "--max-steps", 3]
        self.assertIn("lm-lstm: 468 parameters", self.train(*arguments))  # 20 * 4 + 2 * (2 * 16 * 4 + 16) + 20 * 5
        self.refused("train", "--resume", self.out, "--vocab", whole,
                     says=r"another vocabulary \(20 tokens\) than --vocab .*whole \(42 tokens\)")
        self.succeed("train", "--resume", self.out, "--vocab", half, "--max-steps", 4)
        self.assertGreater(self.evaluate(self.out, "--data", self.text)["unknown_tokens"], 0)

    def test_resuming_with_other_options(self):
        self.train(*SMALL, "--batch", 8, "--max-steps", 3)
        before = {p: p.read_bytes() for p in self.out.rglob("*") if p.is_file()}
        for arguments, says in [
            (["--seed", 9], "was trained with seed 1, not 9"), (["--hidden", 8], "another network"),
            (["--cell", "gru"], "another network"), (["--batch", 4], "batches of 8 samples"),
            (["--unroll", 7], "within an epoch of 1000 training samples, but the data has 856"),
            (["--level", "char"], "vocabulary is one of words"), (["--data", self.text / "ptb.test.txt"], "training samples")]:
            with self.subTest(arguments):
                self.refused("train", "--resume", self.out, *arguments, says=says)
        self.refused("train", "--data", self.text, "--out", self.out, says="--resume.*--overwrite")
        self.assertEqual({p: p.read_bytes() for p in self.out.rglob("*") if p.is_file()}, before)

    def test_models(self):
        cosmoflow = Program("keelson-cosmoflow")
        universes, other = self.folder / "universes", self.folder / "cosmoflow"
        for arguments in (["generate", "--out", universes, "--size", 32, "--particles", 1, "--order", 1, "--train", 1,
                           "--validation", 1, "--test", 1],
                          ["train", "--data", universes, "--out", other, "--batch", 1, "--max-steps", 0]):
            done = cosmoflow.run(*arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
        for subcommand in ("evaluate", "sample"):
            self.refused(subcommand, "--checkpoint", other, says="cosmoflow-mlperf, expected a network of language model")
        self.refused("train", "--resume", other, says="cosmoflow-mlperf, expected a network of language model")
        self.train("--hidden", 4, "--max-steps", 0)
        for subcommand, option in (("evaluate", "--checkpoint"), ("train", "--resume")):
            done = cosmoflow.run(subcommand, option, self.out)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(cosmoflow.errors(done)[0], "has the network lm-lstm, expected a network of CosmoFlow")


if __name__ == "__main__":
    unittest.main()
