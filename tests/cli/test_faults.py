"""Ranks that are killed or stopped while they train: the others go on without them, where MPI can do without a process
(ULFM), or end with a code that says so."""

import itertools
import re
import signal
import time
import unittest

from killed_runs import EPOCHS, RANKS, SAMPLES, WORKLOADS, KilledRuns
from programs import MPIEXEC, arrays, attributes, long_test, newest, numpy, records

COSMOFLOW = WORKLOADS["cosmoflow"].program


class Faults(KilledRuns):
    def ends_well(self, run, count=EPOCHS):
        """A run of so many epochs of which ranks were killed: exit code, samples of each epoch, validation."""
        text = self.ends_with(run, 0)
        self.assertIn("all epochs done after epoch", text)
        for path in (self.out / "checkpoints").glob("step-*.h5"):
            a = attributes(path)
            if a["step_in_epoch"] == 0:
                self.assertEqual(a["samples"], a["epoch"] * SAMPLES, text)
        last = attributes(newest(self.out))
        self.assertEqual((last["epoch"], last["samples"]), (count, count * SAMPLES), text)
        epochs = records(self.out, "epoch")
        self.assertEqual([e["epoch"] for e in epochs], list(range(1, count + 1)), text)
        if count == EPOCHS:
            undisturbed = records(self.undisturbed(), "epoch")
            off = abs(epochs[-1]["validation_loss"] / undisturbed[-1]["validation_loss"] - 1)
            self.assertLess(off, 0.2, text)  # another seed makes a tenth
        self.has_baseline_of(self.undisturbed())
        self.assertFalse((self.out / "run.lock").exists())
        return text

    def reports(self, text, *lost):
        """What the run says about the lost ranks, on the console and in its records."""
        events = [r["text"] for r in records(self.out, "event") if r["event"] == "ranks lost"]
        named = [int(rank) for e in events for rank in re.findall(r"(\d+) \(", e.split(" lost in ")[0])]
        self.assertEqual(sorted(named), sorted(lost), text)
        for event in events:
            self.assertIn(event, text)
            self.assertRegex(event, r"after step \d+; \d ranks? goe?s? ?on. Seconds: [\d.]+ interrupted")
        self.assertIn("ranks lost", (self.out / "report.html").read_text().lower())
        self.assertIn(f"{len(lost)} of {RANKS} ranks were lost; the parameters of all ranks that are left are equal", text)

    def test_the_first_rank(self):
        """Console, records and checkpoints move to the next one. In the first epoch, of which the rank has targets that
        it has not yet added to those of the others."""
        run = self.start()
        self.wait_until(run, lambda: self.steps_done() >= 5)
        self.kill(run, 0)
        self.reports(self.ends_well(run), 0)

    @long_test
    def test_two_ranks_at_once(self):
        run = self.start()
        self.wait_until(run, lambda: self.steps_done() >= 9)
        self.kill(run, 0, 2)
        self.reports(self.ends_well(run), 0, 2)

    @long_test
    def test_one_after_the_other(self):
        run = self.start("--max-failures", 3, "--epochs", 4)
        for victim in (3, 0, 1):
            before = self.steps_done()
            self.wait_until(run, lambda: self.steps_done() >= before + 4)
            self.kill(run, victim)
        self.reports(self.ends_well(run, 4), 0, 1, 3)

    @long_test
    def test_while_a_checkpoint_is_written(self):
        """A valid one always remains, and the next first rank writes it again."""
        for victim in (0, 2):
            with self.subTest(victim):
                run = self.start("--checkpoint-steps", 1)
                checkpoints = self.out / "checkpoints"
                written = lambda: {p.name for p in checkpoints.glob("*")}
                self.wait_until(run, lambda: self.steps_done() >= 5 and
                                any(not re.fullmatch(r"(step-\d+|best)\.h5", name) for name in written()))
                self.kill(run, victim)
                self.reports(self.ends_well(run), victim)
                lost = next(r["step"] for r in records(self.out, "event") if r["event"] == "ranks lost")
                for name in ("best.h5", f"step-{lost:010}.h5"):
                    done = COSMOFLOW.run("evaluate", "--checkpoint", checkpoints / name, "--data",
                                         self.data_of(self.workload) / "validation")
                    self.assertEqual(done.returncode, 0, done.stderr)

    @long_test
    def test_around_a_change_of_the_network(self):
        """While units are chosen, while the plans of the wider network are made, and in its first steps."""
        blueprint = self.folder / "blueprint.toml"
        blueprint.write_text('epochs = [1]\nlayers = "all"\nfactor = 2\n[widths]\n"*" = ["0.5x", "1x"]\n')
        for victim, later in itertools.product((0, 2), (0, 0.02, 0.05, 0.1, 0.2, 0.4)):
            with self.subTest(victim=victim, later=later):
                run = self.start("--grow", blueprint)
                self.wait_until(run, lambda: self.lines_of("epoch") > 0)
                time.sleep(later)
                self.kill(run, victim)
                text = self.ends_with(run, 0)
                self.assertIn("all epochs done after epoch", text)
                changes = [r["text"] for r in records(self.out, "event") if r["event"] == "network change"]
                self.assertEqual(len(set(changes)), 1, text)
                last = attributes(newest(self.out))
                self.assertEqual((last["epoch"], last["samples"]), (EPOCHS, EPOCHS * SAMPLES), text)
                self.assertIn("the parameters of all ranks that are left are equal", text)

    @long_test
    def test_too_many(self):
        run = self.start("--max-failures", 1)
        self.wait_until(run, lambda: self.steps_done() >= 9)
        self.kill(run, 1, 3)
        self.assertEqual(run.wait(120), 1, self.said())
        self.assertRegex(self.said(), r"error: ranks? .*lost in .* which makes 2 of 4 \(the most that a run goes on "
                                      r"without: 1\). The last checkpoint is \S+; "
                                      rf"to continue: keelson-cosmoflow train --resume {self.out}")
        self.continues()

    def continues(self, *others, ranks=RANKS):
        """The run goes on from its newest checkpoint to its end, with as many samples as any other."""
        done = COSMOFLOW.run("train", "--resume", self.out, *others, ranks=ranks, limit=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        last = attributes(newest(self.out))
        self.assertEqual((last["epoch"], last["samples"]), (EPOCHS, EPOCHS * SAMPLES))
        return done

    @long_test
    def test_resumes_within_the_epoch_of_the_loss(self):
        """On as many ranks as were left, with the same bits as the run itself."""
        run = self.start("--checkpoint-steps", 1)
        self.wait_until(run, lambda: self.steps_done() >= 9)
        self.kill(run, 1)
        self.reports(self.ends_well(run), 1)
        parts = [p for p in sorted((self.out / "checkpoints").glob("step-*.h5")) if "part_step" in attributes(p)]
        if not parts:
            self.skipTest("the loss came between two epochs")
        whole = arrays(newest(self.out))
        again = self.folder / "again"
        done = COSMOFLOW.run("train", "--resume", parts[0], "--out", again, ranks=RANKS - 1, limit=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        resumed = arrays(newest(again))
        self.assertEqual(whole.keys(), resumed.keys())
        for name, values in whole.items():
            self.assertTrue(numpy.array_equal(values, resumed[name]), name)

    def test_a_stopped_rank(self):
        """It does not die: the watchdog names it, and ends the run, with the stopped process."""
        run = self.start(KEELSON_WATCHDOG="2", KEELSON_WATCHDOG_ABORT="6")
        self.wait_until(run, lambda: self.steps_done() >= 5)
        self.kill(run, 2, number=signal.SIGSTOP)
        text = self.ends_with(run, 1, limit=120)
        self.assertRegex(text, r"watchdog: rank \d \(\S+\) has waited \d+ s for .*not waiting for it: rank 2 ")
        self.assertIn("ending the job (KEELSON_WATCHDOG_ABORT)", text)

    @long_test
    def test_a_stopped_rank_without_ulfm(self):
        run = self.start(launcher=MPIEXEC, KEELSON_WATCHDOG="2", KEELSON_WATCHDOG_ABORT="6")
        self.wait_until(run, lambda: self.steps_done() >= 5)
        self.kill(run, 2, number=signal.SIGSTOP)
        self.assertRegex(self.ends_with(run, 1, limit=120), "watchdog: rank .*not waiting for it: rank 2 ")

    def never_starts(self, number):
        """One rank gets a signal as soon as it is there: the others wait for it in MPI_Init."""
        run = self.start(workload=WORKLOADS["lm"], KEELSON_START_LIMIT="5")
        self.wait_until(run, lambda: len(self.processes(run)) == RANKS)
        self.kill(run, 2, number=number)
        text = self.ends_with(run, 1, limit=120)
        self.assertRegex(text, r"error: rank \d on \S+: the start of MPI has not ended within 5 s.*KEELSON_START_LIMIT=")

    def test_killed_while_mpi_starts(self):
        self.never_starts(signal.SIGKILL)

    @long_test
    def test_stopped_while_mpi_starts(self):
        self.never_starts(signal.SIGSTOP)

    def test_a_language_model(self):
        """Its streams of text are dealt to a fixed number of ranks. The exit code is ours, whoever notices first."""
        run = self.start("--epochs", 20, workload=WORKLOADS["lm"])
        self.wait_until(run, lambda: self.steps_done() >= 9)
        self.kill(run, 2)
        self.assertIn(f"to continue: keelson-lm train --resume {self.out}", self.ends_with(run, 1))

    @long_test
    def test_without_ulfm(self):
        """The launcher ends the job; the user learns how to continue."""
        run = self.start(launcher=MPIEXEC)
        self.wait_until(run, lambda: self.steps_done() >= 9)
        self.kill(run, 1)
        self.assertNotEqual(run.wait(120), 0, self.said())
        self.assertIn(f"to continue: keelson-cosmoflow train --resume {self.out}", self.said())
        self.continues()


if __name__ == "__main__":
    unittest.main(verbosity=2)
