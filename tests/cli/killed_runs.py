"""Runs whose ranks are killed or stopped while they train, for tests.

KEELSON_FAULTS says at how many random moments ranks are killed (default 8)."""

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from lm_support import LM
from programs import MPIEXEC, Program, arrays, attributes, needs_h5py, newest, numpy, records

COSMOFLOW, CLIMATE = Program("keelson-cosmoflow"), Program("keelson-climate")
FAULTS = int(os.environ.get("KEELSON_FAULTS", "8"))
SAMPLES, EPOCHS, RANKS = 26, 2, 4
ULFM = [*MPIEXEC, "--with-ft", "ulfm"]


@dataclasses.dataclass
class Workload:
    """A small data set of a program, and how the program trains on it, but for --data and --out."""
    program: Program
    data: list
    words: list
    goes_on: bool = True  # without a rank that dies, where no spare rank takes its place

    def make_data(self, out):
        done = self.program.run(*self.data, "--out", out)
        assert done.returncode == 0, done.stderr

    def arguments(self, data, out, *others):
        return ["train", "--data", data, "--out", out, "--log-every", 1, "--keep", 100, *self.words, *others,
                *([] if "--epochs" in others else ["--epochs", EPOCHS]),
                *([] if "--checkpoint-steps" in others else ["--checkpoint-steps", 3])]


WORKLOADS = {
    "cosmoflow": Workload(
        COSMOFLOW, ["generate", "--size", 32, "--particles", 1, "--order", 1, "--train", SAMPLES, "--validation", 6, "--test", 0],
        ["--batch", 1, "--dropout", 0, "--lr", 0.001]),
    "lm": Workload(
        LM, ["corpus", "--words", 3000, "--validation-words", 400, "--test-words", 10, "--vocab-size", 40, "--branching", 4,
             "--topics", 2],
        ["--hidden", 12, "--unroll", 6, "--batch", 2], goes_on=False),
    "climate": Workload(
        CLIMATE, ["generate", "--height", 64, "--width", 96, "--train", SAMPLES, "--validation", 2, "--test", 0],
        ["--blocks", "1,1", "--growth", 4, "--first", 4, "--kernel", 3, "--optimizer", "adam", "--lr", 0.01])}
WORKLOADS["parts"] = dataclasses.replace(WORKLOADS["cosmoflow"], words=[*WORKLOADS["cosmoflow"].words, "--spatial", 2])


def has_ulfm():
    """Whether this MPI's mpirun starts programs that survive (Open MPI 5 and later)."""
    done = subprocess.run([*ULFM, "-n", "1", "env"], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.returncode == 0 and "OMPI_MCA_mpi_ft_enable=1" in done.stdout


def children(pid):
    files = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for file in files for word in file.read_text().split()]


def rank_of(pid):
    words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return int(dict(w.split(b"=", 1) for w in words if b"=" in w)[b"OMPI_COMM_WORLD_RANK"])


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] not in "ZX"
    except OSError:
        return False


@needs_h5py
@unittest.skipUnless(has_ulfm(), "needs Open MPI with ULFM")
class KilledRuns(unittest.TestCase):
    workload = WORKLOADS["cosmoflow"]  # of the tests that do not choose one

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="keelson-faults-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared)

    @classmethod
    def data_of(cls, workload):
        """Its data set, which is made when it is first asked for."""
        out = cls.shared / f"data-{workload.program.name}"
        if not out.exists():
            workload.make_data(out)
        return out

    @classmethod
    def undisturbed(cls, workload=None):
        """The folder of its run on RANKS ranks of which none is killed."""
        workload = workload or cls.workload
        name = next(name for name, w in WORKLOADS.items() if w is workload)
        out = cls.shared / f"undisturbed-{name}"
        if not out.exists():
            done = workload.program.run(*workload.arguments(cls.data_of(workload), out), ranks=RANKS, launcher=ULFM, limit=600)
            assert done.returncode == 0, done.stderr
        return out

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="keelson-cli-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = self.folder / "out"

    def start(self, *others, launcher=ULFM, ranks=RANKS, workload=None, **environment):
        """Starts a run in a new folder."""
        shutil.rmtree(self.out, ignore_errors=True)
        workload = workload or self.workload
        words = workload.arguments(self.data_of(workload), self.out, *others)
        self.output = open(self.folder / "output", "w+")
        self.addCleanup(self.output.close)
        run = subprocess.Popen(workload.program.command(ranks, *words, launcher=launcher), stdout=self.output,
                               stderr=subprocess.STDOUT, env={**os.environ, **environment})
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def said(self):
        self.output.flush()
        return (self.folder / "output").read_text()

    def wait_until(self, run, there):
        """Until there() or the run's end, whatever comes first."""
        while run.poll() is None and not there():
            time.sleep(0.005)

    def steps_done(self):
        return self.lines_of("step")

    def lines_of(self, kind):
        path = self.out / "metrics.jsonl"
        return path.read_text().count(f'"type":"{kind}"') if path.exists() else 0

    def tells_of_loss(self):
        return "ranks lost" in (self.out / "metrics.jsonl").read_text()

    def processes(self, run):
        """Of the ranks on this machine, by rank."""
        found = {}
        for pid in children(run.pid):
            try:
                found[rank_of(pid)] = pid
            except (OSError, KeyError):  # it has ended, or is not yet the program
                pass
        return found

    def kill(self, run, *ranks, number=signal.SIGKILL):
        """Nothing where the run has ended already."""
        pids = self.processes(run)
        for rank in ranks:
            try:
                os.kill(pids[rank], number)
            except (KeyError, ProcessLookupError):
                pass

    def ends_with(self, run, *codes, limit=300):
        """The run and all its processes, in time. Returns what it said."""
        pids = self.processes(run).values()
        try:
            code = run.wait(limit)
        except subprocess.TimeoutExpired:
            self.fail(f"the run hangs:\n{self.said()}")
        self.assertIn(code, codes, self.said())
        for _ in range(200):  # mpirun does not wait until those that it has killed are gone
            if not any(map(is_alive, pids)):
                break
            time.sleep(0.1)
        else:
            self.fail(f"processes of the run are left:\n{self.said()}")
        return self.said()

    def has_baseline_of(self, undisturbed):
        """Whatever was lost, all samples of the first epoch count."""
        found, expected = attributes(newest(self.out)), attributes(newest(undisturbed))
        self.assertEqual("target_sum" in found, "target_sum" in expected)
        if "target_sum" in expected:
            self.assertEqual(found["target_samples"], expected["target_samples"], self.said())
            numpy.testing.assert_allclose(found["target_sum"], expected["target_sum"], 1e-9, 1e-9)


class SparedRuns(KilledRuns):
    """Spare ranks take the places of those that are killed: to the bit, as many ranks do the same sums."""

    def start_with(self, spares, *others, ranks=RANKS, **options):
        return self.start("--spares", spares, *others, ranks=ranks + spares, **options)

    def replaced(self, *lost, trained="4 ranks"):
        """The run tells who was lost, and from which step it goes on."""
        events = [r["text"] for r in records(self.out, "event") if r["event"] == "ranks lost"]
        named = [int(rank) for e in events for rank in re.findall(r"(\d+) \(", e.split(" lost in ")[0])]
        self.assertEqual(named, list(lost), self.said())
        for event in events:
            self.assertRegex(event, rf"after step \d+; spare ranks take their place, and {trained} go on from step \d+\. ")
        self.assertIn(events[-1], (self.out / "report.html").read_text())

    def ends_as_if_undisturbed(self, run, workload=None):
        text = self.ends_with(run, 0)
        undisturbed = self.undisturbed(workload)
        self.trained_as(undisturbed)
        return text

    def trained_as(self, undisturbed):
        text = self.said()
        for name in ("epoch", "samples", "step"):
            self.assertEqual(attributes(newest(self.out))[name], attributes(newest(undisturbed))[name], text)
        whole, found = arrays(newest(undisturbed)), arrays(newest(self.out))
        self.assertEqual(whole.keys(), found.keys())
        for name, values in whole.items():
            self.assertTrue(numpy.array_equal(values, found[name]), f"{name}\n{text}")
        self.assertEqual(*[[(r["step"], r["loss"]) for r in records(out, "step")] for out in (undisturbed, self.out)])
        self.has_baseline_of(undisturbed)
        self.assertFalse((self.out / "run.lock").exists())
