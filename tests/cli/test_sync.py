"""Ranks keep their parameters together as --sync says; a run that is resumed goes on in the same way."""

import subprocess
import unittest

from programs import MPIEXEC, Program, UniversesCase, long_test, records

COSMOFLOW = Program("keelson-cosmoflow")


class Sync(UniversesCase):
    universes = (16, 4, 0)

    def train(self, name, *options, ranks=2):
        """What the program prints, and the losses of all steps."""
        folder = self.folder / name.replace(":", "-")
        text = self.succeed("train", "--data", self.data, "--out", folder, "--epochs", 2, "--log-every", 1,
                            "--global-batch", 4, "--dropout", 0, *options, ranks=ranks)
        return text, [r["loss"] for r in records(folder, "step")]

    def test_modes(self):
        self.compare("lag", "stale:0")

    @long_test
    def test_other_modes(self):
        self.compare("stale:2", "gossip", "local:1", "local:3", "post-local:2@1")

    def compare(self, *modes):
        """Losses of the modes beside those of synchronous steps."""
        _, want = self.train("synchronous")
        self.assertEqual(len(want), 8)
        for mode in modes:
            with self.subTest(mode):
                text, losses = self.train(mode, "--sync", mode)
                self.assertIn(f"synchronization {mode}", text)
                self.assertEqual(len(losses), len(want))
                self.assertAlmostEqual(losses[0], want[0], delta=1e-4 * want[0])
                if mode in ("stale:0", "local:1"):
                    for a, b in zip(want, losses):
                        self.assertAlmostEqual(a, b, delta=1e-4 * abs(a))
                elif mode != "gossip":  # at two ranks all that matters is how often they average
                    self.assertNotAlmostEqual(losses[-1], want[-1], delta=1e-4 * want[-1])

    def test_resume(self):
        self.resume("local:3")

    @long_test
    def test_resume_in_other_modes(self):
        self.resume("lag", "stale:2", "gossip", "post-local:2@1")

    def resume(self, *modes):
        """The mode comes from the checkpoint."""
        for mode in modes:
            with self.subTest(mode):
                name = "resumed-" + mode
                folder = self.folder / name.replace(":", "-")
                _, losses = self.train(name, "--sync", mode, "--checkpoint-steps", 3, "--keep", 9)
                again = self.folder / (folder.name + "-again")
                step = sorted((folder / "checkpoints").glob("step-*.h5"))[2]  # of 3, 4, 6, 8
                text = self.succeed("train", "--resume", step, "--out", again, "--checkpoint-steps", 3, "--keep", 9,
                                    "--log-every", 1, ranks=2)
                self.assertIn(f"synchronization {mode}", text)
                self.assertEqual([r["loss"] for r in records(again, "step")], losses[6:])

    def test_refusals(self):
        train = ["train", "--data", self.data, "--out", self.folder / "refused", "--global-batch", 4]
        for mode, options, says in (
                ("asynchronous", (), "the synchronization 'asynchronous' is none: expected synchronous, lag, stale:STEPS"),
                ("local", (), "the synchronization 'local' is none"),
                ("local:0", (), "the synchronization 'local:0' is none"),
                ("post-local:4", (), r"the synchronization 'post-local:4' is none.*post-local:STEPS@EPOCHS"),
                ("local:4", ("--wire", "bf16"), "local:4 with a wire of 16 bits.*--wire fp32"),
                ("stale:4", ("--precision", "fp16"), "stale:4 with fp16.*--precision bf16")):
            with self.subTest(mode):
                self.refused(*train, "--sync", mode, *options, ranks=2, says=says)

    def test_ranks_that_may_be_lost(self):
        launcher = [*MPIEXEC, "--with-ft", "ulfm", "-n", "2"]
        found = subprocess.run([*launcher, "env"], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if found.returncode != 0 or "OMPI_MCA_mpi_ft_enable=1" not in found.stdout:
            self.skipTest("needs Open MPI with ULFM")
        done = subprocess.run([*launcher, COSMOFLOW.path, "train", "--data", self.data, "--out", self.folder / "refused",
                               "--sync", "local:4"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stderr, "local:4 on 2 ranks that survive losses.*without --with-ft ulfm, or give --sync")


if __name__ == "__main__":
    unittest.main()
