"""keelson-climate as users start it: making snapshots, labelling them by heuristics, training, evaluating."""

import json
import os
import pathlib
import resource
import shutil
import signal
import tempfile
import time
import unittest

import programs
from programs import attributes, h5py, long_test, needs_h5py, numpy

CLIMATE = programs.Program("keelson-climate")
CHANNELS = "TMQ U850 V850 UBOT VBOT QREFHT PS PSL T200 T500 PRECT TS TREFHT Z1000 Z200 ZBOT".split()
SMALL = ("--height", 64, "--width", 96, "--cyclones", 4)


def contents(folder):
    folder = pathlib.Path(folder)
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


class Generate(programs.Case):
    program = CLIMATE

    def generate(self, out, *arguments, train=3, validation=2, test=1, **options):
        return self.succeed("generate", "--out", out, *SMALL, "--train", train, "--validation", validation, "--test", test,
                            *arguments, **options)

    def test_ranks_and_threads_make_the_same_files(self):
        self.generate(self.out)
        expected = contents(self.out)
        self.assertEqual(sorted(expected), ["stats.h5", "test/data-0000000.h5", *(f"train/data-000000{i}.h5" for i in range(3)),
                                            "validation/data-0000000.h5", "validation/data-0000001.h5"])
        for ranks, threads in ((1, 2), (2, 1), (4, 1)):  # of four ranks, one has nothing to do
            with self.subTest(ranks=ranks, threads=threads):
                out = self.folder / f"out{ranks}"
                text = self.generate(out, ranks=ranks, env={**os.environ, "KEELSON_THREADS": str(threads)})
                self.assertEqual(contents(out), expected)
                self.assertIn("6 snapshots of 64 x 96 points made, 0 were there already", text)
        other = self.folder / "other"
        self.generate(other, "--seed", 2)
        for name, content in contents(other).items():
            self.assertNotEqual(content, expected[name])

    @needs_h5py
    def test_layout(self):
        text = self.generate(self.out, ranks=2)
        pixels = numpy.zeros(3)
        arrays = []
        for path in sorted((self.out / "train").iterdir()):
            with h5py.File(path) as f:
                data, labels = f["climate/data"][()], f["climate/labels_0"][()]
                stats, label_stats = f["climate/data_stats"][()], f["climate/labels_0_stats"][()]
                self.assertEqual(sorted(f["climate"]), ["data", "data_stats", "labels_0", "labels_0_stats"])
            self.assertEqual((data.shape, data.dtype), ((64, 96, 16), numpy.float32))
            self.assertEqual((labels.shape, labels.dtype), ((64, 96), numpy.float32))
            self.assertTrue(set(numpy.unique(labels)) <= {0, 1, 2})
            self.assertEqual((stats.shape, stats.dtype), ((4, 16), numpy.float32))
            flat = data.reshape(-1, 16).astype(float)
            for row, expected in zip(stats, (flat.mean(0), flat.max(0), flat.min(0), flat.std(0))):
                numpy.testing.assert_allclose(row, expected, rtol=2e-5, atol=1e-5 * abs(flat).mean(0).min())
            shares = [(labels == k).mean() for k in range(3)]
            self.assertEqual(label_stats.shape, (7, 1))
            numpy.testing.assert_allclose(label_stats[:, 0], [labels.mean(), labels.max(), labels.min(), labels.std(), *shares], rtol=1e-5)
            self.assertEqual(list(attributes(path)["channel_names"]), CHANNELS)
            pixels += shares
            arrays.append(flat)
        flat = numpy.concatenate(arrays)
        with h5py.File(self.out / "stats.h5") as f:
            self.assertEqual(f["climate/count"][()], 3)
            table = f["climate/stats"][()]
            numpy.testing.assert_allclose(f["climate/mean"][()], flat.mean(0), rtol=1e-5, atol=1e-5 * abs(flat).mean(0).min())
            numpy.testing.assert_allclose(f["climate/sqmean"][()], (flat**2).mean(0), rtol=1e-5)
            numpy.testing.assert_array_equal(f["climate/minval"][()], flat.min(0).astype(numpy.float32))
            numpy.testing.assert_array_equal(f["climate/maxval"][()], flat.max(0).astype(numpy.float32))
            numpy.testing.assert_allclose(f.attrs["class_frequencies"], pixels / 3)
        self.assertEqual((table.shape, table.dtype), ((16, 4), numpy.float32))
        for column, expected in zip(table.T, (flat.mean(0), flat.max(0), flat.min(0), flat.std(0))):
            numpy.testing.assert_allclose(column, expected, rtol=2e-5, atol=1e-5 * abs(flat).mean(0).min())
        self.assertRegex(text, rf"training pixels: {100 * pixels[0] / 3:.3f} % background, .* tropical cyclones, .* atmospheric rivers")

    def test_the_same_command_makes_the_rest(self):
        self.generate(self.out)
        expected = contents(self.out)
        (self.out / "train/data-0000001.h5").unlink()
        (self.out / "stats.h5").unlink()
        text = self.generate(self.out, ranks=2)
        self.assertIn("1 snapshot of 64 x 96 points made, 5 were there already", text)
        self.assertEqual(contents(self.out), expected)

    def test_interrupted(self):
        arguments = ["generate", "--out", self.out, *SMALL, "--train", 100000, "--validation", 0, "--test", 0]
        job = CLIMATE.start(*arguments)
        while job.poll() is None and not (self.out / "train/data-0000000.h5").exists():
            time.sleep(0.005)
        job.send_signal(signal.SIGTERM)
        out, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 75, out + err)
        self.assertIn("the same command makes the missing files", out)
        self.assertFalse((self.out / "stats.h5").exists())
        self.assertFalse([p for p in self.out.rglob(".*")])

    def test_full_disk(self):
        def little_space():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, resource.RLIM_INFINITY))

        self.ends(1, "generate", "--out", self.out, *SMALL, says="data-0000000.h5", preexec_fn=little_space)
        self.assertEqual(contents(self.out), {})

    def test_refusals(self):
        out = ("--out", self.out)
        self.refused("generate", says="--out")
        self.refused("generate", *out, "--height", 32, "--width", 48, says="32 x 48 points.*expected at least 64 x 96.*Try --height 96")
        self.refused("generate", *out, "--height", 100000, "--width", 100000, says="at most 16384 x 16384")
        self.refused("generate", *out, "--train", 0, "--validation", 0, "--test", 0, says="no snapshots to make.*--train 100")
        self.refused("generate", *out, "--train", -1, says="--train")
        self.refused("generate", *out, "--train", 10**9, says="--train 1000000000: expected .* 0 to 10000000")
        self.refused("generate", *out, "--rivers", 1000, says="--rivers 1000: expected 0 to 100")
        self.refused("generate", *out, "--noise", 3, says="--noise 3: expected 0 to 1")
        self.refused("generate", *out, "--hight", 64, says="did you mean.*--height")
        self.refused("generate", *out, "--height", 64, "--width", 96, "--cyclones", "two", says="--cyclones")
        self.assertFalse(self.out.exists())
        self.refused("generate", *out, "--train", 10**6, "--height", 8192, "--width", 16384, says="need .* GB, but .* GB free; make fewer")
        self.refused("generate", "--out", "/proc/keelson", says="/proc")
        self.refused("generat", says="did you mean")

    def test_folders_that_hold_other_data(self):
        self.generate(self.out)
        before = contents(self.out)
        command = ["generate", "--out", self.out, *SMALL, "--validation", 2, "--test", 1]
        for ranks in (0, 2):
            self.refused(*command, "--train", 3, "--seed", 2, says="exists with other contents", ranks=ranks)
            self.refused(*command, "--train", 2, says=r"1 other file \(data-0000002.h5\) besides the 2 snapshots to make.*--overwrite", ranks=ranks)
        self.assertEqual(contents(self.out), before)
        self.generate(self.out, "--seed", 2, "--overwrite", train=2, ranks=2)
        fresh = self.folder / "fresh"
        self.generate(fresh, "--seed", 2, train=2)
        self.assertEqual(contents(self.out), contents(fresh))
        (self.folder / "file").write_text("")
        self.refused("generate", "--out", self.folder / "file", *SMALL, says="file")

    def test_help(self):
        text = self.succeed("generate", "--help")
        for option in ("--config", "--train", "--height", "--width", "--cyclones", "--rivers", "--noise", "--seed", "--overwrite"):
            self.assertIn(option, text)


class Label(programs.Case):
    program = CLIMATE

    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.succeed("generate", "--out", self.data, "--height", 96, "--width", 144, "--cyclones", 6, "--train", 4, "--validation", 0, "--test", 0)

    def test_any_number_of_ranks_agrees_with_the_truth_alike(self):
        expected = None
        for ranks in (0, 2, 3):
            out = self.folder / f"labels{ranks}"
            found = json.loads(self.succeed("label", "--data", self.data / "train", "--out", out, "--json", ranks=ranks))
            expected = expected or (found, contents(out))
            self.assertEqual((found, contents(out)), expected)
        found, files = expected
        self.assertEqual(sorted(files), [f"data-000000{i}.h5" for i in range(4)])
        self.assertGreater(found["cyclones"], 0)
        for labels in ("labels_0", "labels_1"):
            self.assertEqual(found[labels]["snapshots_with_truth"], 4)
            self.assertGreater(found[labels]["iou"]["background"], 0.9)
            self.assertGreater(found[labels]["iou"]["tropical cyclone"], 0.05)
            self.assertGreater(found[labels]["iou"]["atmospheric river"], 0.05)

    @needs_h5py
    def test_the_files_are_a_data_set(self):
        out = self.folder / "labels"
        text = self.succeed("label", "--data", self.data / "train", "--out", out, "--with-data")
        self.assertRegex(text, r"atmospheric river +0\.\d+ +0\.\d+")
        with h5py.File(out / "data-0000001.h5") as f, h5py.File(self.data / "train/data-0000001.h5") as truth:
            numpy.testing.assert_array_equal(f["climate/data"][()], truth["climate/data"][()])
            first, second = f["climate/labels_0"][()], f["climate/labels_1"][()]
            self.assertEqual((first.dtype, first.shape), (numpy.float32, (96, 144)))
            self.assertGreaterEqual((second == 1).sum(), 0)
            numpy.testing.assert_array_equal(first == 1, second == 1)  # the maps differ in rivers alone
        again = json.loads(self.succeed("label", "--data", out, "--json"))
        self.assertEqual(again["labels_0"]["mean_iou_per_image"], 1)
        self.assertLess(again["labels_1"]["mean_iou_per_image"], 1)

    def test_refusals(self):
        self.refused("label", says="give --data")
        self.refused("label", "--data", self.folder / "none", says="none")
        train = self.data / "train"
        self.refused("label", "--data", train, "--out", train, says="would replace the snapshot itself", ranks=2)
        out = self.folder / "labels"
        self.succeed("label", "--data", train, "--out", out)
        self.refused("label", "--data", train, "--out", out, says="exists.*--overwrite")
        self.succeed("label", "--data", train, "--out", out, "--overwrite")
        self.refused("label", "--data", self.data / "stats.h5", says="no snapshots")
        self.refused("label", "--data", train, "--truth", 2, says="--truth")


class Train(programs.Case):
    program = CLIMATE
    NET = ("--blocks", "1,1", "--growth", 4, "--first", 4, "--kernel", 3)

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="keelson-climate-"))
        cls.data = cls.shared / "data"
        done = CLIMATE.run("generate", "--out", cls.data, *SMALL, "--train", 4, "--validation", 2, "--test", 2)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def train(self, out, *arguments, **options):
        return self.succeed("train", "--data", self.data, "--out", out, *self.NET, "--optimizer", "adam", "--lr", 0.01, *arguments, **options)

    def test_both_recipes_train_and_evaluate(self):
        for ranks, arguments in ((0, ("--metric", "images", "--loss", "deepcam")), (2, ("--recipe", "sc18-tiramisu"))):
            with self.subTest(arguments=arguments):
                out = self.folder / f"run{ranks}"
                text = self.train(out, "--epochs", 3, *arguments, ranks=ranks)
                self.assertIn(f"statistics: {self.data}/stats.h5", text)
                self.assertIn("epoch 3/3", text)
                losses = [r["train_loss"] for r in programs.records(out, "epoch")]
                self.assertLess(losses[-1], losses[0])
                self.assertEqual(len(programs.records(out, "epoch")[-1]["target_errors"]), 3)
                for name in ("tropical cyclone", "atmospheric river", "mean IoU"):
                    self.assertTrue(name in (out / "report.html").read_text(), name)
                found = None
                for count in (0, 2):
                    got = json.loads(self.succeed("evaluate", "--checkpoint", out, "--data", self.data, "--heuristics", "--json", ranks=count))
                    got.pop("loss")  # threads cut sums
                    found = found or got
                    self.assertEqual(got, found)
                self.assertEqual(found["samples"], 2)
                self.assertEqual(sum(map(sum, found["confusion"])), 2 * 64 * 96)
                judge = "mean_iou_per_image" if ranks == 0 else "mean_iou_over_all_pixels"
                self.assertEqual(found["value"], found[judge])
                self.assertIn(judge, found["heuristics"])
                page = (out / "report.html").read_text()
                self.assertTrue("true class, by predicted class" in page)
                self.assertEqual(page.count("data:image/png;base64,"), 2 * 3)  # fields of two validation samples
                table = self.succeed("evaluate", "--checkpoint", out)
                self.assertIn("2 snapshots of 16x64x96", table)
                self.assertRegex(table, r"atmospheric river +[01]\.\d+ +[01]\.\d+\n")

    @long_test
    def test_the_other_networks(self):
        small = ("--width", 0.0625)
        for net, arguments in (("deepcam", ("--recipe", "deepcam-128", "--global-batch", 2, "--middle-blocks", 1, "--batch-norm-ranks", 0)),
                               ("deeplab", ("--recipe", "sc18-deeplab", "--decoder", "bilinear"))):
            with self.subTest(net=net):
                out = self.folder / net
                text = self.succeed("train", "--data", self.data, "--out", out, *small, *arguments, "--epochs", 2, ranks=2)
                self.assertIn(f"climate-{net}", text)
                found = json.loads(self.succeed("evaluate", "--checkpoint", out, "--json"))
                self.assertEqual(found["metric"], "mean IoU per image" if net == "deepcam" else "mean IoU over all pixels")
        self.refused("train", "--data", self.data, "--out", self.out, "--net", "deepcam", "--output-stride", 12, says="8 or 16")
        self.refused("train", "--data", self.data, "--out", self.out, "--net", "deeplab", "--resnet", 80, says="50 or 101")
        self.refused("train", "--data", self.data, "--out", self.out, "--recipe", "deepcam-128", ranks=3, says="global batch of 128 cannot be divided")

    @needs_h5py
    def test_a_run_continues_bit_for_bit(self):
        self.continues(lag=(*self.NET, "--recipe", "sc18-tiramisu"))

    @long_test
    @needs_h5py
    def test_other_runs_continue_bit_for_bit(self):
        self.continues(synchronous=(*self.NET, "--recipe", "sc18-tiramisu", "--sync", "synchronous"),
                       deepcam=("--recipe", "deepcam-128", "--global-batch", 2, "--width", 0.0625, "--middle-blocks", 1, "--target-iou", 0))

    def continues(self, **runs):
        for name, arguments in runs.items():
            with self.subTest(name):
                whole, half = self.folder / f"whole-{name}", self.folder / f"half-{name}"
                train = ("train", "--data", self.data, *arguments, "--epochs", 2)
                self.succeed(*train, "--out", whole, ranks=2)
                self.succeed(*train, "--out", half, "--max-steps", 3, ranks=2)
                (self.data / "stats.h5").rename(self.data / "stats.away")  # the run remembers what they were
                try:
                    self.succeed("train", "--resume", half, "--max-steps", -1, ranks=2)
                finally:
                    (self.data / "stats.away").rename(self.data / "stats.h5")
                got, expected = programs.arrays(programs.newest(half)), programs.arrays(programs.newest(whole))
                self.assertEqual(got.keys(), expected.keys())
                self.assertEqual(any("running_mean" in array for array in got), name == "deepcam")
                for array, value in expected.items():
                    if value.dtype.kind == "f" and value.size > 1:
                        numpy.testing.assert_array_equal(got[array], value, array)

    def test_the_target_ends_the_run(self):
        text = self.train(self.out, "--epochs", 9, "--metric", "images", "--target-iou", 0.1)
        self.assertIn("target reached after epoch 1", text)

    @needs_h5py
    def test_statistics_are_those_of_the_training_data_if_there_are_none(self):
        bare = self.folder / "bare"
        shutil.copytree(self.data / "train", bare / "train")
        measured = self.train(self.folder / "a", "--train", bare / "train", "--max-steps", 2, ranks=2)
        self.assertIn("statistics: the training data, read for it", measured)
        self.train(self.folder / "b", "--max-steps", 2, ranks=2)
        got, expected = (programs.arrays(programs.newest(self.folder / run)) for run in "ab")
        for name, value in expected.items():
            if name.startswith("parameters"):
                numpy.testing.assert_array_equal(got[name], value, name)

    def test_plot(self):
        page = self.folder / "maps.html"
        self.assertIn("maps.html", self.succeed("plot", "--data", self.data / "test", "--out", page, "--snapshots", 1))
        text = page.read_text()
        self.assertEqual(text.count("data:image/png;base64,"), 3)
        self.assertTrue("class='truth river'" in text)
        self.assertFalse("prediction of the network" in text)
        self.train(self.out, "--epochs", 2)
        self.succeed("plot", "--checkpoint", self.out, "--data", self.data / "test", "--out", page, ranks=2)
        text = page.read_text()
        self.assertEqual(text.count("data:image/png;base64,"), 2 * 3)
        for part in ("prediction of the network", "heuristics, per image", "true class, by predicted class", "Tiramisu, epoch "):
            self.assertTrue(part in text, part)
        self.assertFalse("<script" in text)
        self.refused("plot", "--out", page, says="give --data: .* or --checkpoint")
        self.refused("plot", "--data", self.data / "stats.h5", "--out", page, says="no snapshots")
        self.refused("plot", "--checkpoint", self.out, "--data", self.data / "test", "--out", page, says="start fewer ranks", ranks=3)

    def test_requirements(self):
        self.train(self.out, "--epochs", 1)
        evaluate = ("evaluate", "--checkpoint", self.out)
        self.succeed(*evaluate, "--require", 0.1)
        self.ends(1, *evaluate, "--require", 0.99, says="not good enough: the mean IoU .* is 0.*, expected at least 0.99")
        self.ends(1, *evaluate, "--require-margin", 0.9, says="not good enough: .* that of the heuristics")

    def test_refusals(self):
        out = ("--out", self.out)
        self.refused("train", *out, says="no training data: give --data")
        self.refused("train", *out, "--data", self.folder, says="expected a folder train in it")
        self.refused("train", *out, "--data", self.data, "--blocks", "1,1,1,1,1,1,1", says="64 x 96 points.*multiples of 64", ranks=2)
        self.refused("train", *out, "--data", self.data, "--channels", "0,16", says="channel 16: expected numbers from 0 to 15")
        self.refused("train", *out, "--data", self.data, "--labels", 1, says="has no labels 1")
        self.refused("train", *out, "--data", self.data, "--net", "unet", says="--net")
        self.refused("train", *out, "--data", self.data, "--stats", self.data / "train/data-0000000.h5", says="holds no statistics")
        self.refused("evaluate", "--checkpoint", self.folder / "none", says="none")
        self.assertFalse(self.out.exists())

    @needs_h5py
    def test_data_that_cannot_be_trained_on(self):
        def broken(name, change):
            folder = self.folder / name
            shutil.copytree(self.data, folder)
            path = folder / "train/data-0000002.h5"
            with h5py.File(path, "r+") as f:
                change(f)
            return ("train", "--out", self.out, "--data", folder, *self.NET, "--max-steps", 4), path

        def put(name, place, value):
            def change(f):
                f[name][place] = value
            return change

        def stats(f):
            with h5py.File(pathlib.Path(f.filename).parents[1] / "stats.h5", "w") as s:
                s["climate/stats"] = numpy.ones((8, 4), numpy.float32)

        def three_channels(f):
            data = f["climate/data"][()]
            del f["climate/data"]
            f["climate/data"] = data[:, :, :3]

        for ranks in (0, 2):
            command, path = broken(f"nan{ranks}", put("climate/data", (5, 7, 10), numpy.nan))
            self.refused(*command, says=rf"{path}: 'climate/data' holds nan at \(5, 7, 10\), in channel PRECT", ranks=ranks)
            self.refused(*command, "--check-data", says=rf"{path}: 'climate/data' holds nan", ranks=ranks)
        command, path = broken("label", put("climate/labels_0", (1, 2), 3))
        self.refused(*command, says=rf"{path}: 'climate/labels_0' holds 3 at \(1, 2\). Expected 0 .*, 1 .* or 2")
        command, path = broken("stats", stats)
        self.refused(*command, says="stats.h5: has statistics of 8 channels. Expected 16")
        command, path = broken("channels", three_channels)
        self.refused(*command, says=rf"{path}: 'climate/data' is float32 \(64, 96, 3\). Expected numbers of 16 channels")


if __name__ == "__main__":
    unittest.main(verbosity=2)
