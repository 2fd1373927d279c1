"""Spare ranks that take the place of ranks that die: training goes back to its latest checkpoint, in memory."""

import re
import signal
import unittest

from killed_runs import RANKS, ULFM, WORKLOADS, SparedRuns
from programs import Program, attributes, long_test, newest

LM = WORKLOADS["lm"].program


class Spares(SparedRuns):
    workload = WORKLOADS["lm"]  # whose recurrent states go back, too, and which cannot do without a rank

    def test_one_after_the_other(self):
        """First the first rank, then the spare rank in its place."""
        run = self.start_with(2)
        self.wait_until(run, lambda: self.steps_done() >= 10)
        self.kill(run, 0)
        self.wait_until(run, self.tells_of_loss)
        self.kill(run, RANKS)
        self.ends_as_if_undisturbed(run)
        self.replaced(0, RANKS)

    def test_all_that_trained_before(self):
        """Nobody who is left keeps a checkpoint in memory: training goes back to the last that was written."""
        run = self.start_with(2, "--checkpoint-steps", 50, "--epochs", 12, ranks=2)
        self.wait_until(run, lambda: self.steps_done() >= 52)
        self.kill(run, 1)
        self.wait_until(run, self.tells_of_loss)
        self.kill(run, 0)
        text = self.ends_with(run, 0)
        steps = re.findall(r"spare ranks take their place, and 2 ranks go on from step (\d+)\.", text)
        self.assertEqual(len(steps), 2, text)
        for step in map(int, steps):  # a fast run may have written more than one checkpoint before the loss
            self.assertGreaterEqual(step, 50, text)
            self.assertIn(f"continuing from {self.out}/checkpoints/step-{step:010}.h5", text)

    @long_test
    def test_of_a_network_without_states(self):
        run = self.start_with(1, workload=WORKLOADS["cosmoflow"])
        self.wait_until(run, lambda: self.steps_done() >= 5)
        self.kill(run, 0)
        self.ends_as_if_undisturbed(run, WORKLOADS["cosmoflow"])
        self.replaced(0)

    def test_all_used_up(self):
        """Of a network that can do without a rank: what is said names ranks as the job began, too."""
        run = self.start_with(1, "--epochs", 3, workload=WORKLOADS["cosmoflow"])
        self.wait_until(run, lambda: self.steps_done() >= 4)
        self.kill(run, 1)
        self.wait_until(run, self.tells_of_loss)
        before = self.steps_done()
        self.wait_until(run, lambda: self.steps_done() > before + 1)
        self.kill(run, RANKS)  # the spare rank
        text = self.ends_with(run, 0)
        self.assertRegex(text, rf"rank 1 \(\S+\) was lost in .*spare ranks take their place")
        self.assertRegex(text, rf"rank {RANKS} \(\S+\) was lost in .*3 ranks go on\.")

    @long_test
    def test_before_the_first_checkpoint(self):
        run = self.start_with(1, "--checkpoint-steps", 0)
        self.wait_until(run, lambda: self.steps_done() >= 2)
        self.kill(run, 3)
        self.ends_as_if_undisturbed(run)

    @long_test
    def test_a_spare_rank(self):
        """Training does not notice; the end of the run tells."""
        run = self.start_with(1)
        self.wait_until(run, lambda: self.steps_done() >= 5)
        self.kill(run, RANKS)
        text = self.ends_as_if_undisturbed(run)
        self.assertRegex(text, rf"note: rank {RANKS} \(\S+\) was lost by the end of the run")

    def test_first_rank_after_the_work(self):
        """The first rank is lost before it gives the folder's lock back: another rank removes the lock."""
        done = Program("test_mpi").run("--app", "lock", "--folder", self.out, ranks=4, launcher=ULFM)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"note: rank 0 \(\S+\) was lost by the end of the run")
        self.assertFalse((self.out / "run.lock").exists(), done.stderr)

    def test_more_than_there_are(self):
        run = self.start_with(1)
        self.wait_until(run, lambda: self.steps_done() >= 9)
        self.kill(run, 1, 3)
        self.assertRegex(self.ends_with(run, 1), r"error: .*ranks? .* lost; 3 are left, but 4 must train. Start the job again, with more --spares; "
                                      rf"to continue: keelson-lm train --resume {self.out}")

    @long_test
    def test_signals(self):
        """The spare ranks wait for the checkpoint of the others."""
        run = self.start_with(1)
        self.wait_until(run, lambda: self.steps_done() >= 5)
        run.send_signal(signal.SIGUSR1)
        self.assertEqual(run.wait(120), 75, self.said())
        self.assertEqual(attributes(newest(self.out))["step"], self.steps_done())

    def test_refusals(self):
        arguments = self.workload.arguments(self.data_of(self.workload), self.out)
        for words, ranks, launcher, says in (
                (["--spares", 1], 3, None, "--with-ft ulfm"),
                (["--spares", 2], 3, ULFM, "at least two of"),
                (["--progress", "thread"], 2, ULFM, "progress by a thread is not possible here"),
                (["--spares", 1, "--vocab", self.folder / "none"], 3, ULFM, "none")):
            with self.subTest(says):
                options = {"launcher": launcher} if launcher else {}
                done = LM.run(*arguments, *words, ranks=ranks, **options)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(says, done.stderr)
                self.assertEqual(done.stderr.count("error:"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
