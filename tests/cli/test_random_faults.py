"""Ranks that are killed or stopped at random moments, in all programs that train, with and without spare ranks.

KEELSON_FAULTS=N kills a rank in N runs, two ranks in N / 5 runs, and stops a rank in N / 5 runs."""

import collections
import random
import signal
import time
import unittest

from killed_runs import EPOCHS, FAULTS, RANKS, WORKLOADS, SparedRuns
from programs import attributes, long_test, newest


class RandomFaults(SparedRuns):
    def setUp(self):
        super().setUp()
        self.ends = collections.Counter()
        self.addCleanup(lambda: print(f"{self.id().split('.')[-1]}:", dict(sorted(self.ends.items()))))

    def turn(self, seed):
        """The workload, and the number of spare ranks."""
        return list(WORKLOADS.values())[seed % len(WORKLOADS)], seed // len(WORKLOADS) % 2

    def reach(self, run, chance, spread):
        """A random moment of the run: mostly a step, sometimes before the first."""
        step = chance.randrange(0, 12)
        self.wait_until(run, lambda: self.steps_done() >= step)
        time.sleep(chance.uniform(0, spread))

    def crashed_in_mpi(self):
        """Open MPI (6.0.0rc2) crashes where a rank dies while a communicator is being made: docs/when-ranks-die.md."""
        return "ompi_comm_revoke_local" in self.said()

    def can_be_resumed(self, workload):
        if not list((self.out / "checkpoints").glob("step-*.h5")):
            return
        done = workload.program.run("train", "--resume", self.out, ranks=RANKS, limit=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(attributes(newest(self.out))["samples"], attributes(newest(self.undisturbed(workload)))["samples"])
        self.has_baseline_of(self.undisturbed(workload))

    def ended(self, run, workload, spares):
        """Checks a run of which ranks were killed, and counts how it ended."""
        text = self.ends_with(run, 0, 1)
        how = f"{workload.program.name}, {spares} spares"
        if self.crashed_in_mpi():
            self.can_be_resumed(workload)
            self.ends[f"{how}: crash in MPI, resumed"] += 1
        elif run.returncode == 0 and (spares or "take their place" in text):
            self.trained_as(self.undisturbed(workload))
            self.ends[f"{how}: as if undisturbed"] += 1
        elif run.returncode == 0:
            last, whole = (attributes(newest(out)) for out in (self.out, self.undisturbed(workload)))
            self.assertEqual((last["epoch"], last["samples"]), (EPOCHS, whole["samples"]), text)
            self.has_baseline_of(self.undisturbed(workload))
            self.ends[f"{how}: to its end"] += 1
        else:  # before the first step, or of a network that needs all ranks
            self.assertRegex(text, "error: ")
            began = self.steps_done() > 0
            self.assertFalse(began and spares, text)
            self.assertFalse(began and workload.goes_on, text)
            if began:
                self.assertRegex(text, "to continue: .* train --resume|has no checkpoint to continue from")
                self.can_be_resumed(workload)
            self.ends[f"{how}: ended with 1 " + ("and resumed" if began else "before the first step")] += 1

    @long_test
    def test_one_rank(self):
        for seed in range(FAULTS):
            with self.subTest(seed):
                chance = random.Random(seed)
                workload, spares = self.turn(seed)
                run = self.start_with(spares, workload=workload, KEELSON_START_LIMIT="60")
                self.reach(run, chance, 0.3)
                self.kill(run, chance.randrange(RANKS + spares))
                self.ended(run, workload, spares)

    @long_test
    def test_two_ranks(self):
        """The second rank is killed soon after the first: in training, or while the run begins anew."""
        for seed in range(FAULTS // 5):
            with self.subTest(seed):
                chance = random.Random(seed)
                workload, _ = self.turn(seed)
                first, second = chance.sample(range(RANKS + 2), 2)
                run = self.start_with(2, workload=workload, KEELSON_START_LIMIT="60")
                self.reach(run, chance, 0.3)
                self.kill(run, first)
                time.sleep(chance.uniform(0, 1.5))
                self.kill(run, second)
                self.ended(run, workload, 2)

    @long_test
    def test_a_stopped_rank(self):
        for seed in range(FAULTS // 5):
            with self.subTest(seed):
                chance = random.Random(seed)
                workload, spares = self.turn(seed)
                run = self.start_with(spares, workload=workload, KEELSON_START_LIMIT="30", KEELSON_WATCHDOG="3",
                                      KEELSON_WATCHDOG_ABORT="9")
                self.reach(run, chance, 0.3)
                self.kill(run, chance.randrange(RANKS + spares), number=signal.SIGSTOP)
                text = self.ends_with(run, 0, 1, limit=240)
                if run.returncode == 1:
                    self.assertRegex(text, r"KEELSON_WATCHDOG_ABORT|KEELSON_START_LIMIT")
                self.ends[f"{workload.program.name}, {spares} spares: ended with {run.returncode}"] += 1


if __name__ == "__main__":
    unittest.main(verbosity=2)
