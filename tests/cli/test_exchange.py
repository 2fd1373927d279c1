"""Gradients are exchanged as the user says, and training comes to the same."""

import os
import unittest

from programs import UniversesCase, records


class Exchange(UniversesCase):
    def train(self, name, *options, ranks=2, algorithm="auto", node_ranks=""):
        """The losses of all steps."""
        folder = self.folder / name
        self.succeed("train", "--data", self.data, "--out", folder, "--epochs", 2, "--log-every", 1, "--global-batch", 4,
                     "--dropout", 0, *options, ranks=ranks,
                     env=os.environ | {"KEELSON_ALLREDUCE": algorithm, "KEELSON_NODE_RANKS": node_ranks})
        return [r["loss"] for r in records(folder, "step")]

    def test_all_ways_come_to_the_same(self):
        one = self.train("one", ranks=1)
        self.assertEqual(len(one), 4)
        for algorithm, node_ranks, options in (("mpi", "", ()), ("two-level", "", ("--bucket-mb", 0.25)), ("ring:64K", "", ()),
                                               ("halving", "", ("--bucket-mb", 64)), ("doubling", "", ()), ("ring:32K", "", ("--progress", "thread")),
                                               ("two-level-ring", "2", ())):
            with self.subTest(algorithm):
                losses = self.train(f"{algorithm}{node_ranks}", *options, ranks=4 if node_ranks else 2,
                                    algorithm=algorithm, node_ranks=node_ranks)
                for a, b in zip(one, losses):
                    self.assertAlmostEqual(a, b, delta=1e-4 * abs(a))

    def test_chooses_who_lets_it_advance(self):
        """After 16 steps, half of them in each way."""
        printed = self.succeed("train", "--data", self.data, "--out", self.out, "--epochs", 9, "--global-batch", 4, ranks=2,
                               env=os.environ | {"KEELSON_TUNE": "on", "KEELSON_CACHE": str(self.folder / "cache")})
        self.assertRegex(printed, r"progress by (a thread|calls): steps of [\d.]+ ms; by (calls|a thread): [\d.]+ ms")

    def test_sixteen_bits_come_near(self):
        exact = self.train("fp32", algorithm="ring")
        for wire in ("bf16", "fp16"):
            with self.subTest(wire):
                losses = self.train(wire, "--wire", wire, algorithm="ring")
                self.assertNotEqual(losses, exact)
                for a, b in zip(exact, losses):
                    self.assertAlmostEqual(a, b, delta=2e-2 * abs(a))

    def test_refusals(self):
        train = ["train", "--data", self.data, "--out", self.folder / "refused"]
        for options, variables, says in (
                (("--wire", "bf16"), {"KEELSON_ALLREDUCE": "mpi"}, "mpi .*is not possible here with numbers of 16 bits"),
                ((), {"KEELSON_ALLREDUCE": "rings"}, "allreduce algorithm 'rings' .*expected auto, mpi, two-level"),
                ((), {"KEELSON_NODE_RANKS": "none"}, "KEELSON_NODE_RANKS is 'none'"),
                (("--bucket-mb", "-1"), {}, "--bucket-mb")):
            with self.subTest(says):
                done = self.program.run(*train, *options, ranks=2, env=os.environ | variables)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertRegex(done.stderr, says)


if __name__ == "__main__":
    unittest.main()
