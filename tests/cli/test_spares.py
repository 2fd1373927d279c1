"""Spare ranks that take the place of ranks that die: training goes back to its latest checkpoint, in memory."""

import random
import re
import signal
import time
import unittest

from killed_runs import COSMOFLOW, EPOCHS, FAULTS, RANKS, SAMPLES, ULFM, KilledRuns
from lm_support import LM
from programs import arrays, attributes, newest, numpy, records


class Spares(KilledRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.undisturbed = cls.shared / "undisturbed"
        done = COSMOFLOW.run(*cls.arguments(cls.undisturbed), ranks=RANKS, launcher=ULFM, limit=600)
        assert done.returncode == 0, done.stderr

    def start_with(self, spares, *others):
        return self.start("--spares", spares, *others, ranks=RANKS + spares)

    def ends_as_if_undisturbed(self, run):
        code = run.wait(300)
        self.assertEqual(code, 0, self.said())
        return self.trained_as_if_undisturbed()

    def ends_or_can_be_resumed(self, run):
        """Open MPI (6.0.0rc2) itself crashes where a rank dies while a communicator is being made. What was saved is not
        lost: the run can be resumed."""
        run.wait(300)
        if "ompi_comm_revoke_local" not in self.said():
            return self.ends_as_if_undisturbed(run)
        if not list((self.out / "checkpoints").glob("step-*.h5")):
            return None
        done = COSMOFLOW.run("train", "--resume", self.out, ranks=RANKS, limit=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.trained_as_if_undisturbed()

    def trained_as_if_undisturbed(self):
        """To the bit: as many ranks do the same sums."""
        text = self.said()
        last = attributes(newest(self.out))
        self.assertEqual((last["epoch"], last["samples"]), (EPOCHS, EPOCHS * SAMPLES), text)
        whole, found = arrays(newest(self.undisturbed)), arrays(newest(self.out))
        self.assertEqual(whole.keys(), found.keys())
        for name, values in whole.items():
            self.assertTrue(numpy.array_equal(values, found[name]), name)
        steps = [r["step"] for r in records(self.out, "step")]
        self.assertEqual(steps, list(range(1, last["step"] + 1)), text)
        losses = [[r["loss"] for r in records(out, "step")] for out in (self.undisturbed, self.out)]
        self.assertEqual(*losses)
        self.assertFalse((self.out / "run.lock").exists())
        return text

    def replaced(self, *lost):
        """The run tells who was lost, and from which step it goes on."""
        events = [r["text"] for r in records(self.out, "event") if r["event"] == "ranks lost"]
        named = [int(rank) for e in events for rank in re.findall(r"(\d+) \(", e.split(" lost in ")[0])]
        self.assertEqual(named, list(lost), self.said())
        for event in events:
            self.assertRegex(event, r"after step \d+; spare ranks take their place, and 4 ranks go on from step \d+\. ")
        self.assertIn(events[-1], (self.out / "report.html").read_text())

    def test_the_first_rank(self):
        run = self.start_with(1)
        self.wait_until(run, lambda: self.steps_done() >= 10)
        self.kill(run, 0)
        self.ends_as_if_undisturbed(run)
        self.replaced(0)

    def test_one_after_the_other(self):
        run = self.start_with(2)
        self.wait_until(run, lambda: self.steps_done() >= 8)
        self.kill(run, 2)
        self.wait_until(run, lambda: self.steps_done() >= 16)
        self.kill(run, 4)
        self.ends_as_if_undisturbed(run)
        self.replaced(2, 4)

    def test_before_the_first_checkpoint(self):
        run = self.start_with(1, "--checkpoint-steps", 0)
        self.wait_until(run, lambda: self.steps_done() >= 2)
        self.kill(run, 3)
        self.ends_as_if_undisturbed(run)

    def test_a_spare_rank(self):
        """Training does not notice; the end of the run tells."""
        run = self.start_with(1)
        self.wait_until(run, lambda: self.steps_done() >= 5)
        self.kill(run, RANKS)
        text = self.ends_as_if_undisturbed(run)
        self.assertRegex(text, rf"note: rank {RANKS} \(\S+\) was lost by the end of the run")

    def test_more_than_there_are(self):
        run = self.start_with(1)
        self.wait_until(run, lambda: self.steps_done() >= 9)
        self.kill(run, 1, 3)
        self.assertEqual(run.wait(120), 1, self.said())
        self.assertRegex(self.said(), r"error: .*ranks? .* lost; 3 are left, but 4 shall train: give more --spares; "
                                      rf"to continue: keelson-cosmoflow train --resume {self.out}")

    def test_at_random_moments(self):
        """The second rank is killed soon after the first: in training, or while the run begins anew."""
        for seed in range(FAULTS):
            with self.subTest(seed):
                chance = random.Random(seed)
                first, second = chance.sample(range(RANKS + 2), 2)
                run = self.start_with(2)
                step = chance.randrange(1, 20)
                self.wait_until(run, lambda: self.steps_done() >= step)
                self.kill(run, first)
                time.sleep(chance.uniform(0, 1.5))
                self.kill(run, second)
                self.ends_or_can_be_resumed(run)

    def test_a_language_model(self):
        """Its recurrent states go back, too."""
        text = self.folder / "text"
        done = LM.run("corpus", "--out", text, "--words", 3000, "--validation-words", 400, "--test-words", 10,
                      "--vocab-size", 40, "--branching", 4, "--topics", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        words = ["train", "--data", text, "--hidden", 12, "--unroll", 6, "--batch", 2, "--epochs", 2, "--log-every", 1,
                 "--checkpoint-steps", 7, "--keep", 100, "--out"]
        whole = self.folder / "whole"
        done = LM.run(*words, whole, ranks=2, launcher=ULFM)
        self.assertEqual(done.returncode, 0, done.stderr)
        run = self.start(program=LM, words=[*words, self.out, "--spares", 1], ranks=3)
        self.wait_until(run, lambda: self.steps_done() >= 24)
        self.kill(run, 0)
        self.assertEqual(run.wait(120), 0, self.said())
        self.assertIn("spare ranks take their place", self.said())
        before, now = arrays(newest(whole)), arrays(newest(self.out))
        for name, values in before.items():
            self.assertTrue(numpy.array_equal(values, now[name]), name)

    def test_signals(self):
        """The spare ranks wait for the checkpoint of the others."""
        run = self.start_with(1)
        self.wait_until(run, lambda: self.steps_done() >= 5)
        run.send_signal(signal.SIGUSR1)
        self.assertEqual(run.wait(120), 75, self.said())
        self.assertEqual(attributes(newest(self.out))["step"], self.steps_done())

    def test_refusals(self):
        done = COSMOFLOW.run(*self.arguments(self.out, "--spares", 1), ranks=3)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--with-ft ulfm", done.stderr)
        done = COSMOFLOW.run(*self.arguments(self.out, "--spares", 2), ranks=3, launcher=ULFM)
        self.assertEqual(done.returncode, 2)
        self.assertIn("two at least must train", done.stderr)
        done = COSMOFLOW.run(*self.arguments(self.out, "--progress", "thread"), ranks=2, launcher=ULFM)
        self.assertEqual(done.returncode, 2)
        self.assertIn("progress by a thread cannot be had here", done.stderr)
        done = COSMOFLOW.run("train", "--data", self.folder / "none", "--out", self.out, "--spares", 1, ranks=3,
                             launcher=ULFM)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("error:"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
