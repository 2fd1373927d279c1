"""keelson-bench: what its subcommands print, and what they refuse."""

import json
import os
import re
import shlex
import subprocess
import tempfile
import time
import unittest
import unittest.mock

import numpy

PROGRAM = os.path.join(os.environ["KEELSON_BIN"], "keelson-bench")
MPIEXEC = shlex.split(os.environ["KEELSON_MPIEXEC"])


def run(*arguments, ranks=0, cache=None):
    launcher = MPIEXEC + ["-n", str(ranks)] if ranks else []
    environment = {**os.environ, "XDG_CACHE_HOME": Bench.folder, **({"KEELSON_CACHE": cache} if cache else {})}
    return subprocess.run(launcher + [PROGRAM] + [str(a) for a in arguments], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120, env=environment)


class Bench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def succeed(self, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_step_plan(self):
        text = self.succeed("step", "--size", 32, "--steps", 2, "--plan")
        self.assertRegex(text, r"conv5\s.*\d+\.\d{3}")
        self.assertRegex(text, r"machine's peaks: \S+ GFLOP/s .*, \S+ GB/s")
        self.assertRegex(text, r"GFLOP/s +of peak")
        self.assertRegex(text, r"conv5 +conv .* \d+\.\d %")
        self.assertRegex(text, r"between the steps the machine reached \S+ GFLOP/s \(\S+ to \S+\), \S+ GB/s "
                               r"\(\S+ to \S+\): \d+\.\d % at the means\n")
        self.assertRegex(text, r"arena \S+ MiB \(lower bound")
        self.assertRegex(text, r"median \S+ ms a step \(\S+ to \S+ over 2 steps, mean \S+\)")

    def test_step_json(self):
        for ranks in (0, 2):
            result = json.loads(self.succeed("step", "--size", 32, "--steps", 3, "--json", ranks=ranks))
            self.assertEqual(result["ranks"], ranks or 1)
            self.assertEqual(result["precision"], "fp32")
            self.assertLessEqual(result["seconds_fastest"], result["seconds_per_step"])
            self.assertLessEqual(result["seconds_fastest"], result["seconds_mean"])
            self.assertLessEqual(result["seconds_mean"], result["seconds_slowest"])
            self.assertAlmostEqual(result["samples_per_second"], (ranks or 1) / result["seconds_per_step"], 3)

    def test_convolutions_by_fewer_multiplications(self):
        options = ("step", "--size", 32, "--steps", 1, "--warmup", 0, "--plan")
        self.assertRegex(self.succeed(*options), r"conv2 +conv \+ max_pool .* winograd:\dx\dx\d \+ pooled tiles")
        self.assertNotIn("winograd", self.succeed(*options, "--exact-conv"))

    def test_convolutions_are_timed_once(self):
        environment = {"KEELSON_TUNE": "on", "KEELSON_CACHE": self.path("choices"), "KEELSON_VERBOSE": "1"}
        options = ("step", "--size", 32, "--steps", 1, "--warmup", 0, "--plan")
        with unittest.mock.patch.dict(os.environ, environment):
            first, second = run(*options), run(*options)
        for done in first, second:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(first.stderr, r"conv kernel 3x3x3 .*, 2 threads: .* is the fastest: .* ms")
        self.assertNotIn("is the fastest", second.stderr)
        self.assertEqual(*(re.findall(r"(conv\d) +conv.* (winograd:\S+|brg\w+|implicit_gemm)", done.stdout) for done in (first, second)))

    def test_inference_plan(self):
        text = self.succeed("step", "--inference", "--size", 32, "--steps", 2, "--plan")
        self.assertRegex(text, r"mlperf 32\^3, batch 1 a rank, fp32, inference")
        self.assertRegex(text, r"median \S+ ms a forward pass \(.* over 2 forward passes, mean \S+\), \S+ samples/s")
        self.assertNotRegex(text, r"(?m)^(backward|exchange|update) |dropout +(kokkos|onednn)|gradient buckets")

    def test_inference_json(self):
        step = ("step", "--size", 32, "--batch", 2, "--steps", 2, "--plan", "--json")
        for net in ("mlperf", "lstm-small"):
            arguments = step if net == "mlperf" else ("step", "--net", net, "--batch", 2, "--steps", 1, "--plan", "--json")
            for ranks in (0, 2) if net == "mlperf" else (0,):
                result = json.loads(self.succeed(*arguments, "--inference", ranks=ranks))
                self.assertTrue(result["inference"])
                self.assertEqual({r["phase"] for r in result["rows"]}, {"forward"})
                self.assertAlmostEqual(result["samples_per_second"], (ranks or 1) * 2 / result["seconds_per_step"], 3)
                self.assertNotIn("bucket_bytes", result)
        training = json.loads(self.succeed(*step))
        self.assertFalse(training["inference"])
        self.assertGreater(training["arena_bytes"], json.loads(self.succeed(*step, "--inference"))["arena_bytes"])

    def test_inference_roofline(self):
        page = self.path("inference.html")
        self.succeed("step", "--inference", "--size", 32, "--steps", 2, "--roofline", page)
        with open(page) as f:
            self.assertRegex(f.read(), r"<span>a forward pass, median</span>")

    def test_inference_writes_the_network(self):
        model = self.path("network.onnx")
        self.succeed("step", "--inference", "--size", 32, "--steps", 1, "--onnx", model)
        self.assertGreater(os.path.getsize(model), 4 * 2609508 - 1)  # all parameters
        self.succeed("step", "--inference", "--net", "lstm-small", "--steps", 1, "--onnx", model)
        self.assertGreater(os.path.getsize(model), 4 * 4651600 - 1)

    def test_inference_refuses_options_of_training(self):
        for option in ("--recompute", "--reproducible", "--bucket-mb=1", "--wire=fp32", "--progress=calls", "--shard-optimizer=moments"):
            with self.subTest(option):
                done = run("step", "--inference", "--size", 32, "--steps", 1, option)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn("leave %s out" % option.split("=")[0], done.stderr)

    def test_settings_of_the_optimizer(self):
        out = self.succeed("step", "--size", 32, "--steps", 2, "--warmup", 0, "--optimizer", "lion", "--optimizer-options", "beta2=0.9")
        self.assertIn("median", out)
        for options, words in ((["--optimizer", "lion", "--optimizer-options", "beta3=1"], "beta2"),
                               (["--optimizer-options", "beta2=0.9"], "name the optimizer with --optimizer")):
            done = run("step", "--size", 32, "--steps", 1, *options)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(words, done.stderr)

    def test_step_of_climate_networks(self):
        for net, size in (("deepcam", (32, 48)), ("deeplab-sc18", (16, 24)), ("tiramisu", (32, 48))):
            with self.subTest(net):
                result = json.loads(self.succeed("step", "--net", net, "--size", "%dx%d" % size, "--steps", 1, "--warmup", 1,
                                                 "--json"))
                self.assertEqual(result["size"], list(size))
                self.assertGreater(result["gflop_per_second"], 0)

    def test_step_json_has_the_calls_of_a_plan(self):
        result = json.loads(self.succeed("step", "--size", 32, "--steps", 2, "--plan", "--json"))
        peaks = result["peaks"]
        conv = next(r for r in result["rows"] if r["node"] == "conv2" and r["phase"] == "forward")
        seconds = conv["milliseconds"] * 1e-3
        self.assertAlmostEqual(conv["gflop_per_second"] * seconds, conv["gflop"], 5)
        self.assertLessEqual(conv["least_gflop"], conv["gflop"])
        self.assertLessEqual(conv["relative_error"], 3)
        share = max(conv["least_gflop"] / seconds * 1e9 / peaks["flops_per_second"],
                    conv["gigabytes_per_second"] * 1e9 / peaks["copy_bytes_per_second"])
        self.assertAlmostEqual(conv["share_of_peak"], share, 5)
        between = result["between_steps"]
        self.assertLessEqual(between["flops_per_second"], peaks["flops_per_second"])
        self.assertLessEqual(between["copy_bytes_per_second"], peaks["copy_bytes_per_second"])
        self.assertTrue(0 < between["share_of_peak"] <= 1, between)

    def test_peaks_are_kept(self):
        cache = self.path("another")
        step = ("step", "--size", 32, "--steps", 1, "--warmup", 0, "--plan")

        def peaks(*more):
            return json.loads(self.succeed(*step, *more, "--json", cache=cache))["peaks"]

        first = peaks()
        file = os.path.join(cache, "peaks.json")
        with open(file) as f:
            kept = json.load(f)
        self.assertEqual(list(kept.values()), [first])
        self.assertLess(abs(time.time() - first["measured"]), 600)
        key = next(iter(kept))

        def store(age, **changes):
            entry = {"flops_per_second": 1e9, "copy_bytes_per_second": 2e9, "measured": int(time.time()) - age, **changes}
            with open(file, "w") as f:
                json.dump({key: entry}, f)
            return entry

        hour = 3600
        known = store(3 * hour, flops_per_second=1e18, copy_bytes_per_second=2e18)
        self.assertEqual(peaks(), known)
        self.assertRegex(self.succeed(*step, cache=cache),
                         r"machine's peaks: 1000000000\.0 GFLOP/s .*, 2000000000\.0 GB/s .*; measured 3 hours ago\n")
        # The machine is measured between the steps, too, and larger values are kept.
        store(3 * hour, flops_per_second=1e18)
        raised = peaks()
        self.assertEqual(raised["flops_per_second"], 1e18)
        self.assertGreater(raised["copy_bytes_per_second"], 2e9)
        with open(file) as f:
            self.assertEqual(json.load(f)[key], raised)
        # What was measured long ago, or never, gives way to what is better now. What was better then stays.
        for old in {"age": 25 * hour}, {"age": 0, "measured": "once"}:
            store(flops_per_second=1e18, **old)
            found = peaks()
            self.assertEqual(found["flops_per_second"], 1e18)
            self.assertGreater(found["copy_bytes_per_second"], 2e9)
            self.assertLess(abs(time.time() - found["measured"]), 600)
        self.assertGreaterEqual(peaks()["copy_bytes_per_second"], found["copy_bytes_per_second"])
        self.assertLess(peaks("--remeasure")["flops_per_second"], 1e18)
        with open(file, "w") as f:
            f.write('{"%s": {"flops_per_second": "many"' % key)
        self.assertGreater(peaks()["flops_per_second"], 1e9)

    def test_cache_that_cannot_be_written_is_no_error(self):
        with open(self.path("file"), "w"):
            pass
        self.succeed("step", "--size", 32, "--steps", 1, "--plan", cache=self.path("file"))

    def test_roofline(self):
        page = self.path("roofline.html")
        self.assertIn(page, self.succeed("step", "--size", 32, "--steps", 2, "--roofline", page))
        with open(page) as f:
            html = f.read()
        self.assertIn("</html>", html)
        self.assertRegex(html, r"<circle [^>]*><title>[^<]*GFLOP/s[^<]*% of peak</title>")
        self.assertRegex(html, r"<td>conv1</td><td>conv \+ max_pool</td>")
        self.assertNotRegex(html, r"<script|src=|href=|nan|inf\b")

    def test_step_backend(self):
        result = json.loads(self.succeed("step", "--size", 32, "--steps", 1, "--backend", "kokkos", "--plan", "--json"))
        self.assertEqual({r["backend"] for r in result["rows"] if r["kernel"]}, {"kokkos"})
        self.assertRegex(result["device"], "backends kokkos$")

    def test_ops_side_by_side(self):
        text = self.succeed("ops", "conv", "src=1x4x8x8", "filters=8", "kernel=3", "padding=same", "--repeats", 2)
        for verb in ("forward", "backward data", "backward weights"):
            self.assertRegex(text, verb + r" +kokkos +\S+ .* %")
        self.assertIn("conv src=1x4x8x8 filters=8", text)

    def test_ops_file(self):
        file = self.path("problems.txt")
        with open(file, "w") as f:
            f.write("# all of them\nconv src=1x4x8x8x8 filters=8 kernel=3 stride=2 activation=relu bias=no\n"
                    "dense src=4x20 outputs=3\npool src=1x4x8x8 kernel=2\npool src=1x4x9 kernel=3 kind=average\n"
                    "eltwise kind=gelu shape=7x9\nupdate count=100\nupdate kind=adam count=33\n"
                    "product shape=7x9 count=3\ngroup_norm src=4x6\ngroup_norm src=2x6x3x3 groups=2\n"
                    "attention src=10x6 steps=5 heads=2 causal=yes\n")
        result = json.loads(self.succeed("ops", "--file", file, "--backend", "kokkos", "--repeats", 3, "--json"))
        verbs = [[r["verb"] for r in p["results"]] for p in result["problems"]]
        three, two = ["forward", "backward data", "backward weights"], ["forward", "backward"]
        norm = ["forward", "backward weights", "backward data"]
        self.assertIn(verbs[8], (two, norm))  # of rows: on CPUs in one pass
        self.assertEqual(verbs, [three, three, two, two, two, ["forward"], ["forward"],
                                 ["forward"], verbs[8], norm, two])
        for problem in result["problems"]:
            self.assertEqual(problem["declined"], [])
            for r in problem["results"]:
                self.assertLessEqual(r["seconds_fastest"], r["seconds"])
                self.assertAlmostEqual(r["gigabytes_per_second"] * r["seconds"] * 1e3 / r["megabytes"], 1, 6)

    def test_ops_refuse_with_the_line(self):
        file = self.path("wrong.txt")
        with open(file, "w") as f:
            f.write("dense src=4x20 outputs=3\n\nconv src=1x4x8 filters=8\n")
        done = run("ops", "--file", file)
        self.assertEqual(done.returncode, 2)
        self.assertIn("%s:3: conv: kernel= is missing" % file, done.stderr)

    def test_allreduce(self):
        for ranks in (0, 2):
            sizes = ("--min-bytes", "4K", "--max-bytes", "1M", "--repeats", 2)
            result = json.loads(self.succeed("allreduce", *sizes, "--json", ranks=ranks))
            self.assertEqual([s["bytes"] for s in result["sizes"]], [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20])
            n = ranks or 1
            for s in result["sizes"]:
                self.assertAlmostEqual(s["bus_gigabytes_per_second"],
                                       s["algorithm_gigabytes_per_second"] * 2 * (n - 1) / n, 6)
        self.assertRegex(self.succeed("allreduce", "--max-bytes", "4k", ranks=2), r"busbw GB/s +algorithm\n +4096 +1024 ")

    def make_universes(self):
        data = self.path("data")
        generate = [os.path.join(os.environ["KEELSON_BIN"], "keelson-cosmoflow"), "generate", "--out", data, "--size", "16",
                    "--particles", "1", "--order", "1", "--train", "5", "--validation", "1", "--test", "1"]
        subprocess.run(generate, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        return data

    def test_input(self):
        data = self.make_universes()
        for ranks in (0, 2):
            result = json.loads(self.succeed("input", "--data", data, "--epochs", 2, "--augment", "--loader-threads", 2,
                                             "--json", ranks=ranks))
            self.assertEqual([e["samples"] for e in result["epochs"]], [5, 5])
            self.assertGreater(result["open_seconds"], 0)
            self.assertEqual(result["shared_bytes"], 5 * (32 + 8 + len("univ_000000.h5") + 4 * 4))
            for epoch in result["epochs"]:
                self.assertEqual(len(epoch["ranks"]), ranks or 1)
                self.assertEqual(sum(r["samples"] for r in epoch["ranks"]), 5)
                self.assertAlmostEqual(epoch["megabytes_per_second"],
                                       epoch["samples_per_second"] * result["megabytes_per_sample"], 6)
        self.assertRegex(self.succeed("input", "--data", data), r"1 +all +5 ")

    def test_input_of_tables_and_arrays(self):
        table = self.path("table.csv")
        with open(table, "w", encoding="utf-8") as f:
            f.write("a,b,c\n" + "1,2.5,3\n" * 100)
        result = json.loads(self.succeed("input", "--data", table, "--table", "--batch", 10, "--epochs", 1, "--json"))
        self.assertEqual(result["table_bytes"], os.path.getsize(table))
        self.assertEqual(result["epochs"][0]["samples"], 100)
        self.assertAlmostEqual(result["megabytes_per_sample"], 12e-6, 12)
        self.assertRegex(self.succeed("input", "--data", table, "--table"), r"opened in .* s: 0.001 MB of files, .* MB/s")
        numpy.savez(self.path("arrays.npz"), fields=numpy.zeros((6, 4, 5, 3), "float32"))
        arrays = ("input", "--data", self.path("arrays.npz"), "--array", "fields")
        result = json.loads(self.succeed(*arrays, "--epochs", 1, "--json"))
        self.assertEqual(result["epochs"][0]["samples"], 6)
        self.assertAlmostEqual(result["megabytes_per_sample"], 240e-6, 12)
        self.assertNotIn("shared_bytes", result)
        done = run(*arrays, "--table")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected one of them", done.stderr)

    def test_input_for_an_emulated_accelerator(self):
        """Its time is that of the samples, whatever else the machine does."""
        milliseconds = 20
        result = json.loads(self.succeed("input", "--data", self.make_universes(), "--epochs", 2, "--accelerator-ms", milliseconds,
                                         "--json", ranks=2))
        for epoch in result["epochs"]:
            self.assertAlmostEqual(epoch["utilisation"], 5 * milliseconds * 1e-3 / (2 * epoch["seconds"]), 6)
            self.assertLess(epoch["utilisation"], 1)
            self.assertGreaterEqual(epoch["seconds"], 3 * milliseconds * 1e-3)  # one rank has three of the five samples

    def test_refusals(self):
        data = self.make_universes()
        for arguments in (("step", "--net", "none"), ("step", "--size", 20), ("step", "--steps", 0), ("jump",),
                          ("step", "--size", 32, "--backend", "none"), ("ops",),
                          ("ops", "conv", "src=1x2"), ("ops", "--file", self.path("absent")),
                          ("ops", "update", "count=4", "--backend", "none"),
                          ("allreduce", "--min-bytes", "2M", "--max-bytes", "1M"), ("allreduce", "--factor", 1),
                          ("step", "--size", "32x48"), ("step", "--size", "32x"), ("step", "--net", "tiramisu", "--size", 64),
                          ("step", "--net", "tiramisu", "--size", "60x96"), ("step", "--net", "lstm-small", "--size", 64),
                          ("step", "--size", 32, "--batch", 2**31), ("step", "--net", "lstm-small", "--batch", 2**31),
                          ("input", "--data", data, "--batch", 2**31), ("input",), ("input", "--data", self.path("absent"))):
            with self.subTest(arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertEqual(done.stderr.count("keelson-bench: error: "), 1, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
