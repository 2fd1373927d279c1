"""keelson-bench compare: a machine's file from tiny runs, and the page of several."""

import html.parser
import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest

PROGRAM = os.path.join(os.environ["KEELSON_BIN"], "keelson-bench")
MPIEXEC = shlex.split(os.environ["KEELSON_MPIEXEC"])
TINY = ("--quick", "--nets", "mlperf", "--sizes", "32", "--precisions", "fp32")


def run(folder, *arguments, ranks=0):
    launcher = MPIEXEC + ["-n", str(ranks)] if ranks else []
    return subprocess.run(launcher + [PROGRAM, "compare"] + [str(a) for a in arguments], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120, env={**os.environ, "XDG_CACHE_HOME": folder})


class Page(html.parser.HTMLParser):
    """Refuses tags that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tables, self.plots = [], 0, 0
        self.feed(text)
        if self.open:
            raise ValueError("not closed: %s" % self.open)

    def handle_starttag(self, tag, attrs):
        self.tables += tag == "table"
        self.plots += tag == "svg"
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            raise ValueError("%s is not what is open" % tag)

    def handle_startendtag(self, tag, attrs):
        pass


class Compare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.powercap = cls.path("powercap")
        zone = os.path.join(cls.powercap, "intel-rapl:0")
        os.makedirs(zone)
        for name, text in (("name", "package-0"), ("energy_uj", "1000"), ("max_energy_range_uj", "1000000")):
            with open(os.path.join(zone, name), "w") as f:
                f.write(text + "\n")
        cls.files = {}
        for ranks in (1, 2):
            cls.files[ranks] = cls.path("machine%d.json" % ranks)
            powercap = cls.powercap if ranks == 1 else cls.path("absent")
            done = run(cls.folder, "--out", cls.files[ranks], *TINY, "--name", "node %d" % ranks, "--powercap", powercap,
                       ranks=0 if ranks == 1 else ranks)
            if done.returncode != 0:
                raise AssertionError(done.stdout + done.stderr)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def machine(self, ranks):
        with open(self.files[ranks]) as f:
            return json.load(f)

    def refuse(self, *arguments, ranks=0):
        done = run(self.folder, *arguments, ranks=ranks)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("keelson-bench: error: "), 1, done.stderr)
        return done.stderr

    def test_one_rank(self):
        m = self.machine(1)
        self.assertEqual((m["kind"], m["schema"], m["name"], m["ranks"]), ("keelson machine", 1, "node 1", 1))
        self.assertGreater(m["peaks"]["multiply_adds"], 0)
        self.assertGreater(m["peaks"]["products"]["fp32"], 0)
        step, = m["steps"]
        self.assertEqual((step["net"], step["size"], step["precision"]), ("mlperf", "32", "fp32"))
        f = step["figures"]
        self.assertAlmostEqual(f["samples_per_second"] * f["seconds"], step["batch"], 6)
        peak = max(m["peaks"]["multiply_adds"], m["peaks"]["products"]["fp32"])
        self.assertAlmostEqual(f["share_of_peak"], f["flops_per_second"] / peak, 6)
        self.assertIn("conv1", {c["node"] for c in f["calls"]})
        self.assertGreater(m["input"]["samples_per_second"], 0)
        self.assertIn("Processor", dict(m["facts"]))

    def test_one_rank_has_nobody_to_talk_to(self):
        m = self.machine(1)
        for section in ("collectives", "scaling"):
            self.assertIsNone(m[section]["value"])
            self.assertIn("mpirun", m[section]["reason"])

    def test_energy_is_that_of_the_counters(self):
        m = self.machine(1)
        if m["gpu"]:
            self.skipTest("a GPU has its own counter")
        self.assertEqual(m["energy"]["source"], "processors and memory (RAPL: package-0)")
        self.assertEqual(m["steps"][0]["figures"]["energy"]["joules_per_sample"], 0)  # the made-up counter stands still
        missing = self.machine(2)["steps"][0]["figures"]["energy"]
        self.assertIsNone(missing["value"])
        self.assertIn("there is no " + self.path("absent"), missing["reason"])

    def test_two_ranks(self):
        m = self.machine(2)
        self.assertEqual((m["ranks"], m["nodes"]), (2, 1))
        self.assertEqual([p["ranks"] for p in m["scaling"]["points"]], [1, 2])
        self.assertEqual(m["scaling"]["points"][0]["efficiency"], 1)
        one, two = m["scaling"]["points"]
        self.assertAlmostEqual(two["efficiency"], two["samples_per_second"] / (2 * one["samples_per_second"]), 6)
        self.assertEqual([s["bytes"] for s in m["collectives"]][:2], [4096, 16384])
        f = m["steps"][0]["figures"]
        self.assertAlmostEqual(f["samples_per_second"] * f["seconds"], 2 * m["steps"][0]["batch"], 6)

    def test_leaves_nothing_behind(self):
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith("keelson-universes")], [])

    def test_page(self):
        page = self.path("page.html")
        done = run(self.folder, *self.files.values(), "--html", page, "--samples", 1000)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(page, done.stdout)
        with open(page) as f:
            text = f.read()
        self.assertGreater(Page(text).plots, 10)
        self.assertGreater(Page(text).tables, 10)
        for word in ("node 1", "node 2", "published", "H100", "hpc_results_v3.0", "not measured: one rank", "mlperf 32^3"):
            self.assertIn(word, text)
        self.assertNotRegex(text, r"<script|src=|href='[^#]|url\(|>nan<|>inf<")
        ids = re.findall(r" id='([^']*)'", text)
        self.assertEqual(len(ids), len(set(ids)))

    def test_steps_that_would_take_too_long_are_left_out(self):
        file = self.path("limited.json")
        done = run(self.folder, "--out", file, *TINY, "--step-limit", "1e-6")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(file) as f:
            figures = json.load(f)["steps"][0]["figures"]
        self.assertIsNone(figures["value"])
        self.assertIn("--step-limit", figures["reason"])

    def test_refusals(self):
        self.assertIn("--out FILE to measure", self.refuse())
        self.assertIn("--html is missing", self.refuse(self.files[1]))
        self.assertIn("not both", self.refuse(self.files[1], "--out", self.path("x.json")))
        self.assertIn("no network 'none'", self.refuse("--out", self.path("x.json"), "--nets", "none"))
        self.assertIn("expected small, published, or 768x1152",
                      self.refuse("--out", self.path("x.json"), "--nets", "deepcam", "--sizes", "32"))
        self.assertIn("found 'fp8'", self.refuse("--out", self.path("x.json"), "--precisions", "fp8"))
        self.assertIn("there is no folder", self.refuse("--out", self.path("no/x.json")))
        self.assertIn("no such file", self.refuse(self.path("absent.json"), "--html", self.path("x.html")))
        self.assertIn("start it without mpirun", self.refuse(self.files[1], "--html", self.path("x.html"), ranks=2))
        newer = self.path("newer.json")
        with open(newer, "w") as f:
            json.dump({**self.machine(1), "schema": 2, "keelson": "9.0"}, f)
        message = self.refuse(newer, "--html", self.path("x.html"))
        self.assertIn("newer.json: written by a newer Keelson", message)
        self.assertIn("reads schemas up to 1", message)


if __name__ == "__main__":
    unittest.main(verbosity=2)
