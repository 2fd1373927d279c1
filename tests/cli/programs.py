"""Starts our programs as users do, and reads what they leave behind."""

import inspect
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import unittest
import zlib

try:
    import h5py
    import numpy
except ImportError:
    h5py = numpy = None

MPIEXEC = shlex.split(os.environ["KEELSON_MPIEXEC"])
needs_h5py = unittest.skipUnless(h5py, "needs h5py")


def long_test(test):
    """A test of more than some ten seconds. KEELSON_LONG_TESTS says which of them run: "all", or "K/N", every Nth of them
    by a hash of the name, the Kth such share; none without it. Names of tests that do not run are appended to the file
    KEELSON_LEFT_OUT, where it is set."""
    name = f"{pathlib.Path(inspect.getfile(test)).stem}.{test.__qualname__}"
    asked = os.environ.get("KEELSON_LONG_TESTS", "")
    share, _, shares = asked.partition("/")
    if asked == "all" or shares and zlib.crc32(name.encode()) % int(shares) == int(share):
        return test
    if "KEELSON_LEFT_OUT" in os.environ:
        with open(os.environ["KEELSON_LEFT_OUT"], "a") as left_out:
            left_out.write(f"{name}\n")
    return unittest.skip("a long test: KEELSON_LONG_TESTS=all runs it")(test)


class Program:
    def __init__(self, name):
        self.name = name
        self.path = os.path.join(os.environ["KEELSON_BIN"], name)

    def command(self, ranks, *arguments, launcher=MPIEXEC):
        """ranks 0: without mpirun."""
        start = launcher + ["-n", str(ranks)] if ranks else []
        return start + [self.path] + [str(a) for a in arguments]

    def run(self, *arguments, ranks=0, limit=120, launcher=MPIEXEC, **options):
        return subprocess.run(self.command(ranks, *arguments, launcher=launcher), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=limit, **options)

    def start(self, *arguments, ranks=0):
        return subprocess.Popen(self.command(ranks, *arguments), text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def errors(self, done):
        return [line for line in done.stderr.splitlines() if line.startswith(f"{self.name}: error: ")]


class Case(unittest.TestCase):
    """Every test has a folder of its own. Subclasses name the `program`."""

    program = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="keelson-cli-"))
        self.out = self.folder / "out"
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def succeed(self, *arguments, **options):
        done = self.program.run(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def ends(self, code, *arguments, says, **options):
        done = self.program.run(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(len(self.program.errors(done)), 1, done.stderr)
        self.assertRegex(self.program.errors(done)[0], says)

    def refused(self, *arguments, says, **options):
        self.ends(2, *arguments, says=says, **options)


class UniversesCase(Case):
    """All tests share universes of 32^3 in the folder `data`. Subclasses say how many: training, validation, test."""

    program = Program("keelson-cosmoflow")
    universes = (8, 4, 0)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shared = pathlib.Path(tempfile.mkdtemp(prefix="keelson-universes-"))
        cls.addClassCleanup(shutil.rmtree, shared)
        cls.data = shared / "data"
        train, validation, test = cls.universes
        done = cls.program.run("generate", "--out", cls.data, "--size", 32, "--particles", 1, "--order", 1, "--train", train,
                               "--validation", validation, "--test", test)
        assert done.returncode == 0, done.stderr



def records(folder, kind):
    lines = (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [r for r in map(json.loads, lines) if r["type"] == kind]


def arrays(path):
    """Every array of a checkpoint by name."""
    found = {}
    with h5py.File(path) as f:
        f.visititems(lambda name, o: found.update({name: o[()]}) if isinstance(o, h5py.Dataset) else None)
    return found


def attributes(path):
    with h5py.File(path) as f:
        return dict(f.attrs)


def newest(folder):
    return sorted((pathlib.Path(folder) / "checkpoints").glob("step-*.h5"))[-1]
