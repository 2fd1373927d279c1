"""keelson-lm train from end to end: resuming, ranks, recipes; and keelson-lm scaling."""

import json
import shutil
import signal
import time
import unittest

from lm_support import LM, SMALL, LmCase, Oracle
from programs import arrays, attributes, needs_h5py, newest, numpy, records

class Resume(LmCase):
    def setUp(self):
        super().setUp()
        # 24 steps an epoch, in 8 streams
        self.arguments = ["--data", self.write("train.txt", " ".join(self.tokens("ptb.train.txt")[:1200])), *SMALL,
                          "--global-batch", 8, "--log-every", 1]

    def in_pieces(self, ends, *arguments, ranks=(0, 0)):
        """A run that is cut after each of these steps but the last, and resumed; its last checkpoint."""
        first, *others = ends
        self.succeed("train", "--out", self.out, *arguments, "--max-steps", first, "--keep", 9, ranks=ranks[0])
        for end in others:
            self.succeed("train", "--resume", self.out, "--max-steps", end, "--keep", 9, "--log-every", 1, ranks=ranks[1])
        return newest(self.out)

    def straight(self, *arguments, ranks=0):
        out = self.folder / f"straight{ranks}"
        self.succeed("train", "--out", out, "--overwrite", *arguments, ranks=ranks)
        return out

    @needs_h5py
    def test_bit_for_bit(self):
        for kind, (cell, layers, options) in {
            "dropout": ("lstm", 2, ["--dropout", 0.5, "--momentum", 0.5, "--lr", 0.1]),
            "tied": ("lstm", 1, ["--tied", "--optimizer", "adam", "--lr", 0.01]),
            "sampled": ("lstm", 1, ["--sampled-softmax", 20, "--lr", 0.1]),
            "gru": ("gru", 2, ["--schedule", "decay", "--decay-factor", 0.5, "--flat-epochs", 1, "--embedding", 8])}.items():
            with self.subTest(kind):
                self.out = self.folder / kind
                arguments = [*self.arguments, "--epochs", 3, "--cell", cell, "--layers", layers, *options]
                whole = self.straight(*arguments)
                last = self.in_pieces([24, 41, 999], *arguments)  # at an epoch's end, within an epoch
                self.assertEqual(last.name, "step-0000000072.h5")
                self.assert_same(newest(whole), last)
                losses = [[(r["step"], r["loss"]) for r in records(folder, "step")] for folder in (whole, self.out)]
                self.assertEqual(len(losses[0]), 72)
                self.assertEqual(losses[0], losses[1])
                self.check_carried(cell, layers)
                self.evaluate(self.out, "--test", self.text / "ptb.test.txt", "--unroll", 5)
                self.sample(self.out, "--tokens", 5)

    def check_carried(self, cell, layers):
        """An epoch begins with zeros, so checkpoints between epochs carry nothing."""
        within, between = (arrays(self.out / f"checkpoints/step-00000000{step}.h5") for step in (41, 24))
        states = [name for name in within if name.startswith("state/")]
        self.assertEqual(states, [f"state/{cell}{layer}_state" for layer in range(1, layers + 1)])
        for name in states:
            self.assertEqual(within[name].shape, (8, 2 if cell == "lstm" else 1, 12))
            self.assertTrue((within[name] != 0).any(axis=(1, 2)).all())
        self.assertFalse([name for name in between if name.startswith("state/")])

    @needs_h5py
    def test_state_is_carried_from_window_to_window(self):
        """With weights that hardly move, an epoch's loss is that of eight texts read from end to end."""
        self.succeed("train", "--out", self.out, *self.arguments, "--layers", 1, "--init", 2, "--lr", 1e-30, "--epochs", 2,
                     "--validation", self.text / "ptb.valid.txt")
        words = self.tokens("ptb.train.txt")[:1200]
        loss = apart = 0
        for stream in range(8):
            oracle = Oracle(self.out)
            row = words[150 * stream:][:145]  # 24 windows and a token
            for i, (word, following) in enumerate(zip(row, row[1:])):
                if i % 6 == 0:
                    blank = Oracle(self.out)
                loss -= oracle.next(word)[oracle.words.index(following)] / (8 * 144)
                apart -= blank.next(word)[oracle.words.index(following)] / (8 * 144)
        self.assertGreater(abs(loss - apart), 1e-3)  # the state makes a difference
        for epoch in records(self.out, "epoch"):
            self.assertAlmostEqual(epoch["train_loss"], loss, delta=1e-5 * loss)

    @needs_h5py
    def test_after_signals(self):
        # mpirun passes SIGUSR1 on, and ends the job itself on SIGTERM.
        for ranks, wish in ((0, signal.SIGTERM), (2, signal.SIGUSR1)):
            with self.subTest(ranks=ranks):
                self.out = self.folder / f"cut{ranks}"
                arguments = [*self.arguments, "--epochs", 100000, "--dropout", 0.3, "--lr", 0.1, "--checkpoint-every", 0]
                job = LM.start("train", "--out", self.out, *arguments, ranks=ranks)
                while job.poll() is None and not ((self.out / "metrics.jsonl").exists() and records(self.out, "step")):
                    time.sleep(0.005)
                job.send_signal(wish)
                out, err = job.communicate(timeout=60)
                self.assertEqual(job.returncode, 75, out + err)
                self.assertIn(f"to continue: keelson-lm train --resume {self.out}", out)
                end = ["--max-steps", int(newest(self.out).stem[5:]) + 30]
                self.succeed("train", "--resume", self.out, *end, ranks=ranks)
                self.assert_same(newest(self.straight(*arguments, *end, ranks=ranks)), newest(self.out))

    @needs_h5py
    def test_on_another_number_of_ranks(self):
        arguments = [*self.arguments, "--epochs", 2, "--dropout", 0.5, "--clip-norm", 1]
        whole = self.straight(*arguments)
        two = self.straight(*arguments, ranks=2)
        self.assert_close(whole, two)
        for before, after in ((2, 0), (0, 2)):
            with self.subTest(before=before, after=after):
                self.out = self.folder / f"{before}-{after}"
                self.in_pieces([17, 999], *arguments, ranks=(before, after))
                self.assert_close(whole, self.out)

    def assert_same(self, a, b, tolerance=0):
        """Two checkpoints, array by array."""
        a, b = arrays(a), arrays(b)
        self.assertEqual(a.keys(), b.keys())
        for name in a:
            self.assertEqual(a[name].shape, b[name].shape, name)
            difference = numpy.abs(a[name].astype("f8") - b[name].astype("f8")).max()
            self.assertLessEqual(difference, tolerance * numpy.abs(a[name]).max(), name)

    def assert_close(self, a, b):
        losses = [[r["loss"] for r in records(folder, "step")] for folder in (a, b)]
        self.assertEqual(len(losses[0]), 48)
        self.assertEqual(len(losses[1]), 48)
        for u, v in zip(*losses):
            self.assertAlmostEqual(u, v, delta=1e-5 * u)
        self.assert_same(newest(a), newest(b), tolerance=1e-5)


class Recipes(LmCase):
    @needs_h5py
    def test_published(self):
        """Zaremba et al. 2014, with a vocabulary of 10,000."""
        data = self.write("train.txt", " ".join(f"w{i}" for i in range(12000)))
        for name, parameters, published in [
            ("small", 4651600, dict(hidden=200, unroll=20, init=0.1, dropout=0, epochs=13, flat_epochs=4, decay_factor=0.5,
                                    clip_norm=5)),
            ("medium", 19775200, dict(hidden=650, unroll=35, init=0.05, dropout=0.5, epochs=39, flat_epochs=6,
                                      decay_factor=0.8, clip_norm=5)),
            ("large", 66022000, dict(hidden=1500, unroll=35, init=0.04, dropout=0.65, epochs=55, flat_epochs=14,
                                     decay_factor=1 / 1.15, clip_norm=10))]:
            with self.subTest(name):
                printed = self.train("--recipe", name, "--max-steps", 0, data=data, out=self.folder / name)
                self.assertIn(f"lm-lstm: {parameters} parameters", printed)
                found = attributes(newest(self.folder / name))
                for key, value in dict(published, layers=2, vocab_size=10000, lr=1, momentum=0).items():
                    self.assertAlmostEqual(float(found["config." + key.replace("_", "-")]), value, places=6, msg=key)
                self.assertEqual((found["global_batch"], found["config.cell"], found["config.optimizer"],
                                  found["config.schedule"], found["config.tied"]), (20, "lstm", "sgd", "decay", "false"))
                weights = arrays(newest(self.folder / name))
                shutil.rmtree(self.folder / name)
                self.assertEqual(sum(a.size for n, a in weights.items() if n.startswith("parameters/")), parameters)
                for n in ("embedding/weights", "lstm1/weights", "lstm2_input/weights", "output/weights", "output/bias"):
                    largest = abs(weights[f"parameters/{n}"]).max()
                    self.assertLessEqual(largest, published["init"] * (1 + 1e-6))
                    self.assertGreater(largest, published["init"] * 0.99)
                for n in ("lstm1_input/bias", "lstm2_input/bias"):
                    self.assertEqual(abs(weights[f"parameters/{n}"]).max(), 0)

    def test_options_win(self):
        printed = self.train("--recipe", "demo", "--hidden", 16, "--batch", 4, "--max-steps", 2)
        self.assertIn("6 epochs of 42 steps, batch 4 (1 rank); sgd, clip norm 5; "
                      "learning rate 1, x 0.4 in each epoch after the first 3; fp32", printed)

    def test_target(self):
        printed = self.train(*SMALL, "--batch", 8, "--epochs", 9, "--target-perplexity", 30)
        self.assertIn("target reached after epoch 1", printed)


class Scaling(LmCase):
    def scaling(self, *arguments, ranks=2):
        return self.succeed("scaling", "--steps", 2, "--warmup", 1, *arguments, ranks=ranks)

    def test_a_batch_for_each_rank(self):
        report = self.folder / "scaling.html"
        table = json.loads(self.scaling("--batch", 3, "--report", report, "--json", ranks=3))
        self.assertFalse(table["strong"])
        self.assertIn("language model small, 4651600 parameters, unrolled over 20", table["net"])
        rows = table["rows"]
        self.assertEqual([(r["ranks"], r["batch"]) for r in rows], [(1, 3), (2, 3), (3, 3)])
        for r in rows:
            self.assertAlmostEqual(r["words_per_second"], r["ranks"] * 3 * 20 / r["seconds_per_step"], delta=1)
            self.assertAlmostEqual(r["words_per_second_per_rank"], r["words_per_second"] / r["ranks"], delta=1e-3)
            self.assertAlmostEqual(r["speed_up"], r["words_per_second"] / rows[0]["words_per_second"], places=6)
            self.assertAlmostEqual(r["efficiency"], r["speed_up"] / r["ranks"], places=6)
            self.assertGreaterEqual(r["exchange_share"], 0)
            self.assertLess(r["exchange_share"], 1)
        page = report.read_text()
        for part in ("language model small", "Weak scaling", f"<td class='n'>{rows[2]['words_per_second']:.0f}</td>"):
            self.assertTrue(part in page, part)
        for part in ("<script", "http:", "https:", "src="):
            self.assertFalse(part in page, part)

    def test_one_batch_shared_out(self):
        report = self.folder / "scaling.html"
        printed = self.scaling("--strong", "--batch", 6, "--report", report)
        self.assertIn("one global batch, divided among the ranks", printed)
        rows = [line.split()[:2] for line in printed.splitlines() if line.endswith(" %")]
        self.assertEqual(rows, [["1", "6"], ["2", "3"]])
        self.assertIn(f"report: {report}", printed)
        self.assertIn("Strong scaling", report.read_text())

    def test_refusals(self):
        self.refused("scaling", "--strong", "--batch", 5, ranks=2, says="global batch of 5 .* among 2 ranks: give --batch")
        self.refused("scaling", "--net", "huge", says="--net")


if __name__ == "__main__":
    unittest.main()
