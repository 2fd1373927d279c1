"""The simulations of insitu/examples: a network learns while they run, on 1, 2 and 4 ranks, however their arrays lie."""

import json
import os
import unittest

from programs import Case, Program, h5py, needs_h5py, numpy

os.environ["OMP_NUM_THREADS"] = "1"  # as many ranks as cores, or more
BLOBS = Program("keelson-insitu-blobs")


class Burgers(Case):
    program = Program("keelson-insitu-burgers")

    def simulate(self, ranks, steps, training, layout="row", ghosts=2, name="run"):
        folder = self.folder / name
        folder.mkdir()
        result = json.loads(self.succeed(64, steps, layout, ghosts, training, folder, ranks=ranks))
        return result, folder, [json.loads(line) for line in (folder / "insitu.log").read_text().splitlines()]

    def test_it_learns_to_find_shocks_and_writes_them(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                result, folder, log = self.simulate(ranks, 300, 3, name=f"ranks{ranks}")
                self.assertGreater(result["iou"], 0.75, result)
                self.assertEqual(result["train_steps"], 900)
                self.assertTrue(75 <= result["first_on"] < 300, result)
                self.assertEqual([line["step"] for line in log[:-1]], list(range(300)))
                self.assertEqual(log[-1]["steps"], 300)
                for line in log:
                    parts = sum(line[part] for part in ("pack", "infer", "train", "trigger", "write"))
                    self.assertAlmostEqual(line["share"], parts / line["step_seconds"], places=3)
                written = [line["step"] for line in log[:-1] if line["write"] > 0]
                self.assertEqual(written[0], result["first_on"])
                self.assertEqual([f"strong-{step:06}.h5" for step in written], sorted(p.name for p in folder.glob("strong-*")))
                self.check_snapshot(folder / f"strong-{written[0]:06}.h5", written[0])

    def check_snapshot(self, path, step):
        if not h5py:
            return
        with h5py.File(path) as f:
            self.assertEqual(f.attrs["step"], step)
            u, shock = f["u"][()], f["shock"][()]
        self.assertEqual((u.shape, shock.shape), ((64, 64), (64, 64)))
        compression = (numpy.roll(u, 1, 1) - numpy.roll(u, -1, 1) + numpy.roll(u, 1, 0) - numpy.roll(u, -1, 0)) / 2
        truth, found = compression > 0.2, shock > 0.5
        self.assertGreater(truth.sum(), 50)
        self.assertGreater((truth & found).sum() / (truth | found).sum(), 0.5)

    @needs_h5py
    def test_the_arrangement_of_the_arrays_changes_nothing(self):
        def weights(name, **options):
            _, folder, _ = self.simulate(2, 30, 2, name=name, **options)
            with h5py.File(folder / "shocks.h5") as f:
                return f["parameters/conv1/weights"][()]

        expected = weights("rows")
        self.assertTrue((weights("columns", layout="column") == expected).all())
        self.assertTrue((weights("ghosts", ghosts=4) == expected).all())

    def test_training_takes_about_its_share(self):
        result, _, log = self.simulate(2, 100, 0)
        self.assertGreater(result["train_steps"], 0)
        made = [line["train_steps"] for line in log[:-1]]
        self.assertEqual(sum(made), result["train_steps"])


@unittest.skipUnless(os.path.exists(BLOBS.path), "needs a Fortran compiler")
class Blobs(Case):
    program = BLOBS

    def test_every_function_of_the_fortran_module_works(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.assertRegex(self.succeed(self.folder, ranks=ranks), r"error +0\.0\d+ on T train_steps 400")
                names = {p.name for p in self.folder.iterdir()}
                self.assertLessEqual({"blobs.log", "blobs.h5", "blobs-now.h5", "blobs-last.h5"}, names)
                self.assertTrue(any(name.startswith("bright-") for name in names), names)


if __name__ == "__main__":
    unittest.main(verbosity=2)
