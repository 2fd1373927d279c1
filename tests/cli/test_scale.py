"""keelson-bench scale and the simulation that it starts, against what can be worked out by hand."""

import json
import math
import os
import shlex
import subprocess
import tempfile
import unittest

BIN = os.environ["KEELSON_BIN"]
BENCH = os.path.join(BIN, "keelson-bench")
REPLAY = os.path.join(BIN, "keelson-scale-replay")
MPIEXEC = shlex.split(os.environ["KEELSON_MPIEXEC"])

MACHINE = {"name": "test", "title": "for tests", "most_ranks": 64, "ranks_per_node": 1, "nodes_per_group": 1000,
           "rank_bandwidth": 1e12, "rank_latency": 1e-6, "node_bandwidth": 1e9, "node_latency": 2e-6,
           "group_bandwidth": 1e15, "group_latency": 1e-6, "message_overhead": 0.5e-6, "sum_bandwidth": 4e9,
           "spare_core": True, "flops_per_second": 1e12, "imbalance": 0.0}
LATENCY = 2 * (1e-6 + 2e-6)  # between two nodes of a group
MB = 1 << 20


def exchange(**changes):
    return {"algorithm": "halving", "bucket_bytes": 0, "overlap": False, "compress": False, **changes}


def job(ranks, machine=None, buckets=((16 * MB, 0.05),), **changes):
    return {"machine": {**MACHINE, **(machine or {})}, "ranks": ranks, "steps": 1, "seed": 1, "forward": 0.03,
            "backward": 0.06, "update": 0.01, "buckets": [{"bytes": b, "ready": r} for b, r in buckets],
            "exchange": exchange(**changes)}


ALONE = 0.1


@unittest.skipUnless(os.path.exists(REPLAY), "built without SimGrid")
class Replay(unittest.TestCase):
    def simulate(self, *arguments, **options):
        done = subprocess.run([REPLAY], input=json.dumps(job(*arguments, **options)), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def exposed(self, *arguments, **options):
        return self.simulate(*arguments, **options)["step"] - ALONE

    def test_one_rank_exchanges_nothing(self):
        result = self.simulate(1)
        self.assertAlmostEqual(result["step"], ALONE, 9)
        self.assertEqual(result["messages"], 0)

    def test_ring_takes_what_the_formula_says(self):
        for n in (2, 5, 16):
            part = 16 * MB / n
            expected = 2 * (n - 1) * (LATENCY + part / 1e9 + 2 * 0.5e-6) + (n - 1) * part / 4e9
            self.assertAlmostEqual(self.exposed(n, algorithm="ring") / expected, 1, 3)

    def test_halving_takes_what_the_formula_says(self):
        for n in (2, 8, 16):
            rounds = math.log2(n)
            expected = 2 * rounds * (LATENCY + 2 * 0.5e-6) + (1 - 1 / n) * 16 * MB * (2 / 1e9 + 1 / 4e9)
            self.assertAlmostEqual(self.exposed(n) / expected, 1, 3)

    def test_two_level_takes_what_the_formula_says(self):
        # 2 nodes of 4 ranks: stripes of a quarter within the node, 2 rounds with halves of the stripe between nodes.
        machine = {"ranks_per_node": 4, "rank_bandwidth": 2e9}
        stripe = 16 * MB / 4
        inside, outside = 2e-6 + 1e-6, LATENCY + 1e-6
        expected = 6 * (inside + stripe / 2e9) + 3 * stripe / 4e9
        expected += 2 * (outside + stripe / 2 / (1e9 / 4)) + stripe / 2 / 4e9
        self.assertAlmostEqual(self.exposed(8, machine, algorithm="two-level") / expected, 1, 3)

    def test_all_bytes_are_counted(self):
        for n in (2, 3, 16):
            for algorithm in ("ring", "halving"):
                result = self.simulate(n, algorithm=algorithm)
                least = 2 * (n - 1) / n * 16 * MB
                if n == 3 and algorithm == "halving":  # one of three ranks acts for two: 1 + 2.5 + 1 arrays
                    least = 4.5 * 16 * MB / 3
                self.assertAlmostEqual(result["wire_bytes"] / least, 1, 5)
                self.assertAlmostEqual(self.simulate(n, algorithm=algorithm, compress=True)["wire_bytes"] / least, 0.5, 5)

    def test_a_fast_network_costs_nothing(self):
        fast = {"node_bandwidth": 1e15, "rank_bandwidth": 1e15, "sum_bandwidth": 1e15, "message_overhead": 0.0,
                "rank_latency": 0.0, "node_latency": 0.0, "group_latency": 0.0}
        for algorithm in ("ring", "halving", "two-level"):
            for overlap in (False, True):
                self.assertAlmostEqual(self.exposed(16, fast, algorithm=algorithm, overlap=overlap), 0, 6)

    def test_overlap_hides_what_fits_under_the_backward_pass(self):
        early, late = ((8 * MB, 0.01), (8 * MB, 0.02)), ((8 * MB, 0.01), (8 * MB, 0.06))
        self.assertGreater(self.exposed(2, buckets=early), 0.013)
        self.assertAlmostEqual(self.exposed(2, buckets=early, overlap=True), 0, 6)
        last = 8 * MB * (1 / 1e9 + 0.5 / 4e9) + 2 * (LATENCY + 1e-6)
        # The update of the bucket that has arrived (5 ms) is done meanwhile.
        self.assertAlmostEqual(self.exposed(2, buckets=late, overlap=True), last - 0.005, 5)

    def test_without_a_spare_core_the_exchange_takes_time_from_the_computation(self):
        sums = 16 * MB / 2 / 4e9
        options = {"buckets": ((16 * MB, 0.01),), "overlap": True}
        self.assertAlmostEqual(self.exposed(2, **options), 0, 6)
        self.assertAlmostEqual(self.exposed(2, {"spare_core": False}, **options), sums + 2 * 2 * 0.5e-6, 6)

    def test_all_wait_for_the_slowest(self):
        result = self.simulate(16, {"imbalance": 0.05})
        self.assertGreater(result["slowest"], 1.03 * ALONE)
        self.assertLess(result["slowest"], 1.25 * ALONE)
        self.assertGreater(result["step"], result["slowest"] + 0.02)

    def test_same_seed_same_result(self):
        results = [self.simulate(8, {"imbalance": 0.05}) for _ in range(2)]
        self.assertEqual(results[0]["step"], results[1]["step"])

    def test_groups_share_their_cables(self):
        groups = {"nodes_per_group": 4, "group_bandwidth": 1e9}  # a quarter of what the four nodes have
        n, part = 8, 16 * MB / 8
        inside = 2 * (n - 1) * (LATENCY + part / 1e9 + 2 * 0.5e-6) + (n - 1) * part / 4e9
        self.assertGreater(self.exposed(n, groups, algorithm="ring"), 3 * inside)


class Scale(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.profile = cls.path("profile.json")
        step = [BENCH, "step", "--size", "32", "--steps", "2", "--plan", "--json"]
        done = subprocess.run(step, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=True,
                              env={**os.environ, "XDG_CACHE_HOME": cls.folder})
        with open(cls.profile, "w") as f:
            f.write(done.stdout)
        cls.step = json.loads(done.stdout)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def run_scale(self, *arguments, launcher=()):
        return subprocess.run([*launcher, BENCH, "scale"] + [str(a) for a in arguments], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)

    def refused(self, *arguments, **options):
        done = self.run_scale(*arguments, **options)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        return done.stderr

    def test_profile_has_all_gradients(self):
        net = sum(r["gradient_bytes"] for r in self.step["rows"])
        self.assertEqual({r["phase"] for r in self.step["rows"] if r["gradient_bytes"]}, {"backward"})
        updated = sum(r["megabytes"] for r in self.step["rows"] if r["phase"] == "update") * 1e6
        self.assertGreater(updated, net)  # an update reads the gradient, and more

    def test_machines_can_be_printed_and_given_again(self):
        for name in ("cori", "summit", "cluster"):
            printed = self.run_scale("--machine", name, "--show-machine").stdout
            self.assertEqual(json.loads(printed)["name"], name)
            file = self.path(name + ".json")
            with open(file, "w") as f:
                f.write(printed)
            self.assertEqual(self.run_scale("--machine", file, "--show-machine").stdout, printed)

    def test_refusals(self):
        self.assertIn("not one of cori, summit, cluster", self.refused("--machine", "nowhere", "--show-machine"))
        self.assertIn("--profile is missing", self.refused())
        self.assertIn("without mpirun", self.refused("--profile", self.profile, launcher=MPIEXEC + ["-n", "2"]))

    @unittest.skipIf(os.path.exists(REPLAY), "built with SimGrid")
    def test_without_simgrid(self):
        self.assertIn("KEELSON_WITH_SIMGRID", self.refused("--profile", self.profile))

    @unittest.skipUnless(os.path.exists(REPLAY), "built without SimGrid")
    def test_table_and_page(self):
        page = self.path("scale.html")
        options = ("--profile", self.profile, "--ranks", "6,12", "--machine", "summit", "--step-ms", 100, "--strong", 12, "--html", page)
        result = json.loads(self.run_scale(*options, "--json").stdout)
        self.assertEqual([p["ranks"] for p in result["weak"]], [6, 12] * 5)
        for p in result["weak"]:
            self.assertAlmostEqual(p["efficiency"], p["seconds_alone"] / p["seconds_per_step"], 9)
        by_way = {p["exchange"]: p["efficiency"] for p in result["weak"] if p["ranks"] == 12}
        self.assertGreater(by_way["overlap"], by_way["blocking"])
        self.assertEqual([p["samples_per_rank"] for p in result["strong"]], [2, 1])
        with open(page) as f:
            html = f.read()
        self.assertIn("</html>", html)
        self.assertIn("Strong scaling", html)
        self.assertNotRegex(html, r"<script|src=|href=|nan|inf\b")
        text = self.run_scale(*options).stdout
        self.assertRegex(text, r"two-level +12 ")
        self.assertRegex(text, r"published +90\.7 % at 27360 ranks")

    @unittest.skipUnless(os.path.exists(REPLAY), "built without SimGrid")
    def test_compares_with_measured_sums(self):
        machine, file = self.path("two.json"), self.path("sums.json")
        with open(machine, "w") as f:
            json.dump(MACHINE, f)
        parts = 2 * (LATENCY + 1e-6) + 8 * MB * (2 / 1e9 + 1 / 4e9)
        sums = [{"bytes": 16 * MB, "algorithm": "halving", "seconds_fastest": parts / 2},
                {"bytes": 4, "algorithm": "mpi", "seconds_fastest": 1}]
        with open(file, "w") as f:
            json.dump({"ranks": 2, "sizes": sums}, f)
        (row,) = json.loads(self.run_scale("--machine", machine, "--compare", file, "--json").stdout)
        self.assertEqual((row["bytes"], row["algorithm"]), (16 * MB, "halving"))
        self.assertAlmostEqual(row["simulated"] / row["measured"], 2, 3)
        self.assertRegex(self.run_scale("--machine", machine, "--compare", file).stdout, r"\+100 %\nmedian error 100 %")
        with open(file, "w") as f:
            json.dump({"ranks": 2, "sizes": sums[1:]}, f)
        self.assertIn("no sum in it that can be simulated", self.refused("--machine", machine, "--compare", file))

    @unittest.skipUnless(os.path.exists(REPLAY), "built without SimGrid")
    def test_refusals_of_points(self):
        given = ("--profile", self.profile)
        self.assertIn("has 9688 ranks", self.refused(*given, "--ranks", 100000))
        self.assertIn("expected a multiple", self.refused(*given, "--machine", "summit", "--ranks", 7))
        self.assertIn("not one of blocking, buckets", self.refused(*given, "--exchange", "telepathy"))
        self.assertIn("no such file", self.refused("--profile", self.path("none")))
        with open(self.path("empty.json"), "w") as f:
            f.write("{}")
        self.assertIn("not what keelson-bench step", self.refused("--profile", self.path("empty.json")))


if __name__ == "__main__":
    unittest.main()
