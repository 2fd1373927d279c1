"""Whole jobs and how they end: exit codes, messages, signals, threads. Runs the small program inside test_mpi."""

import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = [os.path.join(os.environ["KEELSON_BIN"], "test_mpi"), "--app"]
MPIEXEC = shlex.split(os.environ["KEELSON_MPIEXEC"])


def environment(**changes):
    """The tests' environment without wishes about threads, and with these changes."""
    result = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "KEELSON_"))}
    result.update(changes)
    return result


def command(ranks, *arguments, mpiexec=None):
    launcher = [] if ranks == 0 else (mpiexec or MPIEXEC) + ["-n", str(ranks)]
    return launcher + PROGRAM + list(arguments)


def run(ranks, *arguments, mpiexec=None, limit=60, **changes):
    """ranks 0: without mpirun."""
    start = time.monotonic()
    done = subprocess.run(command(ranks, *arguments, mpiexec=mpiexec), env=environment(**changes), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit)
    done.seconds = time.monotonic() - start
    return done


def own_lines(text):
    """What the program itself says, without mpirun's comments."""
    return [line for line in text.splitlines() if line.startswith(("small-app: ", "watchdog: "))]


class Ends(unittest.TestCase):
    def test_all_ranks_alike(self):
        for ranks in (0, 1, 3):
            with self.subTest(ranks=ranks):
                done = run(ranks, "fail")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(own_lines(done.stderr), ["small-app: error: bad input"])

    def test_all_ranks_differently(self):
        done = run(2, "fail", "--differently")
        self.assertEqual(done.returncode, 2, done.stderr)
        lines = own_lines(done.stderr)
        self.assertEqual(len(lines), 2, done.stderr)
        for rank, line in enumerate(lines):
            self.assertRegex(line, rf"^small-app: error: rank {rank} \(\S+\): bad input of rank {rank}$")

    def test_one_rank_while_others_wait(self):
        for rank, kind, code, text in ((1, "input", 2, "bad input"), (0, "error", 1, "broken disk"),
                                       (2, "active", 2, "bad input"), (1, "memory", 1, "out of memory"),
                                       (2, "logic", 1, "a bug")):
            with self.subTest(kind=kind):
                done = run(3, "fail", "--rank", str(rank), "--kind", kind, KEELSON_GRACE="0.5")
                self.assertEqual(done.returncode, code, done.stderr)
                lines = own_lines(done.stderr)
                self.assertEqual(len(lines), 1, done.stderr)
                self.assertRegex(lines[0], rf"^small-app: error: rank {rank} \(\S+\): {text}")
                self.assertLess(done.seconds, 30)

    def test_usage(self):
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                done = run(ranks, "show", "--bacth", "3")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(own_lines(done.stderr),
                                 ["small-app: error: unknown option '--bacth'; did you mean --batch?; "
                                  "`small-app show --help` lists all options"])
                self.assertEqual(done.stdout, "")

    def test_help(self):
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                done = run(ranks, "show", "--help")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.count("--batch SAMPLES"), 1)


class Watchdog(unittest.TestCase):
    def test_names_the_late_rank_and_goes_on(self):
        done = run(2, "late", "--ranks", "1", "--seconds", "5", KEELSON_WATCHDOG="2")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = own_lines(done.stderr)
        self.assertTrue(lines, done.stderr)
        self.assertRegex(lines[0], r"^watchdog: rank 0 \(\S+\) has waited \d s for gradient bucket 7; "
                                   r"not waiting for it: rank 1 \(\S+\)$")

    def test_without_grace_waiting_is_no_crime(self):
        done = run(2, "late", "--ranks", "1", "--seconds", "3", KEELSON_GRACE="0")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_speaks_where_all_collectors_are_late(self):
        done = run(5, "late", "--ranks", "0", "1", "2", "3", "--seconds", "6", KEELSON_WATCHDOG="3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(own_lines(done.stderr)[0], r"^watchdog: rank 4 .*; not waiting for it: ranks 0 .* 3 \(\S+\); "
                                                    r"ranks above 3 are not known$")

    def test_ends_the_job_when_told_to(self):
        done = run(2, "late", "--ranks", "0", "--seconds", "60", KEELSON_WATCHDOG="0", KEELSON_WATCHDOG_ABORT="1.5",
                   limit=40)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(own_lines(done.stderr)[-1], r"rank 1 .* gradient bucket 7; .*rank 0.*ending the job")


class Signals(unittest.TestCase):
    def end(self, ranks, number, times=1):
        with tempfile.TemporaryDirectory() as folder:
            ready = pathlib.Path(folder) / "ready"
            process = subprocess.Popen(command(ranks, "loop", "--ready", str(ready)), env=environment(), text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(600):
                if ready.exists() or process.poll() is not None:
                    break
                time.sleep(0.05)
            for _ in range(times):
                process.send_signal(number)
            out, err = process.communicate(timeout=60)
            return process.returncode, out, err

    def test_alone(self):
        for name in ("SIGTERM", "SIGINT", "SIGUSR1"):
            with self.subTest(signal=name):
                code, out, err = self.end(0, getattr(signal, name))
                self.assertEqual((code, out.strip()), (75, name), err)

    def test_passed_on_by_mpirun(self):
        code, out, err = self.end(2, signal.SIGUSR1)
        self.assertEqual((code, out.strip()), (75, "SIGUSR1"), err)


class Threads(unittest.TestCase):
    def show(self, ranks, mpiexec=None, **changes):
        done = run(ranks, "show", mpiexec=mpiexec, **changes)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def setUp(self):
        self.cpus = len(os.sched_getaffinity(0))

    def test_alone_takes_at_most_all(self):
        shown = self.show(0)
        self.assertLessEqual(shown["ranks"][0]["threads"], self.cpus)
        self.assertIn("1 rank on 1 node, ", shown["machine"])

    def test_ranks_divide_the_cores(self):
        ranks = self.show(2)["ranks"]
        self.assertLessEqual(sum(rank["threads"] for rank in ranks), max(2, self.cpus))
        self.assertFalse(set(ranks[0]["cpus"]) & set(ranks[1]["cpus"]))

    def test_more_ranks_than_cores(self):
        if self.cpus > 4:
            self.skipTest("too many cores")
        shown = self.show(self.cpus + 1)
        self.assertEqual([rank["threads"] for rank in shown["ranks"]], [1] * (self.cpus + 1))
        self.assertIn("start fewer ranks", shown["machine"])

    def test_bound_to_one_core(self):
        if self.cpus < 2 or not shutil.which("taskset"):
            self.skipTest("needs two cores and taskset")
        cpu = min(os.sched_getaffinity(0))
        done = subprocess.run([*MPIEXEC, "-n", "2", "taskset", "-c", str(cpu), *PROGRAM, "show"], env=environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        machine = json.loads(done.stdout)["machine"]
        self.assertRegex(machine, rf"\(1 of \d+ cores?\); ranks 0, 1 of this node were bound to the same core \(CPU {cpu}\)")

    def test_explicit(self):
        self.assertEqual([rank["threads"] for rank in self.show(2, KEELSON_THREADS="3")["ranks"]], [3, 3])
        done = run(0, "show", KEELSON_THREADS="many")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("KEELSON_THREADS", own_lines(done.stderr)[0])

    def test_mpiruns_default_for_one_rank(self):
        plain = [word for word in MPIEXEC if word not in ("--bind-to", "none")]
        with_mpirun, alone = self.show(1, mpiexec=plain), self.show(0)
        self.assertEqual(with_mpirun["ranks"][0]["threads"], alone["ranks"][0]["threads"])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
