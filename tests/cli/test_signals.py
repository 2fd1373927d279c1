"""Signals at any time of a run's life, and ranks that end before the others."""

import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

from lm_support import LM, SMALL, LmCase
from programs import MPIEXEC, Program, newest

JOB = Program("test_mpi")


def children(pid):
    files = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for file in files for word in file.read_text().split()]


def catches(pid, number):
    """Whether the process has a handler for the signal: on a busy machine the loader needs its time to get there."""
    caught = re.search(r"^SigCgt:\s*(\w+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(caught[1], 16) >> (number - 1) & 1)


class Setup(LmCase):
    """Before training begins nothing can be lost, so a signal ends the program at once: 75 queues the job again."""

    def test_at_any_time(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)  # nobody ever writes to it
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            for after in (0, 0.2, 1.4):
                with self.subTest(number, after=after):
                    run = LM.start("train", "--config", fifo)
                    while run.poll() is None and not catches(run.pid, number):
                        time.sleep(0.005)
                    time.sleep(after)
                    run.send_signal(number)
                    _, err = run.communicate(timeout=60)
                    self.assertEqual(run.returncode, 75, err)
                    self.assertIn("ended by a signal; exit code 75", err)

    def test_what_the_user_ignores(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        run = subprocess.Popen(["sh", "-c", 'trap "" INT; exec "$@"', "sh", *LM.command(0, "train", "--config", fifo)],
                               stderr=subprocess.DEVNULL)
        time.sleep(1)
        run.send_signal(signal.SIGINT)
        with self.assertRaises(subprocess.TimeoutExpired):
            run.wait(1)
        run.kill()
        run.wait()


class Ranks(LmCase):
    def start(self):
        """A run on two ranks after its first epoch."""
        run = LM.start("train", "--data", self.text, "--out", self.out, *SMALL, "--layers", 1, "--epochs", 100000,
                       "--checkpoint-every", 0, ranks=2)
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        while run.poll() is None and not list(self.out.glob("checkpoints/step-*.h5")):
            time.sleep(0.01)
        return run

    def resumes(self):
        self.succeed("train", "--resume", self.out, "--max-steps", int(newest(self.out).stem[5:]) + 1, ranks=2)

    def test_signal_to_all_ranks(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                run = self.start()
                for rank in children(run.pid):
                    os.kill(rank, number)
                out, err = run.communicate(timeout=100)
                self.assertEqual(run.returncode, 75, err)
                self.assertIn("signalled to end: writes a checkpoint after this step", err)
                self.assertIn("interrupted after epoch", out)
                self.resumes()
                shutil.rmtree(self.out)

    def test_control_c_of_mpirun(self):
        """Open MPI's kills the ranks. They say so when they start, and what to do instead."""
        run = self.start()
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=100)
        said = re.search(r"Ctrl-C on mpirun kills the ranks; to end with a checkpoint: kill -USR1 (\d+)\n", out)
        self.assertTrue(said, out)
        self.assertEqual(int(said[1]), run.pid)
        self.resumes()
        shutil.rmtree(self.out)
        run = self.start()
        run.send_signal(signal.SIGUSR1)
        out, err = run.communicate(timeout=100)
        self.assertEqual(run.returncode, 75, err)
        self.assertIn("interrupted after epoch", out)

    def test_a_rank_that_is_stopped(self):
        """The watchdog names the rank, what the others wait for and in which step, and ends the run."""
        command = LM.command(2, "train", "--train", self.text / "ptb.train.txt", "--out", self.out, *SMALL, "--layers", 1,
                             "--epochs", 100000, "--checkpoint-every", 0, "--log-every", 1)
        run = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**os.environ, "KEELSON_WATCHDOG": "5"})
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        metrics = self.out / "metrics.jsonl"
        while run.poll() is None and not (metrics.exists() and '"step"' in metrics.read_text()):
            time.sleep(0.01)
        stopped = children(run.pid)[1]
        os.kill(stopped, signal.SIGSTOP)
        _, err = run.communicate(timeout=100)
        self.assertEqual(run.returncode, 1, err)
        lines = [line for line in err.splitlines() if line.startswith("watchdog: ")]
        for line in lines:
            self.assertRegex(line, r"^watchdog: rank 0 \(\S+\) has waited \d+ s for .+ in step \d+ \(epoch \d+\); "
                                   r"not waiting for it: rank 1 \(\S+\)")
        self.assertTrue(lines[-1].endswith("; ending the job (KEELSON_WATCHDOG_ABORT)"), err)
        self.assertIn("has waited 15 s", lines[-1])

    def test_a_rank_that_fails_tells_those_that_wait(self):
        """Launchers may leave them to wait, as this one does, which looks at the shells only."""
        shell = ["sh", "-c", '"$@"; echo "rank $PMIX_RANK ended with $?"; sleep 100', "sh"]
        run = subprocess.Popen([*MPIEXEC, "-n", "3", *shell, JOB.path, "--app", "fail", "--rank", "1"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**os.environ, "KEELSON_GRACE": "0.5"})
        ended = sorted(run.stdout.readline() for _ in range(3))
        run.terminate()
        _, err = run.communicate(timeout=50)
        self.assertEqual(ended, [f"rank {r} ended with 2\n" for r in range(3)], err)

    def loop(self, *options):
        """Two ranks that run until a signal comes, and what starts them. Their shells tell how they end."""
        ready = self.folder / "ready"
        shell = ["sh", "-c", '"$@"; echo "ended with $?"; sleep 100', "sh"]
        run = subprocess.Popen([*MPIEXEC, "-n", "2", *shell, JOB.path, "--app", "loop", "--ready", str(ready), *options],
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**os.environ, "KEELSON_GRACE": "0.5"})
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        while run.poll() is None and not ready.exists():
            time.sleep(0.01)
        return run, [pid for parent in children(run.pid) for pid in children(parent)]

    def rank_0_gives_up(self, run, ended, waits_for):
        # A reduction that was begun may still come about, and what rank 0 then prints.
        lines = (line for line in run.stdout if line != "SIGTERM\n")
        found = sorted(itertools.islice(lines, len(ended)))
        run.terminate()
        _, err = run.communicate(timeout=50)
        self.assertEqual(found, ended, err)
        self.assertRegex(err, rf"error: rank \d \(\S+\) has waited \d+ s for {waits_for} since it was signalled to end")

    def test_a_rank_that_was_killed(self):
        """srun then sends SIGTERM to the others, which would wait for their next step together until it kills them."""
        run, ranks = self.loop()
        os.kill(ranks[1], signal.SIGKILL)
        os.kill(ranks[0], signal.SIGTERM)
        self.rank_0_gives_up(run, ["ended with 1\n", "ended with 137\n"], "(a reduction|the end of the program)")

    def test_a_rank_that_never_comes_to_the_end(self):
        run, ranks = self.loop("--stay", "60")
        for rank in ranks:
            os.kill(rank, signal.SIGTERM)
        self.rank_0_gives_up(run, ["ended with 1\n"], "the end of the program")


if __name__ == "__main__":
    unittest.main(verbosity=2)
