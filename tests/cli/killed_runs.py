"""Runs whose ranks are killed while they train, for tests.

KEELSON_FAULTS says at how many random moments ranks are killed (default 4)."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from programs import MPIEXEC, Program, needs_h5py

COSMOFLOW = Program("keelson-cosmoflow")
FAULTS = int(os.environ.get("KEELSON_FAULTS", "4"))
SAMPLES, EPOCHS, RANKS = 26, 4, 4
ULFM = [*MPIEXEC, "--with-ft", "ulfm"]


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


@needs_h5py
@unittest.skipUnless(has_ulfm(), "needs Open MPI with ULFM")
class KilledRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="keelson-faults-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        cls.data = cls.shared / "data"
        done = COSMOFLOW.run("generate", "--out", cls.data, "--size", 32, "--particles", 1, "--order", 1, "--train",
                             SAMPLES, "--validation", 6, "--test", 0)
        assert done.returncode == 0, done.stderr

    @classmethod
    def arguments(cls, out, *others):
        return ["train", "--data", cls.data, "--out", out, "--batch", 1, "--dropout", 0, "--lr",
                0.001, "--log-every", 1, "--keep", 100, *others,
                *([] if "--epochs" in others else ["--epochs", EPOCHS]),
                *([] if "--checkpoint-steps" in others else ["--checkpoint-steps", 3])]

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="keelson-cli-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = self.folder / "out"

    def start(self, *others, launcher=ULFM, ranks=RANKS, program=COSMOFLOW, words=None, **environment):
        """Starts a run in a new folder."""
        shutil.rmtree(self.out, ignore_errors=True)
        words = [str(a) for a in words or self.arguments(self.out, *others)]
        self.output = open(self.folder / "output", "w+")
        self.addCleanup(self.output.close)
        run = subprocess.Popen([*launcher, "-n", str(ranks), program.path, *words], stdout=self.output,
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
        path = self.out / "metrics.jsonl"
        return path.read_text().count('"type":"step"') if path.exists() else 0

    def kill(self, run, *ranks, number=signal.SIGKILL):
        """Nothing where the run has ended already."""
        try:
            pids = {rank_of(pid): pid for pid in children(run.pid)}
            for rank in ranks:
                os.kill(pids[rank], number)
        except (ProcessLookupError, FileNotFoundError, KeyError):
            pass
