"""keelson-bench scale and the simulation that it starts, against what can be worked out by hand."""

import json
import math
import os
import shlex
import subprocess
import tempfile
import unittest

from programs import long_test

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
    return {"algorithm": "halving", "bucket_bytes": 0, "overlap": False, "compress": False, "hide_rows": False,
            "copies": False, **changes}


def program(events, buckets=(), update=0.0):
    return {"events": events, "buckets": list(buckets), "update": update}


def grid_job(ranks, programs, machine=None, stages=1, **changes):
    return {"machine": {**MACHINE, **(machine or {})}, "ranks": ranks, "steps": 1, "seed": 1, "stages": stages,
            "programs": programs, "exchange": exchange(**changes)}


def job(ranks, machine=None, buckets=((16 * MB, 0.05),), **changes):
    """30 ms forward, 60 ms backward, in which buckets are ready, and 10 ms of update."""
    events, done = [["compute", 0.03]], 0
    for number, (_, ready) in enumerate(buckets):
        events += [["compute", ready - done], ["bucket", number]]
        done = ready
    events += [["compute", 0.06 - done]]
    return grid_job(ranks, [program(events, [b for b, _ in buckets], 0.01)], machine, **changes)


ALONE = 0.1


@unittest.skipUnless(os.path.exists(REPLAY), "built without SimGrid")
class Replay(unittest.TestCase):
    def simulate(self, *arguments, **options):
        return self.replay(job(*arguments, **options))

    def replay(self, described):
        done = subprocess.run([REPLAY], input=json.dumps(described), text=True,
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


    def test_rows_travel_between_neighbours(self):
        # Two replicas of two ranks. A message of 1 MB takes 1 ms and a latency, beside 0.4 ms of computation.
        rows = [["compute", 0.01], ["receive", 1, 1000000], ["send", 1, 1000000], ["compute", 4e-4], ["wait", 0],
                ["wait", 1], ["busy", 1e-4]]
        back = [[e[0], -1, e[2]] if e[0] in ("receive", "send") else e for e in rows]
        result = self.replay(grid_job(4, [program(rows), program(back)]))
        self.assertAlmostEqual(result["step"], 0.01 + 1e-3 + LATENCY + 1e-4, 6)
        self.assertAlmostEqual(result["slowest"], 0.0104, 9)
        self.assertEqual((result["messages"], result["wire_bytes"]), (1, 1e6))

    def stages(self, times, micro_batches):
        """1F1B with forward and backward passes of these lengths by stage, over a network that costs nothing."""
        fast = {"node_bandwidth": 1e15, "rank_bandwidth": 1e15, "rank_latency": 0.0, "node_latency": 0.0,
                "group_latency": 0.0, "message_overhead": 0.0}
        programs, count = [], len(times)
        for stage, (forward, backward) in enumerate(times):
            events, values, gradients = [], [], []
            for _ in range(micro_batches):
                for peer, numbers in ((-1, values), (1, gradients)):
                    if 0 <= stage + peer < count:
                        numbers.append(len([e for e in events if e[0] == "receive"]))
                        events.append(["receive", peer, 4])

            def one(seconds, numbers, peer):
                if numbers:
                    events.append(["wait", numbers.pop(0)])
                events.append(["compute", seconds])
                if 0 <= stage + peer < count:
                    events.append(["send", peer, 4])

            ahead = min(micro_batches, count - stage - 1)
            for _ in range(ahead):
                one(forward, values, 1)
            for _ in range(micro_batches - ahead):
                one(forward, values, 1)
                one(backward, gradients, -1)
            for _ in range(ahead):
                one(backward, gradients, -1)
            programs.append(program(events))
        return self.replay(grid_job(count, programs, fast, stages=count))["step"]

    def test_equal_stages_take_what_the_formula_says(self):
        for count, micro_batches in ((1, 4), (2, 1), (2, 8), (4, 4), (4, 16)):
            expected = (micro_batches + count - 1) * (0.01 + 0.02)
            self.assertAlmostEqual(self.stages([(0.01, 0.02)] * count, micro_batches), expected, 8)

    def test_uneven_stages_wait_for_the_longest(self):
        # The second stage works without a pause from its first value on: 10 + 8 * (20 + 40), and the last gradient's 20.
        self.assertAlmostEqual(self.stages([(0.01, 0.02), (0.02, 0.04)], 8), 0.51, 8)
        # The first stage is the long one: 8 * 60, and at the end the short stage's turn, 10 + 20, lies between.
        self.assertAlmostEqual(self.stages([(0.02, 0.04), (0.01, 0.02)], 1), 0.09, 8)

    def test_stages_sum_their_own_gradients(self):
        events = [["compute", 0.01], ["bucket", 0]]
        result = self.replay(grid_job(8, [program(events, [16 * MB]), program(events, [4 * MB])], stages=2))
        self.assertAlmostEqual(result["wire_bytes"] / (2 * (1 - 1 / 4) * 10 * MB), 1, 5)
        self.assertEqual(result["messages"], 4)

    def test_copies_take_time_from_one_core(self):
        machine = {"gradient_copies": 3.0}
        self.assertAlmostEqual(self.exposed(8, machine, copies=True) - self.exposed(8, machine), 3 * 16 * MB / 4e9, 6)


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
        for name in ("cori", "summit", "fugaku", "cluster"):
            printed = self.run_scale("--machine", name, "--show-machine").stdout
            self.assertEqual(json.loads(printed)["name"], name)
            file = self.path(name + ".json")
            with open(file, "w") as f:
                f.write(printed)
            self.assertEqual(self.run_scale("--machine", file, "--show-machine").stdout, printed)

    def test_refusals(self):
        self.assertIn("not one of cori, summit, fugaku, cluster", self.refused("--machine", "nowhere", "--show-machine"))
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
        self.assertEqual([p["samples_per_replica"] for p in result["strong"]], [2, 1])
        with open(page) as f:
            html = f.read()
        self.assertIn("</html>", html)
        self.assertIn("Strong scaling", html)
        self.assertNotRegex(html, r"<script|src=|href=|nan|inf\b")
        text = self.run_scale(*options).stdout
        self.assertRegex(text, r"two-level +data 12 +12 ")
        self.assertRegex(text, r"published +90\.7 % at 27360 ranks")

    @unittest.skipUnless(os.path.exists(REPLAY), "built without SimGrid")
    def test_lines_and_table_name_the_grid(self):
        options = ("--profile", self.profile, "--step-ms", 100, "--machine", "cluster", "--exchange", "overlap,hidden")
        text = self.run_scale(*options, "--ranks", "8,16", "--spatial", "2x2").stdout
        self.assertIn("grid data 2 x space 2x2: 2 replicas of 4 ranks, 1 micro-batch a step", text)
        self.assertRegex(text, r"a rank computes [\d.]+( to [\d.]+)? ms, sends [\d.]+ MB in \d+ messages within")
        self.assertRegex(text, r"overlap +data 4 x space 2x2 +16 ")
        self.assertRegex(text, r"hidden +data 2 x space 2x2 +8 ")
        options += ("--parallel", "data 2 x space 2 x stage 2", "--samples", 4, "--micro-batches", 4)
        result = json.loads(self.run_scale(*options, "--json").stdout)
        self.assertEqual({p["grid"] for p in result["weak"]}, {"data 2 x space 2 x stage 2"})
        for p in result["weak"]:
            self.assertEqual(p["ranks"], 8)
            self.assertLess(p["seconds_computing"], p["seconds_alone"] / 2)
            self.assertAlmostEqual(p["efficiency"], p["seconds_alone"] / p["seconds_per_step"] / 4, 9)

    @unittest.skipUnless(os.path.exists(REPLAY), "built without SimGrid")
    @long_test
    def test_fugaku_from_one_description(self):
        """MLPerf HPC v0.7: 249 ms a step of 512 nodes, 93.8 ms with samples in 4x4 parts, 120.5 ms with 4 parts."""
        profile = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mlperf_v0_7_step.json")

        def step(alone, *grid):
            done = self.run_scale("--machine", "fugaku", "--profile", profile, "--step-ms", alone, "--exchange", "copied",
                                  "--steps", 1, "--json", *grid)
            self.assertEqual(done.returncode, 0, done.stderr)
            return 1e3 * json.loads(done.stdout)["weak"][0]["seconds_per_step"]

        alone = 200.0
        for _ in range(3):
            alone += 249 - step(alone, "--ranks", 512)
        self.assertAlmostEqual(step(alone, "--parallel", "data 512 x space 4x4") / 93.8, 1, delta=0.25)
        self.assertAlmostEqual(step(alone, "--parallel", "data 4096 x space 4") / 120.5, 1, delta=0.25)

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
        self.assertIn("takes multiples of 4: give --ranks 8", self.refused(*given, "--ranks", 6, "--spatial", 4))
        self.assertIn("has 32 rows", self.refused(*given, "--ranks", 64, "--spatial", 64))
        self.assertIn("give fewer", self.refused(*given, "--ranks", 99, "--stages", 99))
        self.assertIn("1 sample in a step", self.refused(*given, "--ranks", 2, "--micro-batches", 2))
        self.assertIn("planet is no axis", self.refused(*given, "--parallel", "planet 2"))
        self.assertIn("give one of them", self.refused(*given, "--parallel", "data 2", "--spatial", 2))
        self.assertIn("no such file", self.refused("--profile", self.path("none")))
        with open(self.path("empty.json"), "w") as f:
            f.write("{}")
        self.assertIn("not what keelson-bench step", self.refused("--profile", self.path("empty.json")))


if __name__ == "__main__":
    unittest.main()
