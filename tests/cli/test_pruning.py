"""--prune-samples: what a run that leaves samples out leaves, resumed runs, killed runs, and what is refused."""

import csv
import os
import signal
import subprocess
import time

from programs import UniversesCase, arrays, attributes, needs_h5py, newest, numpy, records

ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}
EPOCHS = 4


class Pruning(UniversesCase):
    universes = (14, 2, 0)

    def arguments(self, folder, *options, batch=2):
        return ("train", "--data", self.data, "--out", folder, "--epochs", EPOCHS, "--log-every", 1, "--dropout", 0,
                "--global-batch", batch, *options)

    def train(self, name, *options, ranks=1, batch=2):
        folder = self.folder / name
        self.succeed(*self.arguments(folder, *options, batch=batch), ranks=ranks, env=ONE_THREAD)
        return folder

    def losses(self, folder):
        return [(r["step"], r["loss"], r["learning_rate"]) for r in records(folder, "step")]

    def assert_same(self, one, other):
        self.assertEqual(self.losses(one), self.losses(other))
        a, b = arrays(newest(one)), arrays(newest(other))
        self.assertEqual(a.keys(), b.keys())
        for name, value in a.items():
            self.assertTrue(numpy.array_equal(value, b[name]), name)
        self.assertEqual((one / "samples.csv").read_text(), (other / "samples.csv").read_text())

    @needs_h5py
    def test_what_a_run_leaves(self):
        folder = self.train("out", "--prune-samples", "infobatch")
        used = [r["samples"] for r in records(folder, "epoch")]
        self.assertEqual((used[0], used[-1]), (14, 14))
        self.assertLess(min(used), 14)
        self.assertEqual(attributes(newest(folder))["samples"], sum(used))
        with open(folder / "samples.csv", newline="") as file:
            samples = list(csv.DictReader(file))
        self.assertEqual([int(s["index"]) for s in samples], list(range(14)))
        for s in samples:
            self.assertTrue(os.path.exists(s["file"]), s)
            self.assertEqual(s["score"], s["last_loss"])
        self.assertAlmostEqual(sum(float(s["kept_share"]) for s in samples), sum(used) / EPOCHS, 2)
        report = (folder / "report.html").read_text()
        for text in ("Samples used", "Forgotten most often", "Never learned"):
            self.assertIn(text, report)
        self.train("out", "--overwrite")
        self.assertFalse((folder / "samples.csv").exists())
        self.assertNotIn("Samples used", (folder / "report.html").read_text())

    @needs_h5py
    def test_a_ratio_of_zero_has_the_bits_of_all_samples(self):
        plain, zero = self.train("plain"), self.train("zero", "--prune-samples", "infobatch", "--prune-ratio", 0)
        self.assertEqual(self.losses(plain), self.losses(zero))
        for name, value in arrays(newest(plain)).items():
            self.assertTrue(numpy.array_equal(value, arrays(newest(zero))[name]), name)

    @needs_h5py
    def test_all_numbers_of_ranks_keep_the_same_samples(self):
        options = ("--prune-samples", "infobatch", "--reproducible")
        one = self.train("1", *options, batch=4)
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.assert_same(self.train(str(ranks), *options, ranks=ranks, batch=4), one)

    @needs_h5py
    def test_killed_within_an_epoch_and_resumed(self):
        options = ("--prune-samples", "infobatch", "--checkpoint-steps", 4)
        whole = self.train("whole", *options)
        out = self.folder / "killed"
        for last in (9, 15):
            run = subprocess.Popen(self.program.command(0, *self.arguments(out, *options, "--overwrite")), env=ONE_THREAD,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(run.kill)
            metrics = out / "metrics.jsonl"
            while run.poll() is None and (metrics.read_text().count('"type":"step"') if metrics.exists() else 0) < last:
                time.sleep(0.005)
            run.send_signal(signal.SIGKILL)
            run.wait()
            self.succeed("train", "--resume", out, env=ONE_THREAD)
            self.assert_same(out, whole)

    def test_refusals(self):
        for options, says in ((("--prune-samples", "infobatch", "--bag"), "--prune-samples infobatch with --bag"),
                              (("--prune-ratio", 0.5), "--prune-ratio 0.5 belongs to --prune-samples"),
                              (("--prune-samples", "random", "--sync", "local:2"), "with synchronization local:2")):
            with self.subTest(says):
                self.refused(*self.arguments(self.out, *options), says=says)
        self.refused(*self.arguments(self.out, "--prune-samples", "kakurenbo", "--spatial", 2), ranks=2,
                     says="--prune-samples kakurenbo with replicas of 2 ranks")
