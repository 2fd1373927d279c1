"""What keelson-lm models are worth: that they learn, evaluate, sample."""

import json
import math
import re
import unittest

from lm_support import LM, LmCase, Oracle
from programs import needs_h5py, records


class Model(LmCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.shared / "model"
        cls.prepare("train", "--data", cls.text, "--out", cls.model, "--hidden", 32, "--layers", 1, "--unroll", 10, "--batch", 8,
                    "--epochs", 6, "--schedule", "decay", "--decay-factor", 0.5, "--flat-epochs", 4, "--log-every", 1)

    def test_it_learns(self):
        source = json.loads((self.text / "source.json").read_text())["perplexity"]
        epochs = records(self.model, "epoch")
        self.assertEqual([e["epoch"] for e in epochs], [1, 2, 3, 4, 5, 6])
        self.assertEqual([e["learning_rate"] for e in epochs], [1, 1, 1, 1, 0.5, 0.25])
        self.assertLess(epochs[-1]["metric"], source["unigram"] / 3)
        self.assertGreater(epochs[-1]["metric"], source["best"])
        self.assertLess(epochs[-1]["train_loss"], epochs[0]["train_loss"] / 1.5)
        for e in epochs:
            self.assertAlmostEqual(e["metric"], math.exp(e["validation_loss"]), delta=1e-9 * e["metric"])
        steps = records(self.model, "step")
        self.assertEqual(len(steps), 6 * 75)  # (6016 // 8 - 1) // 10 windows
        # A loss is per word: at first that of a uniform guess.
        self.assertAlmostEqual(steps[0]["loss"], math.log(42), delta=0.1)
        self.assertAlmostEqual(sum(s["loss"] for s in steps[:75]) / 75, epochs[0]["train_loss"], places=5)
        report = (self.model / "report.html").read_text()
        for part in ("Language model, 1 LSTM layer of 32", "all epochs done", "perplexity", "words per second", "lstm1"):
            self.assertTrue(part in report, part)
        sums = re.search("<b>sum</b></td>(.*?)</tr>", report).group(1)
        self.assertEqual(len(re.findall(r"<b>[\d.]+</b>", sums)), 3, sums)  # GFLOP, ms and GFLOP/s, though only a few steps are timed

    def test_every_token_but_the_first_is_predicted_once(self):
        test = self.tokens("ptb.test.txt")
        found = {unroll: self.evaluate(self.model, "--data", self.text, "--unroll", unroll)
                 for unroll in (0, 1, 7, len(test) + 50)}
        for result in found.values():
            self.assertEqual(result["tokens"], len(test) - 1)
            self.assertEqual(result["unknown_tokens"], 0)
            self.assertAlmostEqual(result["perplexity"], found[1]["perplexity"], delta=1e-4 * found[1]["perplexity"])
            self.assertAlmostEqual(result["nats_per_token"], math.log(result["perplexity"]), places=9)
            self.assertAlmostEqual(result["bits_per_token"], math.log2(result["perplexity"]), places=9)
        source = json.loads((self.text / "source.json").read_text())["perplexity"]
        self.assertEqual(found[0]["source"], {"perplexity": source["best"], "unigram": source["unigram"],
                                              "bigram": source["bigram"]})
        self.assertIn("ptb.test.txt", found[0]["text"])

    @needs_h5py
    def test_perplexity_is_that_of_the_formulas(self):
        oracle, test = Oracle(self.model), self.tokens("ptb.test.txt")
        loss = -sum(oracle.next(a)[oracle.words.index(b)] for a, b in zip(test, test[1:])) / (len(test) - 1)
        self.assertAlmostEqual(self.evaluate(self.model, "--data", self.text)["nats_per_token"], loss, places=5)

    def test_which_text_is_judged(self):
        validation = len(self.tokens("ptb.valid.txt"))
        # As training did it, in eight streams: the same number.
        result = self.evaluate(self.model, "--batch", 8)
        self.assertEqual(result["tokens"], 8 * (validation // 8 - 1))
        best = min(e["metric"] for e in records(self.model, "epoch"))
        self.assertAlmostEqual(result["perplexity"], best, delta=1e-5 * best)
        self.assertAlmostEqual(self.evaluate(self.model, "--batch", 4, ranks=2)["perplexity"], best, delta=1e-5 * best)
        self.assertEqual(self.evaluate(self.model)["tokens"], validation - 1)
        result = self.evaluate(self.model, "--data", self.text / "ptb.train.txt", "--batch", 20)
        self.assertEqual(result["tokens"], 20 * (6016 // 20 - 1))
        strange = self.write("strange.txt", "Wort für Wort\n" * 3 + " ".join(self.tokens("ptb.test.txt")[:5]) + "\n")
        result = self.evaluate(self.model, "--test", strange)
        self.assertEqual((result["tokens"], result["unknown_tokens"]), (17, 9))
        self.assertNotIn("source", result)
        self.assertIn("9 of its 18 tokens are not in the model's vocabulary: read as <unk>",
                      self.succeed("evaluate", "--checkpoint", self.model, "--test", strange))

    def test_requirements(self):
        arguments = ["evaluate", "--checkpoint", self.model, "--data", self.text]
        printed = self.succeed(*arguments, "--require", 20, "--require-of-best", 3)
        self.assertRegex(printed, r"perplexity \d+\.\d+: \d\.\d+ nats or \d\.\d+ bits a token, over \d+ tokens; \d+ words/s")
        self.assertIn("the best possible perplexity is", printed)
        self.ends(1, *arguments, "--require", 4.1, ranks=2,
                  says=r"not good enough: a perplexity of \d.\d+, expected at most 4.100")
        self.ends(1, *arguments, "--require-of-best", 1.0001, says="not good enough")
        self.refused("evaluate", "--checkpoint", self.model, "--test", self.write("t.txt", "a b\n"), "--require-of-best", 2,
                     says="the best possible perplexity of .*t.txt is not known")

    def test_sampling(self):
        drawn = self.sample(self.model, "--tokens", 60, "--seed", 3)
        self.assertEqual(self.sample(self.model, "--tokens", 60, "--seed", 3), drawn)
        self.assertNotEqual(self.sample(self.model, "--tokens", 60, "--seed", 4), drawn)
        self.assertLessEqual(set(drawn.split()), set(self.tokens("ptb.train.txt")))
        self.assertEqual(len(drawn[:-1].replace("\n", " <eos> ").split()), 60)
        likeliest = self.sample(self.model, "--tokens", 30, "--temperature", 0)
        for arguments in (["--temperature", 0, "--seed", 9], ["--top-k", 1]):
            self.assertEqual(self.sample(self.model, "--tokens", 30, *arguments), likeliest)

    @needs_h5py
    def test_samples_are_those_of_the_formulas(self):
        """The likeliest words, and no word outside the top k; both after a prompt."""
        words = self.tokens("ptb.train.txt")
        prompt = words[:4]
        self.assertNotIn("<eos>", prompt)
        oracle = Oracle(self.model)
        expected = list(prompt)
        for word in ["<eos>"] + prompt[:-1]:
            oracle.next(word)
        for _ in range(20):
            expected.append(oracle.words[oracle.next(expected[-1]).argmax()])
        found = self.sample(self.model, "--tokens", 20, "--temperature", 0, "--prompt", " ".join(prompt))
        self.assertEqual(found[:-1].replace("\n", " <eos> ").split(), expected)
        drawn = self.sample(self.model, "--tokens", 300, "--top-k", 3)[:-1].replace("\n", " <eos> ").split()
        oracle, ranks = Oracle(self.model), []
        for before, word in zip(["<eos>"] + drawn, drawn):
            p = oracle.next(before)
            ranks.append(int((p > p[oracle.words.index(word)]).sum()))
        self.assertEqual(set(ranks), {0, 1, 2})
        self.assertGreater(ranks.count(0), ranks.count(2))

    def test_unknown_words_in_a_prompt(self):
        done = LM.run("sample", "--checkpoint", self.model, "--tokens", 1, "--prompt", "Wort")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("'Wort' is not in the model's vocabulary of 42 tokens: read as <unk>", done.stderr)
        self.assertTrue(done.stdout.startswith("<unk>"))

    def test_refusals(self):
        for subcommand in ("evaluate", "sample"):
            self.refused(subcommand, says="give --checkpoint")
            self.refused(subcommand, "--checkpoint", self.folder / "nothing", says="nothing: no such checkpoint")
        self.refused("evaluate", "--checkpoint", self.model, "--test", self.write("one", "a"), "--batch", 3,
                     says="needs at least 6 tokens, but one has 2")
        self.refused("evaluate", "--checkpoint", self.model, "--level", "word", says="unknown option '--level'")
        self.refused("sample", "--checkpoint", self.model, "--temperature", -1, says="--temperature")

    def test_characters(self):
        data = self.write("text", "der Bär läuft im Wald\n" * 60)
        self.train("--level", "char", "--hidden", 32, "--layers", 1, "--unroll", 11, "--batch", 4, "--lr", 0.5,
                   "--epochs", 12, data=data)
        result = self.evaluate(self.out, "--data", data)
        self.assertEqual(result["tokens"], 22 * 60 - 1)
        self.assertLess(result["perplexity"], 1.2)
        sample = self.sample(self.out, "--tokens", 31, "--temperature", 0, "--prompt", "der B")
        self.assertEqual(sample, ("der Bär läuft im Wald\n" * 2)[:36] + "\n")


if __name__ == "__main__":
    unittest.main()
