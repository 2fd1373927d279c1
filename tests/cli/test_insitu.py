"""The simulations of insitu/examples: a network learns while they run, on 1, 2 and 4 ranks, however their arrays lie."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from programs import Case, Program, h5py, needs_h5py, numpy

os.environ["OMP_NUM_THREADS"] = "1"  # as many ranks as cores, or more
TOP = pathlib.Path(__file__).resolve().parents[2]
BLOBS = Program("keelson-insitu-blobs")


class Simulation(Case):
    def succeed(self, *arguments, **options):
        """Skips what needs snapshots of several ranks where HDF5 has no MPI."""
        done = self.program.run(*arguments, **options)
        if "need an HDF5 with MPI" in done.stderr:
            self.skipTest("this HDF5 has no MPI")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


class Burgers(Simulation):
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

    def test_training_by_share(self):
        result, _, log = self.simulate(2, 100, 0)
        self.assertGreater(result["train_steps"], 0)
        made = [line["train_steps"] for line in log[:-1]]
        self.assertEqual(sum(made), result["train_steps"])


@unittest.skipUnless(os.path.exists(BLOBS.path), "needs a Fortran compiler")
class Blobs(Simulation):
    program = BLOBS

    def test_every_function_of_the_fortran_module_works(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.assertRegex(self.succeed(self.folder, ranks=ranks), r"error +0\.0\d+ on T train_steps 400")
                names = {p.name for p in self.folder.iterdir()}
                self.assertLessEqual({"blobs.log", "blobs.h5", "blobs-now.h5", "blobs-last.h5"}, names)
                self.assertTrue(any(name.startswith("bright-") for name in names), names)


SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


class Scripts(Case):
    @unittest.skipUnless(shutil.which("redis-server") and os.path.exists(Program("keelson-insitu-redis").path), "needs Redis and hiredis")
    def test_a_worker_behind_redis_gives_the_same_answer(self):
        done = subprocess.run([SCRIPTS / "insitu-redis.sh", "32"], text=True, capture_output=True, timeout=120,
                              env={**os.environ, "PATH": os.environ["KEELSON_BIN"] + ":" + os.environ["PATH"]})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"32 x 32 cells: [\d.]+ ms in the process, [\d.]+ ms through Redis")

    def test_the_demo_says_what_to_pass(self):
        done = subprocess.run([SCRIPTS / "demo-insitu.sh", "build"], text=True, capture_output=True, timeout=60, cwd=self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("./dev demo insitu https://", done.stderr)

    def test_the_patch_is_short(self):
        lines = (SCRIPTS.parent / "insitu/euler_kokkos.patch").read_text().splitlines()
        self.assertLessEqual(sum(line[0:1] in "+-" and line[:3] not in ("+++", "---") for line in lines if line), 60)

    @needs_h5py
    def test_the_report_of_the_demo_draws_what_was_found(self):
        for name in ("last.h5", "strong-000007.h5"):
            with h5py.File(self.folder / name, "w") as f:
                f.attrs["step"], f.attrs["time"] = 7, 0.5
                f["density"] = numpy.linspace(1, 2, 12).reshape(3, 4)
                f["truth"] = numpy.eye(3, 4)
                f["shock"] = numpy.tri(3, 4)
        (self.folder / "euler_kokkos.log").write_text("intersection over union: 0.7500\n")
        totals = {"steps": 10, "step_seconds": 1, "pack": 0.1, "infer": 0.1, "train": 0.2, "trigger": 0, "write": 0.1,
                  "share": 0.5, "train_steps": 4, "loss": 0.25}
        (self.folder / "insitu.log").write_text(json.dumps(totals) + "\n")
        command = ["python3", SCRIPTS / "insitu_report.py", self.folder, "--require"]
        done = subprocess.run([*command, "0.7"], text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("trigger on: step 7, time 0.5000", done.stdout)
        self.assertIn("10 steps of 100.00 ms, of which the network took 50.0 %", done.stdout)
        picture = (self.folder / "shocks.png").read_bytes()
        self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(picture[16:24], (6 * 3).to_bytes(4, "big") + (4 * 3).to_bytes(4, "big"))
        done = subprocess.run([*command, "0.8"], text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("not good enough", done.stderr)


class Demo(unittest.TestCase):
    def demo(self, folder, source):
        return subprocess.run([TOP / "scripts/demo-insitu.sh", "no build", source], env={**os.environ, "KEELSON_DEMO": str(folder)},
                              cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_a_source_that_is_not_there_or_lies_in_the_demos_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            lost = self.demo(folder, "/no/such/source")
            self.assertEqual(lost.returncode, 2)
            self.assertIn("there is no /no/such/source", lost.stderr)
            for source in (folder, folder / "euler_kokkos", folder / "euler_kokkos/inside"):
                (folder / "euler_kokkos/inside").mkdir(parents=True, exist_ok=True)
                (source / "CMakeLists.txt").touch()
                refused = self.demo(folder, source)
                self.assertEqual(refused.returncode, 2, refused.stderr)
                self.assertIn("lie within each other", refused.stderr)
                self.assertTrue((source / "CMakeLists.txt").exists(), "the source is still there")


if __name__ == "__main__":
    unittest.main(verbosity=2)
