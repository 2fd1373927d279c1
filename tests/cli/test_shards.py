"""--shard-optimizer: the same training, and checkpoints that any number of ranks reads."""

import os
import shutil
import unittest

from programs import Program, UniversesCase, arrays, needs_h5py, newest, numpy

COSMOFLOW = Program("keelson-cosmoflow")
SAME_SUMS = os.environ | {"OMP_NUM_THREADS": "1", "KEELSON_ALLREDUCE": "halving"}


class Shards(UniversesCase):
    universes = (11, 4, 0)

    def train(self, name, *options, ranks):
        folder = self.folder / name
        self.succeed("train", "--data", self.data, "--out", folder, "--epochs", 2, "--global-batch", 4, "--lr", 0.001,
                     *options, ranks=ranks, env=SAME_SUMS)
        return folder

    def assert_same_arrays(self, one, other, tolerance=0):
        a, b = arrays(newest(one)), arrays(newest(other))
        self.assertEqual(a.keys(), b.keys())
        for name, value in a.items():
            self.assertLessEqual(numpy.abs(value - b[name]).max(), tolerance * numpy.abs(value).max(), name)

    @needs_h5py
    def test_the_same_bits(self):
        whole = self.train("whole", "--optimizer", "adam", ranks=2)
        for shards in ("moments", "gradients"):
            self.assert_same_arrays(self.train(shards, "--optimizer", "adam", "--shard-optimizer", shards, ranks=2), whole)

    @needs_h5py
    def test_resumed_on_other_ranks(self):
        """Within an epoch, from shards on 2 ranks."""
        options = ("--momentum", 0.9, "--clip-norm", 1)
        whole = self.train("whole", *options, ranks=1)
        part = self.train("part", *options, "--shard-optimizer", "gradients", "--max-steps", 2, ranks=2)
        for ranks, shards in ((1, "none"), (4, "moments")):
            folder = self.folder / f"on-{ranks}"
            shutil.copytree(part, folder)
            self.succeed("train", "--resume", folder, "--max-steps", -1, "--global-batch", 4, "--shard-optimizer", shards,
                         ranks=ranks, env=SAME_SUMS)
            # Sums over other ranks round differently. If that changes which element of a pooling window is the largest,
            # gradients move by some percent; a wrong shard of moments would move them by their own size.
            self.assert_same_arrays(folder, whole, 0.1)

    def test_refusals(self):
        train = ("train", "--data", self.data, "--out", self.out, "--shard-optimizer", "gradients")
        for options, says in ((("--sync", "gossip"), "--sync synchronous, or leave --shard-optimizer out"),
                              (("--wire", "bf16"), "--wire bf16 or fp16 out"),
                              (("--reproducible", "--global-batch", 4), "give --shard-optimizer moments")):
            with self.subTest(says):
                done = COSMOFLOW.run(*train, *options, ranks=2)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
