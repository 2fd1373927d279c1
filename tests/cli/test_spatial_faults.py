"""Ranks that are killed while replicas of two ranks train (--spatial 2): the ranks that are left make up whole replicas, and
the others wait."""

import os
import re
import signal
import unittest
from unittest import mock

from killed_runs import EPOCHS, RANKS, SAMPLES, ULFM, WORKLOADS, KilledRuns, SparedRuns
from programs import arrays, attributes, long_test, newest, numpy, records

PARTS = WORKLOADS["parts"]
ONE_THREAD = mock.patch.dict(os.environ, OMP_NUM_THREADS="1")


@ONE_THREAD
class SpatialFaults(KilledRuns):
    workload = PARTS

    def kill_after(self, run, steps, *ranks):
        before = self.steps_done()
        self.wait_until(run, lambda: self.steps_done() >= before + steps)
        self.kill(run, *ranks)

    def ends_well(self, run, *ways, ranks=RANKS):
        """The run reaches its end, and tells after each loss how it goes on. All samples of each epoch count."""
        text = self.ends_with(run, 0)
        events = [r["text"] for r in records(self.out, "event") if r["event"] == "ranks lost"]
        self.assertEqual([e.split("; ")[1].split(". Seconds")[0] for e in events], list(ways), text)
        lost = sum(len(re.findall(r"\d+ \(", e.split(" lost in ")[0])) for e in events)
        self.assertIn(f"{lost} of {ranks} ranks were lost; the parameters of all ranks that are left are equal", text)
        last = attributes(newest(self.out))
        self.assertEqual((last["epoch"], last["samples"]), (EPOCHS, EPOCHS * SAMPLES), text)
        self.assertEqual(len(records(self.out, "epoch")), EPOCHS, text)
        self.has_baseline_of(self.undisturbed())
        self.assertFalse((self.out / "run.lock").exists())

    def has_same_end_on(self, ranks):
        """A job on the ranks that were left, from the last checkpoint within an epoch, ends with the same bits."""
        parts = [p for p in sorted((self.out / "checkpoints").glob("step-*.h5")) if "part_step" in attributes(p)]
        self.assertTrue(parts, self.said())
        again = self.folder / "again"
        done = PARTS.program.run("train", "--resume", parts[-1], "--out", again, "--spatial", 2, ranks=ranks, limit=600,
                                 launcher=ULFM)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        whole, resumed = arrays(newest(self.out)), arrays(newest(again))
        self.assertEqual(whole.keys(), resumed.keys())
        for name, values in whole.items():
            self.assertTrue(numpy.array_equal(values, resumed[name]), name)
        losses = [{r["step"]: r["loss"] for r in records(out, "step")} for out in (self.out, again)]
        self.assertTrue(losses[1].items() <= losses[0].items(), losses)
        for kind in ("validation_loss", "metric"):
            self.assertEqual(*[records(out, "epoch")[-1][kind] for out in (self.out, again)])

    def test_one_rank(self):
        """One replica is broken: its other rank waits."""
        run = self.start("--checkpoint-steps", 4)
        self.kill_after(run, 5, 3)
        self.ends_well(run, "1 replica of 2 ranks goes on, and 1 rank waits")
        self.has_same_end_on(2)

    @long_test
    def test_the_first_rank(self):
        """The second replica takes console, records and checkpoints over: rank 1 makes up a replica with rank 2."""
        run = self.start("--checkpoint-steps", 1)
        self.kill_after(run, 5, 0)
        self.ends_well(run, "1 replica of 2 ranks goes on, and 1 rank waits")
        self.has_same_end_on(2)

    @long_test
    def test_two_ranks_of_different_replicas_at_once(self):
        run = self.start("--checkpoint-steps", 1)
        self.kill_after(run, 5, 1, 2)
        self.ends_well(run, "1 replica of 2 ranks goes on")
        self.has_same_end_on(2)

    @long_test
    def test_a_rank_that_waited_trains_again(self):
        """With the parameters, moments and counters of the others."""
        run = self.start("--checkpoint-steps", 1)
        self.kill_after(run, 3, 1)
        self.kill_after(run, 5, 0)
        self.ends_well(run, "1 replica of 2 ranks goes on, and 1 rank waits", "1 replica of 2 ranks goes on")
        self.has_same_end_on(2)

    @long_test
    def test_a_rank_that_waits(self):
        """The others do the step again."""
        run = self.start("--checkpoint-steps", 1)
        self.kill_after(run, 3, 1)
        self.kill_after(run, 5, 3)
        self.ends_well(run, "1 replica of 2 ranks goes on, and 1 rank waits", "1 replica of 2 ranks goes on")
        self.has_same_end_on(2)

    @long_test
    def test_of_three_replicas(self):
        run = self.start("--checkpoint-steps", 100, "--max-failures", 3, ranks=6)
        for victim in (1, 4, 0):
            self.kill_after(run, 2, victim)
        self.ends_well(run, "2 replicas of 2 ranks go on, and 1 rank waits", "2 replicas of 2 ranks go on",
                       "1 replica of 2 ranks goes on, and 1 rank waits", ranks=6)

    def test_too_few_for_a_replica(self):
        run = self.start("--max-failures", 3)
        self.kill_after(run, 5, 0, 1, 2)
        self.assertRegex(self.ends_with(run, 1),
                         r"error: ranks 0 .* lost in .* after step \d+; 1 rank is left, but a replica has 2 \(--spatial\)\. "
                         rf"The last checkpoint is \S+; to continue: keelson-cosmoflow train --resume {self.out}")
        done = PARTS.program.run("train", "--resume", self.out, "--spatial", 2, ranks=RANKS, limit=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(attributes(newest(self.out))["samples"], EPOCHS * SAMPLES)

    @long_test
    def test_too_many(self):
        """--max-failures counts ranks that have died, not ranks that wait."""
        run = self.start("--max-failures", 1)
        self.kill_after(run, 3, 1)
        self.kill_after(run, 2, 3)
        self.assertRegex(self.ends_with(run, 1), r"error: rank 3 .* which makes 2 of 4 \(the most that a run goes on without: 1\)")

    @long_test
    def test_a_stopped_rank(self):
        """The watchdog names the layer whose rows are awaited, on which side, and the rank that should send them. In the
        longer part of a step ranks compute, or wait for rows. A rank may be stopped at another moment, so there are several
        trials."""
        for trial in range(5):
            run = self.start(KEELSON_WATCHDOG="2", KEELSON_WATCHDOG_ABORT="6")
            self.wait_until(run, lambda: self.steps_done() >= 5 + trial)
            self.kill(run, 2, number=signal.SIGSTOP)
            text = self.ends_with(run, 1, limit=120)
            self.assertIn("ending the job (KEELSON_WATCHDOG_ABORT)", text)
            self.assertRegex(text, r"watchdog: rank \d \(\S+\) has waited \d+ s for .*: (rank|.* )2 \(")
            if re.search(r"watchdog: rank 3 \(\S+\) has waited \d+ s for (gradients of )?rows of conv\d from part 0 \(before\) "
                         r"with rank 2 \(\S+\) in step \d", text):
                return
        self.fail(f"no rank waited for rows:\n{text}")


@ONE_THREAD
class SpatialSpares(SparedRuns):
    workload = PARTS

    def test_in_place(self):
        run = self.start_with(1)
        self.wait_until(run, lambda: self.steps_done() >= 5)
        self.kill(run, 2)
        self.ends_as_if_undisturbed(run)
        self.replaced(2, trained="2 replicas of 2 ranks")

    @long_test
    def test_all_used_up(self):
        """Then the ranks that are left make up replicas."""
        run = self.start_with(1)
        self.wait_until(run, lambda: self.steps_done() >= 4)
        self.kill(run, 1)
        self.wait_until(run, self.tells_of_loss)
        before = self.steps_done()
        self.wait_until(run, lambda: self.steps_done() > before + 1)
        self.kill(run, RANKS)  # the spare rank
        text = self.ends_with(run, 0)
        self.assertRegex(text, r"rank 1 \(\S+\) was lost in .*spare ranks take their place, and 2 replicas of 2 ranks go on from")
        self.assertRegex(text, rf"rank {RANKS} \(\S+\) was lost in .*; 1 replica of 2 ranks goes on, and 1 rank waits\.")


if __name__ == "__main__":
    unittest.main(verbosity=2)
