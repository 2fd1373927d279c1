"""keelson-cosmoflow from end to end: every refusal, checkpoints as h5py sees them, signals, resuming."""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from programs import Program, arrays, h5py, needs_h5py, newest, numpy, records

PROGRAM = Program("keelson-cosmoflow")
command, run, errors = PROGRAM.command, PROGRAM.run, PROGRAM.errors


class Case(unittest.TestCase):
    """Shares a small data set; every test has a folder of its own."""

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="keelson-cli-"))
        cls.data = cls.shared / "data"
        done = run("generate", "--out", cls.data, "--size", 32, "--particles", 1, "--order", 1, "--train", 6, "--validation", 3, "--test", 2)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="keelson-cli-"))
        self.out = self.folder / "out"
        self.addCleanup(shutil.rmtree, self.folder)

    def train(self, *arguments, **options):
        dropout = [] if "--dropout" in arguments else ["--dropout", 0]
        return run("train", "--data", self.data, "--out", self.out, *dropout, *arguments, **options)

    def succeed(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done


class Refusals(Case):
    def refused(self, *arguments, says, ranks=0, out_exists=False, **options):
        done = run(*arguments, ranks=ranks, **options)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(len(errors(done)), 1, done.stderr)
        self.assertRegex(errors(done)[0], says)
        if not out_exists:
            self.assertEqual([p.name for p in self.folder.glob("out*")], [])
        return done

    def refused_train(self, *arguments, says, **options):
        return self.refused("train", "--out", self.out, *arguments, says=says, **options)

    def test_missing_data(self):
        self.refused_train(says="--data")
        self.refused_train("--data", self.folder / "nothing", says="nothing")
        self.refused_train("--train", self.folder / "nothing", says="nothing")

    def test_empty_data(self):
        (self.folder / "data/train").mkdir(parents=True)
        (self.folder / "data/validation").mkdir()
        self.refused_train("--data", self.folder / "data", says="train")
        (self.folder / "bare").mkdir()
        self.refused_train("--data", self.folder / "bare", says="bare: expected a folder train")

    def test_truncated_file(self):
        copy = self.folder / "data"
        shutil.copytree(self.data, copy)
        victim = sorted((copy / "train").iterdir())[3]
        victim.write_bytes(victim.read_bytes()[:30000])
        self.refused_train("--data", copy, says=victim.name)

    def write(self, name, **content):
        folder = self.folder / "odd"
        folder.mkdir(exist_ok=True)
        for i in range(2):  # a good neighbour in front
            with h5py.File(folder / f"a{i}.h5", "w") as f:
                f["x"] = numpy.ones((32, 32, 32, 4), "int16")
                f["y"] = numpy.zeros(4, "float32")
        with h5py.File(folder / name, "w") as f:
            for key, value in content.items():
                f[key] = value
        return folder

    @needs_h5py
    def test_odd_files(self):
        x, y = numpy.ones((32, 32, 32, 4), "int16"), numpy.zeros(4, "float32")
        nan = y.copy()
        nan[2] = numpy.nan
        for name, content in {
            "no_x.h5": {"y": y}, "no_y.h5": {"x": x}, "shape.h5": {"x": x[:16], "y": y}, "channels.h5": {"x": x[..., :3], "y": y},
            "targets.h5": {"x": x, "y": y[:3]}, "type.h5": {"x": "text", "y": y}, "nan_y.h5": {"x": x, "y": nan}}.items():
            with self.subTest(name):
                folder = self.write(name, **content)
                self.refused_train("--train", folder, says=name)
                shutil.rmtree(folder)

    @needs_h5py
    def test_paper_without_ranges(self):
        folder = self.write("b.h5", x=numpy.ones((32, 32, 32, 4), "int16"), y=numpy.zeros(4, "float32"))
        self.refused_train("--train", folder, "--recipe", "paper", "--size", 32, says="a0.h5: lacks the attributes parameter_minimum")

    @needs_h5py
    def test_not_finite_samples_of_many_ranks(self):
        folder = self.folder / "float"
        folder.mkdir()
        for i in range(4):
            with h5py.File(folder / f"{i}.h5", "w") as f:
                f["x"], f["y"] = numpy.ones((32, 32, 32, 4), "float32"), numpy.zeros(4, "float32")
                if i == 2:
                    f["x"][5, 6, 7, 1] = numpy.inf
        for ranks in (0, 2):
            self.refused_train("--train", folder, says="2.h5", ranks=ranks)

    def test_sizes(self):
        self.refused_train("--data", self.data, "--batch", 7, says="7 per rank .* larger than the training data")
        self.refused_train("--data", self.data, "--batch", 4, says=r"batch of 8 \(4 per rank on 2 ranks\)", ranks=2)
        self.refused_train("--data", self.data, "--global-batch", 3, says="cannot be divided", ranks=2)
        self.refused_train("--data", self.data, "--size", 16, says="16")
        self.refused_train("--data", self.data, "--size", 33, says="33")
        self.refused_train("--data", self.data, "--net", "paper", says="32")
        self.refused_train("--train", self.data / "validation", says="4 ranks for 3 training samples", ranks=4)

    def test_devices(self):
        self.refused_train("--data", self.data, "--device", "tpu", says="device 'tpu'.*(cpu|cuda)")
        self.refused_train("--data", self.data, "--memory-limit", "30M", says=r"parameters .* 30\.0 MiB are available on .*--memory-limit")
        self.refused_train("--data", self.data, "--memory-limit", "60M", says=r"60\.0 MiB are available on .*batch")
        self.refused_train("--data", self.data, "--memory-limit", "lots", says="--memory-limit")
        self.refused_train("--data", self.data, "--precision", "fp64", says="--precision")

    def test_codes_of_refusals(self):
        """What the user can change ends with 2, wherever it shows."""
        self.refused_train("--data", self.data, says="no backend makes", env={**os.environ, "KEELSON_BACKEND": "onednn"})
        self.refused("generate", "--out", self.folder / "far", "--size", 32, "--box", 1.5, says="use a larger box")
        self.refused("generate", "--out", self.folder / "far", "--size", 2**31, says="--size: found '2147483648', expected at most")
        self.succeed(self.train("--max-steps", 0))
        self.refused("evaluate", "--checkpoint", self.out, "--batch", 2**31, out_exists=True,
                     says="x needs .* for a batch of 2147483648, but .* are available")

    def test_options(self):
        for arguments, says in [
            (["--no-such-option"], "unknown option '--no-such-option'"), (["--epoch", 3], "did you mean.*--epochs"), (["--lr", "fast"], "fast"), (["--lr", -1], "--lr"),
            (["--net", "resnet"], "resnet"), (["--optimizer", "adagrad"], "adagrad"), (["--optimizer", "lamb"], "--weight-decay 0.01"), (["--nvlamb"], "--optimizer lamb"), (["--schedule", "steps"], "--decay"),
            (["--schedule", "steps", "--decay", "3:x"], "3:x"), (["--recipe", "magic"], "magic"), (["--epochs", 0], "--epochs"),
            (["--nesterov", "--momentum", 0], "--nesterov"), (["--config", "nothing.toml"], "nothing.toml"), (["--channels", "0,9"], "9")]:
            with self.subTest(arguments):
                self.refused_train("--data", self.data, *arguments, says=says)
        self.refused("trian", says="did you mean")
        self.refused(says="subcommand")
        self.refused("generate", says="--out")
        self.refused("evaluate", says="--checkpoint")
        self.refused("evaluate", "--checkpoint", self.folder / "nothing", says="nothing")
        self.refused("generate", "--out", self.out, "--size", 1, says="[Cc]ell|grid|size")

    def test_one_message_of_many_ranks(self):
        self.refused_train("--train", self.folder / "nothing", says="nothing", ranks=2)

    def test_unwritable_folder(self):
        (self.folder / "file").write_text("")
        done = run("train", "--data", self.data, "--out", self.folder / "file/run")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(errors(done)), 1, done.stderr)
        self.assertIn("file is not a folder", errors(done)[0])
        self.refused("train", "--data", self.data, "--out", "/proc/keelson", says="/proc")

    def test_checkpoints(self):
        self.succeed(self.train("--max-steps", 0))
        before = {p: p.read_bytes() for p in self.out.rglob("*") if p.is_file()}
        options = {"out_exists": True}
        self.refused("train", "--data", self.data, "--out", self.out, says="--resume.*--overwrite", **options)
        self.refused("train", "--resume", self.out, "--channels", "0,1", says="another network.*conv1/weights", **options)
        self.refused("train", "--resume", self.out, "--optimizer", "adam", says="optimizer", **options)
        self.refused("train", "--resume", self.out, "--seed", 9, says="seed 1, not 9", **options)
        self.refused("train", "--resume", self.folder / "nothing", says="nothing", **options)
        self.refused("train", "--resume", "--out", self.folder / "other", says="other", **options)
        self.assertEqual({p: p.read_bytes() for p in self.out.rglob("*") if p.is_file()}, before)
        checkpoint = newest(self.out)
        damaged = bytearray(checkpoint.read_bytes())
        damaged[len(damaged) // 4] ^= 4  # in the parameters, which lie before the moments
        checkpoint.write_bytes(damaged)
        self.refused("train", "--resume", self.out, says="damaged.*checksum", **options)
        self.refused("evaluate", "--checkpoint", self.out, says="damaged.*checksum", **options)
        checkpoint.write_bytes(damaged[: len(damaged) // 3])
        self.refused("train", "--resume", self.out, says=checkpoint.name, **options)
        self.refused("evaluate", "--checkpoint", self.out, says=checkpoint.name, **options)


class Training(Case):
    @needs_h5py
    def test_initial_checkpoint(self):
        self.succeed(self.train("--max-steps", 0))
        with h5py.File(newest(self.out)) as f:
            self.assertEqual(f["/parameters/conv1/weights"].shape, (32, 4, 3, 3, 3))
            self.assertEqual(f["/parameters/conv1/weights"].dtype, numpy.dtype("float32"))
            self.assertEqual(f["/parameters/dense1/weights"].shape, (128, 512))
            self.assertEqual(f["/parameters/dense3/bias"].shape, (4,))
            self.assertTrue((f["/optimizer/momentum/conv1/weights"][()] == 0).all())
            self.assertEqual(f.attrs["network"], "cosmoflow-mlperf")
            self.assertEqual(f.attrs["step"], 0)
            self.assertEqual(f.attrs["config.size"], "32")
            self.assertEqual(len(f["/parameters"].attrs["names"]), 16)
            w = f["/parameters/dense2/weights"][()]
            self.assertLess(abs(w).max(), (6 / (128 + 64)) ** 0.5)
            self.assertGreater(abs(w).max(), 0.9 * (6 / (128 + 64)) ** 0.5)

    @needs_h5py
    def test_everything_comes_out(self):
        done = self.succeed(self.train("--epochs", 2, "--batch", 2, "--log-every", 1))
        self.assertIn("report: ", done.stdout)
        self.assertEqual([r["step"] for r in records(self.out, "step")], [1, 2, 3, 4, 5, 6])
        epochs = records(self.out, "epoch")
        self.assertEqual([e["epoch"] for e in epochs], [1, 2])
        self.assertEqual(len(epochs[0]["target_errors"]), 4)
        report = (self.out / "report.html").read_text()
        for part in ("all epochs done", "Omega_m", "sigma_8", "N_spec", "H_0", "conv5", "Predicted against true", "backends "):
            self.assertIn(part, report)
        for part in ("<script", "http:", "https:", "src="):
            self.assertNotIn(part, report)
        self.assertTrue((self.out / "checkpoints/best.h5").exists())

        result = json.loads(self.succeed(run("evaluate", "--checkpoint", self.out, "--json")).stdout)
        self.assertEqual(result["samples"], 3)
        self.assertEqual(result["baseline"], "of the training data")
        self.assertAlmostEqual(result["value"], min(e["metric"] for e in epochs), places=6)
        held_out = json.loads(self.succeed(run("evaluate", "--checkpoint", self.out, "--data", self.data, "--json", ranks=2)).stdout)
        self.assertEqual(held_out["samples"], 2)
        y = {}
        for split in ("train", "test"):
            y[split] = numpy.array([h5py.File(p)["y"][()] for p in sorted((self.data / split).iterdir())])
        baseline = abs(y["test"] - y["train"].mean(0)).mean(0)
        for t, expected in zip(held_out["targets"], baseline):
            self.assertAlmostEqual(t["baseline_error"], expected, places=5)
            self.assertAlmostEqual(t["ratio"], t["error"] / t["baseline_error"], places=9)
        table = self.succeed(run("evaluate", "--checkpoint", self.out, "--require", "Omega_m:1e9")).stdout
        self.assertRegex(table, r"sigma_8 +\d\.\d+ +\d\.\d+ +\d\.\d+")
        missed = run("evaluate", "--checkpoint", self.out, "--require", "Omega_m:1e-9,sigma_8:1e9")
        self.assertEqual(missed.returncode, 1)
        self.assertRegex(errors(missed)[0], "Omega_m: error divided by .* expected below 1e-09$")

        best = self.out / "checkpoints/best.h5"
        before = best.read_bytes()
        damaged = self.folder / "damaged.h5"
        shutil.copy(next((self.data / "test").iterdir()), damaged)
        with h5py.File(damaged, "a") as f:
            f.attrs["parameter_maximum"] = f.attrs["parameter_maximum"] - 0.001
        for done, says in (
            (run("export", "--checkpoint", self.out, "--onnx", best), "best.h5: is an HDF5 file"),
            (run("export", "--checkpoint", best, "--onnx", best.with_name("step-0000000099.h5")),
             "--onnx .*step-0000000099.h5: is in a folder of checkpoints, where only runs write"),
            (run("evaluate", "--checkpoint", self.out, "--data", damaged),
             r"damaged.h5: .* say 'Omega_m .*', but the training data of .*best.h5 has 'Omega_m ")):
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(errors(done)[0], says)
        self.assertEqual(best.read_bytes(), before)
        self.assertFalse(best.with_name("step-0000000099.h5").exists())

    def test_two_ranks_do_as_one(self):
        self.succeed(self.train("--batch", 4, "--epochs", 2, "--log-every", 1, "--augment", "--dropout", 0.5))
        alone = self.out
        self.out = self.folder / "two"
        self.succeed(self.train("--batch", 2, "--epochs", 2, "--log-every", 1, "--augment", "--dropout", 0.5, ranks=2))
        for kind, key in (("step", "loss"), ("epoch", "metric"), ("epoch", "validation_loss")):
            a, b = ([r[key] for r in records(f, kind)] for f in (alone, self.out))
            self.assertEqual(len(a), 4 if kind == "step" else 2)
            for u, v in zip(a, b):
                self.assertAlmostEqual(u, v, delta=1e-5 * abs(u))

    @needs_h5py
    def test_sigterm_and_resume(self):
        self.succeed(self.train("--epochs", 3, "--batch", 2, "--log-every", 1, "--augment"))
        whole = self.out
        # mpirun passes SIGUSR1 on, and ends the job itself on SIGTERM.
        for ranks, wish in ((0, signal.SIGTERM), (0, signal.SIGINT), (2, signal.SIGUSR1)):
            with self.subTest(ranks=ranks, signal=wish):
                self.out = self.folder / f"cut{ranks}-{wish}"
                arguments = ["train", "--data", self.data, "--out", self.out, "--dropout", 0, "--epochs", 3, "--global-batch", 2,
                             "--log-every", 1, "--augment"]
                job = subprocess.Popen(command(ranks, *arguments), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                while job.poll() is None and not ((self.out / "metrics.jsonl").exists() and records(self.out, "step")):
                    time.sleep(0.005)
                job.send_signal(wish)
                out, err = job.communicate(timeout=60)
                self.assertEqual(job.returncode, 75, out + err)
                self.assertIn("interrupted", out)
                self.assertIn(f"train --resume {self.out}", out)
                self.assertLess(int(newest(self.out).stem[5:]), 9)
                self.succeed(run("train", "--resume", self.out))
                self.assertEqual([r["step"] for r in records(self.out, "step")], list(range(1, 10)))
                a, b = arrays(newest(whole)), arrays(newest(self.out))
                self.assertEqual(a.keys(), b.keys())
                if ranks:  # summed in another order in its first steps, where a window's two largest may change places
                    for name in a:
                        self.assertLess(numpy.linalg.norm(b[name] - a[name]), 1e-2 * numpy.linalg.norm(a[name]), name)
                    continue
                self.assertEqual([r["loss"] for r in records(self.out, "step")], [r["loss"] for r in records(whole, "step")])
                for name in a:
                    self.assertTrue((a[name] == b[name]).all(), name)

    def test_time_limit(self):
        done = self.train("--epochs", 10000, "--time-limit", 4)
        self.assertEqual(done.returncode, 75, done.stdout + done.stderr)
        self.assertIn("time limit", done.stdout)
        self.assertTrue(newest(self.out).exists())

    def test_killed_run_continues_from_its_last_checkpoint(self):
        arguments = command(0, "train", "--data", self.data, "--out", self.out, "--epochs", 400, "--checkpoint-steps", 2, "--log-every", 1)
        job = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not list(self.out.glob("checkpoints/step-*.h5")):
            time.sleep(0.01)
        job.kill()
        job.wait()
        self.succeed(run("train", "--resume", self.out, "--max-steps", 8))
        self.assertEqual([r["step"] for r in records(self.out, "step")], list(range(1, 9)))
        self.assertEqual([p.name for p in self.out.rglob(".*")], [])

    def test_full_disk(self):
        self.succeed(self.train("--max-steps", 2))
        first = newest(self.out)
        content = first.read_bytes()

        def little_space():
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) // 4, resource.RLIM_INFINITY))

        for subcommand, says in ((("train", "--resume", self.out, "--max-steps", 4), "cannot write the checkpoint"),
                           (("export", "--checkpoint", self.out, "--onnx", self.folder / "a.onnx"), "cannot write .*a.onnx: File")):
            done = run(*subcommand, preexec_fn=little_space)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertEqual(len(errors(done)), 1, done.stderr)
            self.assertRegex(errors(done)[0], says)
        self.assertEqual([p.name for p in self.folder.glob("*.onnx*")], [])
        self.assertEqual([p.name for p in (self.out / "checkpoints").iterdir()], [first.name])
        self.assertEqual(first.read_bytes(), content)
        self.succeed(run("train", "--resume", self.out, "--max-steps", 4))

    def test_loss_that_is_not_finite(self):
        done = self.train("--lr", 1e20, "--epochs", 3, "--checkpoint-steps", 1)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(len(errors(done)), 1, done.stderr)
        self.assertRegex(errors(done)[0], r"the loss became (NaN|infinite) in step \d+ .*(layer|parameter) \w+")

    def test_target_and_recipe(self):
        done = self.succeed(run("train", "--data", self.data, "--out", self.out, "--recipe", "demo", "--epochs", 50, "--target-mae", 5))
        self.assertIn("target reached after epoch 1, step 3", done.stdout)
        self.assertIn("batch 2 (1 rank); sgd momentum 0.9; learning rate 0.006 -> 0 cosine", done.stdout)

    def test_config_file(self):
        config = self.folder / "run.toml"
        config.write_text(f'data = "{self.data}"\nbatch = 3\nepochs = 1\nlr = 0.5\nmax-steps = 1\n')
        done = self.succeed(run("train", "--config", config, "--out", self.out, "--lr", 0.25))
        self.assertIn("batch 3 (1 rank)", done.stdout)
        self.assertIn("learning rate 0.25", done.stdout)

    def test_no_shuffle(self):
        """Weights that hardly move give each sample the same loss in every epoch."""
        losses = {}
        for order in ("--no-shuffle", "--shuffle"):
            self.out = self.folder / order
            self.succeed(self.train(order, "--lr", 1e-30, "--log-every", 1, "--epochs", 2))
            losses[order] = [r["loss"] for r in records(self.out, "step")]
        self.assertEqual(losses["--no-shuffle"][:6], losses["--no-shuffle"][6:])
        self.assertNotEqual(losses["--shuffle"][:6], losses["--shuffle"][6:])
        self.assertEqual(sorted(losses["--shuffle"][:6]), sorted(losses["--no-shuffle"][:6]))

    def test_help(self):
        for subcommand in ("generate", "train", "evaluate"):
            text = self.succeed(run(subcommand, "--help")).stdout
            self.assertIn("--config", text)
        text = self.succeed(run("train", "--help")).stdout
        self.assertRegex(text, r"--time-limit SECONDS\S* \[0\]")


@needs_h5py
class BrokenSamples(Case):
    def broken_data(self):
        """The shared data in float32, with a NaN in one training sample and one validation sample. Returns their files."""
        data = self.folder / "data"
        shutil.copytree(self.data, data)
        for path in data.glob("*/*.h5"):
            with h5py.File(path, "a") as f:
                x = f["x"][:].astype("f4")
                del f["x"]
                f["x"] = x
        broken = [sorted((data / split).glob("*.h5"))[i] for split, i in (("train", 2), ("validation", 0))]
        for path in broken:
            with h5py.File(path, "a") as f:
                f["x"][3, 1, 2, 0] = numpy.nan
        return data, broken

    def test_are_left_out(self):
        data, broken = self.broken_data()
        options = ("--data", data, "--dropout", 0, "--epochs", 2, "--log-every", 1)
        done = run("train", *options, "--out", self.out)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"'x' holds nan at \(3, 1, 2, 0\)")
        done = run("train", *options, "--out", self.out, "--skip-broken", 1)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "1 of 3 samples cannot be read, and at most 0 may be left out")
        done = self.succeed(run("train", *options, "--out", self.out, "--skip-broken", 2))
        for path in broken:
            self.assertRegex(done.stdout, f"sample [02] is left out: {path}: 'x' holds nan")
            self.assertIn(str(path), (self.out / "report.html").read_text())
        self.assertIn("without 1 broken sample", done.stdout)
        for path in broken:
            path.unlink()
        without = self.folder / "without"
        self.succeed(run("train", *options, "--out", without))
        a, b = arrays(newest(self.out)), arrays(newest(without))
        self.assertEqual(a.keys(), b.keys())
        for name in a:
            self.assertTrue(numpy.array_equal(a[name], b[name]), name)
        self.assertEqual(*[[r["validation_loss"] for r in records(out, "epoch")] for out in (self.out, without)])

    def test_files_are_left_out(self):
        """Also the first file, which the others are compared with, and on several ranks."""
        data = self.folder / "data"
        shutil.copytree(self.data, data)
        files = sorted((data / "train").glob("*.h5"))
        os.truncate(files[0], 5000)
        files[3].write_bytes(b"")
        options = ("--data", data, "--dropout", 0, "--epochs", 1, "--global-batch", 4)
        done = run("train", *options, "--out", self.out, "--skip-broken", 1)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "2 files are broken, and at most 1 may be left out .--skip-broken.; the first: .*univ_")
        for ranks in (0, 2):
            out = self.folder / f"out-{ranks}"
            done = self.succeed(run("train", *options, "--out", out, "--skip-broken", 2, ranks=ranks))
            for path in (files[0], files[3]):
                self.assertIn(f"a file is left out: {path}", done.stdout.replace("rank 0 ", ""))
            self.assertRegex(done.stdout, "training data: +4 samples")


class Caches(Case):
    def test_sizes_and_counts(self):
        done = self.succeed(self.train("--epochs", 2, "--batch", 2, "--cache-memory", "1M", "--cache-disk", "512K",
                                       "--cache-folder", self.folder))
        # 6 samples of 256 KiB: 3 with their marks fit 1 MiB, 2 the disk. The 3 samples of the validation find no room.
        self.assertIn("18 samples were read: 16.7 % from memory, 11.1 % from the cache's disk, 72.2 % from the files", done.stdout)

    def test_validation_data_take_what_is_left(self):
        """Bit for bit as without a cache; two ranks send each other training samples alone."""
        runs = {}
        for name, cache in (("files", ()), ("cached", ("--cache-memory", "1G")),
                            ("rest", ("--cache-memory", "1100K", "--cache-disk", "1100K", "--cache-folder", self.folder))):
            runs[name] = self.succeed(run("train", "--data", self.data, "--out", self.folder / name, "--dropout", 0, "--epochs", 3,
                                          "--global-batch", 2, "--reproducible", *cache, ranks=2)).stdout
        # 9 samples in 3 epochs. A rank has 3 samples of the training data and at most 2 of the validation data.
        self.assertIn("27 samples were read: 66.7 % from memory, 0.0 % from the cache's disk, 33.3 % from the files", runs["cached"])
        self.assertIn("27 samples were read: 59.3 % from memory, 7.4 % from the cache's disk, 33.3 % from the files", runs["rest"])
        epochs = [[r["validation_loss"] for r in records(self.folder / name, "epoch")] for name in runs]
        self.assertEqual(epochs[1:], [epochs[0]] * 2)

    def test_more_memory_than_the_node_has(self):
        done = self.train("--cache-memory", "1G", env=os.environ | {"SLURM_MEM_PER_NODE": "1"})
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(errors(done)), 1, done.stderr)
        self.assertRegex(errors(done)[0], "--cache-memory 1073741824: 1 rank of this node would keep 0.0022 GiB of samples, and "
                         r"0.000977 GiB of memory are free there \(SLURM_MEM_PER_NODE\)")

    def test_refusals(self):
        for options, says in ((("--cache-disk", "1M"), "--cache-disk without --cache-folder: name a folder"),
                              (("--cache-folder", "/tmp"), "--cache-folder /tmp without --cache-disk"),
                              (("--cache-memory", "1X"), "--cache-memory: found '1X', expected a size in bytes"),
                              (("--cache-disk", "1M", "--cache-folder", "/nowhere"), "/nowhere: no file for the cache can be made")):
            with self.subTest(says):
                done = self.train(*options)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(len(errors(done)), 1, done.stderr)
                self.assertIn(says, errors(done)[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
