"""Replicas of several ranks (--spatial), whose ranks take the same samples."""

import json
import unittest

from killed_runs import ULFM, has_ulfm
from lm_support import LM, SMALL, LmCase
from programs import Program, arrays, h5py, needs_h5py, newest, numpy, records

BENCH = Program("keelson-bench")


class Spatial(LmCase):
    def setUp(self):
        super().setUp()
        self.others = self.folder / "others"

    def run_both(self, *arguments, replicas):
        """Trains with replicas of one rank, and of two."""
        self.train(*SMALL, *arguments, out=self.others, ranks=replicas)
        return self.train(*SMALL, *arguments, "--spatial", 2, ranks=2 * replicas)

    def require_same(self):
        steps = [[(r["step"], r["loss"]) for r in records(folder, "step")] for folder in (self.out, self.others)]
        self.assertEqual(*steps)
        epochs = [[(r["epoch"], r["metric"]) for r in records(folder, "epoch")] for folder in (self.out, self.others)]
        self.assertEqual(*epochs)
        mine, theirs = (arrays(newest(folder)) for folder in (self.out, self.others))
        self.assertEqual(mine.keys(), theirs.keys())
        for name in mine:
            self.assertTrue(numpy.array_equal(mine[name], theirs[name]), name)

    @needs_h5py
    def test_the_bits_of_replicas_of_one_rank(self):
        printed = self.run_both("--global-batch", 8, "--epochs", 2, "--log-every", 1, replicas=2)
        self.assertIn("batch 8 (4 ranks: data 2 x space 2)", printed)
        self.assertIn("data 2 x space 2", (self.out / "report.html").read_text())
        self.require_same()

    @needs_h5py
    def test_a_batch_is_that_of_a_replica(self):
        printed = self.run_both("--batch", 4, "--epochs", 1, "--dropout", 0.2, "--log-every", 1, replicas=1)
        self.assertIn("batch 4 (2 ranks: data 1 x space 2)", printed)
        self.require_same()

    @needs_h5py
    def test_a_run_continues_on_another_grid(self):
        options = (*SMALL, "--global-batch", 8, "--max-steps", 20)
        self.train(*options, out=self.others)
        self.train(*options[:-1], 7, "--spatial", 2, ranks=2)
        self.train("--resume", self.out, "--max-steps", 20)
        mine, theirs = (arrays(newest(folder)) for folder in (self.out, self.others))
        for name in mine:
            self.assertTrue(numpy.array_equal(mine[name], theirs[name]), name)

    def test_refusals(self):
        train = ("train", "--data", self.text, "--out", self.out, *SMALL)
        for arguments, ranks, says in ((["--spatial", 2], 1, "1 rank, but --spatial 2 takes multiples of 2"),
                                       (["--spatial", "2x2"], 2, "2 ranks, but --spatial 2x2 takes multiples of 4"),
                                       (["--spatial", "half"], 2, "--spatial is 'half': expected the number of parts"),
                                       (["--spatial", 2, "--global-batch", 7], 4, "7 .* among 2 replicas"),
                                       (["--spatial", 2, "--reproducible"], 2, r"\(--reproducible\) on 2 ranks to a replica"),
                                       (["--spatial", 2, "--sync", "lag"], 2, "with synchronization lag: only synchronous")):
            with self.subTest(arguments):
                done = LM.run(*train, *arguments, ranks=ranks)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertRegex(LM.errors(done)[0], says)
        self.assertFalse(self.out.exists())

    @unittest.skipUnless(has_ulfm(), "needs Open MPI with ULFM")
    def test_ranks_that_survive_losses(self):
        done = LM.run("train", "--data", self.text, "--out", self.out, *SMALL, "--spatial", 2, ranks=2, launcher=ULFM)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(LM.errors(done)[0], r"on ranks that survive losses: .*without --with-ft ulfm")

    def test_steps_count_the_samples_of_replicas(self):
        done = BENCH.run("step", "--net", "lstm-small", "--batch", 2, "--steps", 1, "--warmup", 0, "--json", "--spatial", 2, ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["grid"], "data 1 x space 2")
        self.assertAlmostEqual(found["samples_per_second"] * found["seconds_per_step"], 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
