"""keelson-lm from end to end: made-up texts, vocabularies, and every refusal."""

import collections
import json
import math
import unittest

import programs

LM = programs.Program("keelson-lm")


class Case(programs.Case):
    program = LM


class Vocab(Case):
    def test_ids_are_those_of_the_ptb_reader(self):
        text = self.write("ptb.train.txt", " the cat sat \n on the mat \n ätsch <unk> <unk> <unk> N \n")
        words = text.read_text().replace("\n", "<eos>").split()
        expected = sorted(collections.Counter(words).items(), key=lambda pair: (-pair[1], pair[0]))
        out = self.folder / "v.txt"
        self.succeed("vocab", "--data", self.folder, "--out", out)
        header, *lines = out.read_text().splitlines()
        self.assertEqual(header, f"keelson-vocabulary 1 word {len(expected)}")
        self.assertEqual([line.split("\t") for line in lines], [[token, str(count)] for token, count in expected])

    def test_reports_every_split(self):
        self.write("train.txt", "a a a b b c\n")
        self.write("validation.txt", "a b c d\n")
        found = json.loads(self.succeed("vocab", "--data", self.folder, "--vocab-size", 4, "--json"))
        self.assertEqual(found["level"], "word")
        self.assertEqual(found["size"], 4)
        self.assertEqual(list(found["splits"]), ["train", "validation"])
        self.assertEqual(found["splits"]["train"]["tokens"], 7)
        self.assertEqual(found["splits"]["train"]["types"], 4)
        self.assertAlmostEqual(found["splits"]["train"]["coverage"], 6 / 7)
        self.assertEqual(found["splits"]["validation"]["left_out"], 2)
        self.assertEqual(found["most_frequent"][0], {"token": "a", "count": 3})
        text = self.succeed("vocab", "--data", self.folder / "train.txt", "--min-count", 2)
        self.assertIn("train: 7 tokens of train.txt, 4 types; the vocabulary has 85.71 % of the tokens", text)
        self.assertIn("most frequent: a 3, b 2, <eos> 1, <unk> 1", text)

    def test_characters(self):
        text = self.write("text", "αβ α\r\n")
        out = self.folder / "v.txt"
        self.assertIn("' ' 1", self.succeed("vocab", "--data", text, "--level", "char", "--out", out))
        self.assertEqual(out.read_text(), "keelson-vocabulary 1 character 5\nα\t2\n\\n\t1\n \t1\nβ\t1\n<unk>\t0\n")

    def test_ranks_agree(self):
        self.write("train.txt", "a b c a\n")
        lines = [line for line in self.succeed("vocab", "--data", self.folder, ranks=2).splitlines() if "train" in line]
        self.assertEqual(len(lines), 1)
        self.refused("vocab", "--data", self.write("bad", b"abc\x00"), ranks=2, says="byte 3 is 0x00")

    def test_refusals(self):
        self.refused("vocab", says="give --data")
        self.refused("vocab", "--data", self.folder / "nothing", says="nothing: does not exist")
        self.refused("vocab", "--data", self.folder, says="neither ptb.train.txt nor train.txt")
        self.refused("vocab", "--train", self.folder / "nothing", says="nothing: cannot be opened")
        self.refused("vocab", "--data", self.write("empty", ""), says="empty: is empty")
        self.refused("vocab", "--data", self.write("blank", "  \t "), says="blank: has no words")
        self.refused("vocab", "--data", LM.path, says="keelson-lm: byte [0-9]+ is 0x.*not UTF-8")
        self.refused("vocab", "--data", self.write("latin1", b"na\xefve\n"), says="latin1: byte 2 is 0xef.*iconv")
        self.refused("vocab", "--data", self.write("long", "x" * 3000000), says="without white space.*--level char")
        good = self.write("good", "a b\n")
        self.refused("vocab", "--data", good, "--vocab-size", 1, says="1 tokens is not possible. Expected 3")
        self.refused("vocab", "--data", good, "--min-count", 9, says="--min-count")
        self.refused("vocab", "--data", good, "--level", "syllable", says="--level")
        done = LM.run("vocab", "--data", good, "--out", self.folder / "no" / "v.txt")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write", done.stderr)


class Corpus(Case):
    def corpus(self, *arguments, **options):
        return self.succeed("corpus", "--out", self.folder / "text", "--words", 30000, "--validation-words", 2000,
                            "--test-words", 1000, "--vocab-size", 50, "--branching", 4, "--topics", 2, *arguments, **options)

    def test_the_source_is_described(self):
        text = self.corpus()
        source = json.loads((self.folder / "text/source.json").read_text())
        perplexity = source["perplexity"]
        self.assertAlmostEqual(perplexity["best"], math.exp(source["entropy_rate_nats"]))
        self.assertLess(perplexity["best"] + 0.1, perplexity["trigram"])
        self.assertLess(perplexity["trigram"], perplexity["bigram"])
        self.assertLess(perplexity["bigram"], perplexity["unigram"])
        self.assertIn(f"the best possible perplexity is {perplexity['best']:.4f}", text)
        self.assertEqual(json.loads(self.corpus("--json")), source)

    def test_tokens_are_counted_as_they_are_read(self):
        self.corpus()
        tokens = json.loads((self.folder / "text/source.json").read_text())["tokens"]
        found = json.loads(self.succeed("vocab", "--data", self.folder / "text", "--json"))
        self.assertEqual(found["splits"]["train"]["types"] + 1, found["size"])  # and <unk>
        self.assertIn(found["size"], range(40, 53))
        for split, file, least in [("train", "ptb.train.txt", 30000), ("validation", "ptb.valid.txt", 2000),
                                   ("test", "ptb.test.txt", 1000)]:
            self.assertEqual(found["splits"][split]["tokens"], tokens[file])
            self.assertGreaterEqual(tokens[file], least)
            self.assertLess(tokens[file], least + 300)
        self.assertEqual(found["splits"]["train"]["left_out"], 0)

    def test_it_is_a_function_of_the_seed(self):
        texts = []
        for arguments, ranks in [((), 0), ((), 2), (("--seed", 5), 0)]:
            self.corpus(*arguments, ranks=ranks)
            texts.append((self.folder / "text/ptb.train.txt").read_bytes())
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        self.assertNotEqual(texts[0][:2000], (self.folder / "text/ptb.valid.txt").read_bytes()[:2000])

    def test_refusals(self):
        self.refused("corpus", says="give --out")
        out = self.folder / "out"
        self.refused("corpus", "--out", out, "--vocab-size", 2, says="--vocab-size is 2. Expected 4")
        self.refused("corpus", "--out", out, "--vocab-size", 10, "--branching", 6, says="--branching is 6. Expected 2 to 5")
        self.refused("corpus", "--out", out, "--topics", 0, says="--topics is 0")
        self.refused("corpus", "--out", out, "--sentence", 1, says="--sentence is 1")
        self.refused("corpus", "--out", out, "--words", 0, says="--words")
        self.assertFalse(out.exists())
        self.refused("corpus", "--out", self.write("file", "") / "out", says="cannot be made")


if __name__ == "__main__":
    unittest.main()
