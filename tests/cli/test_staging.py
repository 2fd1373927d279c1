"""--stage and the subcommand stage: data on the nodes' own disks."""

import os
import pathlib
import resource
import shutil
import subprocess
import time
import unittest

import programs
from programs import MPIEXEC, UniversesCase, arrays, needs_h5py, newest, numpy, records

ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in pathlib.Path(folder).rglob("*.h5")}


def train_on_nodes(case, *options):
    """Trains on two ranks that stage to folders of their own, as on two nodes. Returns what the run printed."""
    train = [case.program.path, "train", *map(str, options), "--stage"]
    done = subprocess.run([*MPIEXEC, "-n", "1", *train, case.folder / "a", ":", "-n", "1", *train, case.folder / "b"],
                          env=ONE_THREAD, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    case.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    return done.stdout


class Universes(UniversesCase):
    universes = (6, 2, 0)

    options = ("--epochs", 1, "--log-every", 1, "--lr", 0.001, "--global-batch", 2, "--checkpoint-steps", 1)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.data.parent / "whole"
        done = cls.program.run("train", "--data", cls.data, "--out", cls.whole, *cls.options, ranks=2, env=ONE_THREAD)
        assert done.returncode == 0, done.stderr

    def assert_same_as_whole(self, run):
        self.assertEqual([r["loss"] for r in records(run, "step")], [r["loss"] for r in records(self.whole, "step")])
        expected, found = arrays(newest(self.whole)), arrays(newest(run))
        for name, value in expected.items():
            numpy.testing.assert_array_equal(found[name], value, name)

    @needs_h5py
    def test_trains_as_from_the_source(self):
        """Also if the run is interrupted, and resumed with the copies and without them."""
        local = self.folder / "local"
        said = self.succeed("train", "--data", self.data, "--out", self.out, *self.options, "--max-steps", 1, "--stage", local,
                            ranks=2, env=ONE_THREAD)
        self.assertRegex(said, r"local/train: 6 files on 1 folder; 6 read \([^)]*GB/s\), 0 exchanged")
        self.assertEqual(contents(local), contents(self.data))
        said = self.succeed("train", "--resume", self.out, "--max-steps", 2, "--stage", local, "--verify-stage", ranks=2,
                            env=ONE_THREAD)
        self.assertRegex(said, r"local/train: .* 0 exchanged .*, 6 there already")
        shutil.rmtree(local)  # checkpoints name the source
        self.succeed("train", "--resume", self.out, "--max-steps", -1, ranks=2, env=ONE_THREAD)
        self.assert_same_as_whole(self.out)

    @needs_h5py
    def test_ranks_with_folders_of_their_own(self):
        """As on two nodes."""
        said = train_on_nodes(self, "--data", self.data, "--out", self.out, *self.options)
        self.assertRegex(said, r"a/train: 6 files on 2 folders; 6 read .*, 6 exchanged")
        for folder in ("a", "b"):
            self.assertEqual(contents(self.folder / folder), contents(self.data))
        self.assert_same_as_whole(self.out)

    @needs_h5py
    def test_nodes_with_a_part_each(self):
        """Each of the 6 training samples is read from a copy, by a rank whose node has one, unless no node has one. The 2
        samples of the validation are on both nodes."""
        whole = self.folder / "in-order"
        order = ("--reproducible", "--dropout", 0)
        self.succeed("train", "--data", self.data, "--out", whole, *self.options, *order, ranks=2, env=ONE_THREAD)
        for mode, copies, shares in ((("shard",), 3, ("75.0", "25.0")), (("sample", "--stage-count", 4), 4, ("75.0", "25.0")),
                                     (("sample", "--stage-count", 2), 2, ("50.0", "50.0"))):
            with self.subTest(mode):
                out = self.folder / "-".join(map(str, mode))
                said = train_on_nodes(self, "--data", self.data, *self.options, *order, "--out", out, "--stage-mode", *mode)
                self.assertRegex(said, "8 samples were read: 0.0 % from memory, {} % from staged copies, {} % from the files".format(*shares))
                found = [{p.name for p in (self.folder / node / "train").glob("*.h5")} for node in "ab"]
                self.assertEqual([len(names) for names in found], [copies, copies])
                self.assertEqual(len(contents(self.folder / "a/validation")), 2)
                expected, found = arrays(newest(whole)), arrays(newest(out))
                for name, value in expected.items():
                    numpy.testing.assert_array_equal(found[name], value, name)

    def test_the_subcommand(self):
        copies = self.folder / "copies"
        self.succeed("stage", "--data", self.data, "--out", copies, ranks=2)
        self.assertEqual(contents(copies), contents(self.data))
        self.succeed("train", "--data", copies, "--out", self.out, "--max-steps", 1)
        sample = self.folder / "sample"
        said = self.succeed("stage", "--data", self.data / "train", "--out", sample, "--mode", "sample", "--count", 4)
        self.assertIn("4 files on 1 folder", said)
        found = contents(sample)
        self.assertEqual(len(found), 4)
        for name, content in found.items():
            self.assertEqual(content, (self.data / "train" / name).read_bytes())

    def test_refusals(self):
        out = ("--out", self.folder / "copies")
        self.refused("stage", *out, says="give --data")
        self.refused("stage", "--data", self.data, says="give --out")
        self.refused("stage", "--data", self.data, *out, "--mode", "sample", says="give --count")
        self.refused("stage", "--data", self.data, *out, "--count", 3, says="leave it out")
        self.refused("stage", "--data", self.data, "--out", self.data, says="from which files are copied")
        self.refused("stage", "--data", self.folder / "none", *out, says="none: does not exist")
        train = ("train", "--data", self.data, "--out", self.out)
        self.refused(*train, "--stage-mode", "shard", says="--stage-mode shard without --stage")
        staged = (*train, "--stage", self.folder / "copies")
        self.refused(*staged, "--stage-mode", "sample", says="--stage-mode sample: give --stage-count")
        self.refused(*staged, "--stage-count", 3, says="--stage-count is the number of files of --stage-mode sample")
        self.refused(*staged, "--stage-mode", "sample", "--stage-count", 7, says="train: holds 6 files, but 7 files per node")
        self.refused(*staged, "--stage-mode", "sample", "--stage-count", 3, "--cache-disk", "1M", "--cache-folder", self.folder,
                     says="--cache-disk with --stage-mode: the copies are on the nodes' disks already")

    def test_a_full_disk(self):
        """A limit on the size of files stands for the end of the disk."""
        size = max(p.stat().st_size for p in self.data.rglob("*.h5"))

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, resource.RLIM_INFINITY))

        stage = ("stage", "--data", self.data / "train", "--out", self.out)
        self.ends(1, *stage, preexec_fn=limit, says=r"cannot write .*/out/.*\.h5: .*; \d of 6 copies are missing: start again")
        self.succeed(*stage)
        self.assertEqual(contents(self.out), contents(self.data / "train"))

    def test_goes_on_after_a_kill(self):
        """The copies are as large as a test can afford; whether the kill comes before their end does not matter."""
        source, copies = self.folder / "many", self.folder / "copies"
        source.mkdir()
        for i in range(200):
            (source / f"{i:03}.h5").write_bytes(os.urandom(1000) * 300)
        stage = ("stage", "--data", source, "--out", copies)
        for _ in range(2):
            started = self.program.start(*stage)
            before = len(list(copies.glob("*.h5")))
            while started.poll() is None and len(list(copies.glob("*.h5"))) < before + 20:
                time.sleep(0.001)
            started.kill()
            started.communicate()
        self.succeed(*stage, ranks=2)
        self.assertEqual(contents(copies), contents(source))
        self.assertEqual(list(copies.glob(".*.partial-*")), [])


class Snapshots(programs.Case):
    program = programs.Program("keelson-climate")

    def test_statistics_come_along(self):
        data, local = self.folder / "data", self.folder / "local"
        self.succeed("generate", "--out", data, "--height", 64, "--width", 96, "--cyclones", 4, "--train", 3,
                     "--validation", 1, "--test", 1)
        network = ("--net", "tiramisu", "--blocks", "1,1", "--growth", 4, "--first", 8, "--epochs", 1, "--log-every", 1)
        losses = {}
        for name, options in (("whole", ()), ("staged", ("--stage", local))):
            out = self.folder / name
            said = self.succeed("train", "--data", data, "--out", out, *network, *options, env=ONE_THREAD)
            self.assertIn(f"statistics: {data}/stats.h5" if name == "whole" else f"statistics: {local}/train/stats.h5", said)
            losses[name] = [r["loss"] for r in records(out, "step")]
        self.assertEqual(losses["staged"], losses["whole"])
        losses.clear()
        same = ("--data", data, *network, "--global-batch", 2, "--reproducible", "--cache-memory", "1M")
        self.succeed("train", *same, "--out", self.folder / "one", env=ONE_THREAD, ranks=1)
        said = train_on_nodes(self, *same, "--out", self.folder / "parts", "--stage-mode", "shard")
        self.assertRegex(said, "statistics: .*/stats.h5")
        self.assertRegex(said, "4 samples were read: 0.0 % from memory, 75.0 % from staged copies")
        for out in ("one", "parts"):
            losses[out] = [r["loss"] for r in records(self.folder / out, "step")]
        self.assertEqual(losses["one"], losses["parts"])
        copies = self.folder / "copies"
        self.succeed("stage", "--data", data, "--out", copies, ranks=2)
        said = self.succeed("train", "--data", copies, "--out", self.out, "--max-steps", 1, *network)
        self.assertIn(f"statistics: {copies}/train/stats.h5", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
