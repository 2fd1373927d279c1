"""The same trajectory from any format, staged or not, with any cache, on any number of ranks, through deaths.

KEELSON_COMBINATIONS says how many random combinations are run (default 20)."""

import collections
import hashlib
import itertools
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
import unittest

import tfrecords
from programs import MPIEXEC, Program, UniversesCase, arrays, h5py, needs_h5py, newest, numpy, records

COMBINATIONS = int(os.environ.get("KEELSON_COMBINATIONS", "20"))
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1", "KEELSON_TUNE": "off"}
PROGRAM = Program("keelson-cosmoflow")
SAMPLE_BYTES = 32**3 * 4 * 2 + 1


def make_forms(folder):
    """The universes of `folder`/hdf5 in other forms. Returns the folders, by form."""
    forms = {"hdf5": folder / "hdf5", **{name: folder / name for name in ("chunks", "tfrecord", "gzip", "npz")}}
    for source in sorted(forms["hdf5"].glob("*/univ_*.h5")):
        for form in ("chunks", "tfrecord", "gzip", "npz"):
            (forms[form] / source.parent.name).mkdir(parents=True, exist_ok=True)
        with h5py.File(source) as h5, h5py.File(forms["chunks"] / source.parent.name / source.name, "w") as to:
            x, y = h5["x"][:], h5["y"][:]
            to.attrs.update(h5.attrs)
            to.create_dataset("x", data=x, chunks=(8, 32, 32, 4), compression="gzip", compression_opts=1, shuffle=True)
            to["y"] = y
        record = tfrecords.example(x.tobytes(), y)
        tfrecords.write(forms["tfrecord"] / source.parent.name / f"{source.stem}.tfrecord", [record])
        tfrecords.write(forms["gzip"] / source.parent.name / f"{source.stem}.tfrecord.gz", [record], compress=True)
        numpy.savez(forms["npz"] / source.parent.name / f"{source.stem}.npz", x=x, y=y)
    return forms


@needs_h5py
class DataCombinations(UniversesCase):
    universes = (11, 3, 0)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folders = pathlib.Path(cls.data).parent / "forms"
        cls.folders.mkdir()
        shutil.copytree(cls.data, cls.folders / "hdf5")
        cls.forms = make_forms(cls.folders)
        cls.whole = {}

    def arguments(self, form, out):
        return ["train", "--data", self.forms[form], "--out", out, "--epochs", 2, "--global-batch", 4, "--reproducible",
                "--dropout", 0.25, "--augment", "--log-every", 1, "--checkpoint-steps", 1, "--keep", 100]

    def digest(self, out):
        """Of all parameters and moments, and of the loss of every step, which other samples would change."""
        text = hashlib.sha256()
        for name, values in sorted(arrays(newest(out)).items()):
            text.update(name.encode() + values.tobytes())
        text.update(repr([(r["step"], r["loss"]) for r in records(out, "step")]).encode())
        return text.hexdigest()

    def undisturbed(self):
        """The digest of the run on one rank, without a cache."""
        if not self.whole:
            out = self.folders / "whole"
            self.succeed(*self.arguments("hdf5", out), ranks=1, env=ONE_THREAD)
            self.whole["digest"] = self.digest(out)
        return self.whole["digest"]

    def cache(self, chance, staged):
        """Options of a random cache, and its name. Copies of a part of the files are the disk of the cache."""
        kept = chance.choice([0, 1, 2, 100])
        in_memory, on_disk = ("--cache-memory", kept * SAMPLE_BYTES), ("--cache-disk", 2 * SAMPLE_BYTES)
        words = {"none": [], "memory": in_memory, "disk": [*on_disk, "--cache-folder", self.folder],
                 "both": [*in_memory, *on_disk, "--cache-folder", self.folder]}
        name = chance.choice(["none", "memory"] if staged in ("shard", "sample") else list(words))
        return name, list(words[name])

    def staging(self, chance, form):
        """How the data are copied first, and the options for it. Ranks take turns to be on one of two nodes, whose disks are
        folders; the copies of an earlier start are found again."""
        mode = chance.choice(["none", "full", "shard", "sample"])
        options = ["--stage", self.folder / f"copies-{form}-NODE", "--stage-mode", mode]
        return mode, [] if mode == "none" else options + ["--stage-count", 4] * (mode == "sample")

    def command(self, ranks, arguments):
        """Each rank gets the name of its own node's folder."""
        parts = [["-n", "1", PROGRAM.path, *(str(a).replace("NODE", str(r % 2)) for a in arguments)] for r in range(ranks)]
        return [*MPIEXEC, *itertools.chain(*([":", *part] if r else part for r, part in enumerate(parts)))]

    def kill(self, run, number):
        """mpirun and the ranks, or the one process that there is."""
        tasks = pathlib.Path(f"/proc/{run.pid}/task").glob("*/children")
        try:
            ranks = list(itertools.chain.from_iterable(t.read_text().split() for t in tasks))
        except OSError:
            ranks = []
        for pid in [*map(int, ranks), run.pid] if number == signal.SIGKILL else [run.pid]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def steps_done(self, out):
        path = out / "metrics.jsonl"
        return path.read_text().count('"type":"step"') if path.exists() else 0

    def disturbed(self, arguments, ranks, chance, out):
        """A run that is ended at a random step."""
        with open(self.folder / "output", "w") as output:
            run = subprocess.Popen(self.command(ranks, arguments), stdout=output, stderr=subprocess.STDOUT, env=ONE_THREAD)
        step, number = chance.randrange(0, 6), chance.choice([signal.SIGKILL, signal.SIGTERM])
        while run.poll() is None and self.steps_done(out) < step:
            time.sleep(0.005)
        self.kill(run, number)
        run.wait(120)

    def test_random_combinations(self):
        want, seen = self.undisturbed(), collections.Counter()
        for seed in range(COMBINATIONS):
            chance = random.Random(seed)
            form, (first_ranks, ranks) = chance.choice(list(self.forms)), (chance.choice([1, 2, 4]) for _ in range(2))
            (staged, first_stage), (later_staged, later_stage) = self.staging(chance, form), self.staging(chance, form)
            (name, first_cache), (later_name, later_cache) = self.cache(chance, staged), self.cache(chance, later_staged)
            seen.update([form, name, later_name, f"{first_ranks} -> {ranks} ranks", f"staged: {staged}", f"staged: {later_staged}"])
            with self.subTest(seed, form=form, ranks=(first_ranks, ranks), cache=(name, later_name), staged=(staged, later_staged)):
                out = self.folder / "out"
                shutil.rmtree(out, ignore_errors=True)
                self.disturbed([*self.arguments(form, out), *first_cache, *first_stage], first_ranks, chance, out)
                begun = list(out.glob("checkpoints/step-*.h5"))
                again = ["train", "--resume", out] if begun else [*self.arguments(form, out), "--overwrite"]
                done = subprocess.run(self.command(ranks, [*again, *later_cache, *later_stage]), text=True, env=ONE_THREAD,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(self.digest(out), want, (self.folder / "output").read_text())
        print(dict(sorted(seen.items())))


if __name__ == "__main__":
    unittest.main(verbosity=2)
