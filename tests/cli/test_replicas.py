"""--spatial, --channel-parallel and --stages: ranks that share samples or layers train as one rank does."""

import json
import os
import re
import unittest

from killed_runs import ULFM, has_ulfm
from programs import Program, UniversesCase, arrays, needs_h5py, newest, numpy, records

COSMOFLOW, BENCH = Program("keelson-cosmoflow"), Program("keelson-bench")
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


class Replicas(UniversesCase):
    universes = (7, 4, 2)

    def train(self, name, *options, ranks):
        folder = self.folder / name
        text = self.succeed("train", "--data", self.data, "--out", folder, "--epochs", 2, "--lr", 0.001, "--log-every", 1,
                            *options, ranks=ranks, env=ONE_THREAD)
        return folder, text

    def assert_same_run(self, folder, other):
        for kind, value in (("step", "loss"), ("epoch", "metric")):
            mine, theirs = ([r[value] for r in records(f, kind)] for f in (folder, other))
            self.assertEqual(len(mine), len(theirs))
            for a, b in zip(mine, theirs):
                self.assertAlmostEqual(a, b, delta=1e-3 * abs(b))
        a, b = arrays(newest(folder)), arrays(newest(other))
        self.assertEqual(a.keys(), b.keys())
        for name, array in a.items():
            # Biases begin with zeros and have hardly moved: they are as exact as gradients, of which a max pooling that
            # takes another of two nearly equal values may move conv1's by 1 %.
            tolerance = 3e-2 if name.startswith("optimizer/") or name.endswith("/bias") else 1e-3
            self.assertLessEqual(numpy.abs(array - b[name]).max(), tolerance * numpy.abs(array).max(), name)

    @needs_h5py
    def test_parts_train_as_whole_samples_do(self):
        """With dropout, and a short last step."""
        whole, _ = self.train("whole", "--global-batch", 2, ranks=1)
        for option, grid in (("--spatial", "data 2 x space 2"), ("--channel-parallel", "data 2 x channel 2"),
                             ("--stages", "data 2 x stage 2")):
            with self.subTest(option):
                parts, text = self.train(option, "--global-batch", 2, option, 2, ranks=4)
                self.assertIn(f"batch 2 (4 ranks: {grid})", text)
                self.assertIn(grid, (parts / "report.html").read_text())
                self.assert_same_run(parts, whole)

    @needs_h5py
    def test_a_run_continues_on_another_grid(self):
        options = ("--global-batch", 2, "--max-steps", 6)
        whole, _ = self.train("whole", *options, ranks=1)
        for first, then in ((("--spatial", 4), ()), (("--spatial", 2), ("--spatial", 4)), (("--channel-parallel", 2), ("--parallel", "data 1 x channel 3")),
                            ((), ("--channel-parallel", 2)), (("--stages", 3), ("--spatial", 2)), ((), ("--stages", 2))):
            with self.subTest((first, then)):
                ranks = [int(str(option[-1]).split()[-1]) if option else 1 for option in (first, then)]
                parts, _ = self.train("parts", *options[:-1], 3, *first, "--overwrite", ranks=ranks[0])
                self.succeed("train", "--resume", parts, "--max-steps", 6, *then, ranks=ranks[1], env=ONE_THREAD)
                self.assert_same_run(parts, whole)
        results = [json.loads(self.succeed("evaluate", "--checkpoint", whole, "--data", self.data / "test", "--batch", 1, "--json",
                                           *options, ranks=ranks, env=ONE_THREAD))
                   for options, ranks in (((), 1), (("--spatial", 2), 2), (("--channel-parallel", 2), 2), (("--stages", 2), 2))]
        for result in results[1:]:
            self.assertAlmostEqual(result["loss"], results[0]["loss"], delta=1e-5)

    def test_refusals(self):
        train = ("train", "--data", self.data, "--out", self.out)
        for options, ranks, says in ((("--spatial", 2), 1, r"1 rank, but a replica has 2 \(--spatial 2\): start a multiple of 2 ranks"),
                                     (("--spatial", 2, "--channel-parallel", 2), 2, r"has 4 \(--spatial 2, --channel-parallel 2\)"),
                                     (("--spatial", 2, "--channel-parallel", 2), 4, "leave one of the two options out"),
                                     (("--channel-parallel", 0), 2, "--channel-parallel"),
                                     (("--stages", 0), 2, "--stages"),
                                     (("--stages", 2, "--spatial", 2), 4, "leave all but one of these options out"),
                                     (("--stages", 2, "--reproducible"), 2, "leave one of the two options out"),
                                     (("--stages", 2, "--shard-optimizer", "moments"), 2, "leave one of the two options out"),
                                     (("--stages", 2, "--sync", "lag"), 2, r"\(--stages 2\) with synchronization lag"),
                                     (("--channel-parallel", 2, "--reproducible"), 2, "leave one of the two options out"),
                                     (("--channel-parallel", 2, "--shard-optimizer", "moments"), 2, "leave one of the two options out"),
                                     (("--channel-parallel", 2, "--sync", "local:2"), 2, r"\(--channel-parallel 2\) with synchronization local"),
                                     (("--spatial", 0), 2, "--spatial"),
                                     (("--spatial", 2, "--global-batch", 7), 4, "7 .* among 2 replicas"),
                                     (("--spatial", 2, "--reproducible"), 2, r"\(--reproducible\) on 2 ranks to a replica"),
                                     (("--spatial", 2, "--sync", "lag"), 2, "with synchronization lag: only synchronous")):
            with self.subTest(options):
                self.refused(*train, *options, ranks=ranks, says=says)
        self.assertFalse(self.out.exists())

    def test_grids_by_name(self):
        """--parallel says in words what --spatial says in short, and auto chooses one of the grids."""
        for options, says in ((("--parallel", "data 2 x space 2"), "4 ranks: data 2 x space 2"),
                              (("--parallel", "space 4"), "4 ranks: data 1 x space 4"),
                              (("--spatial", "2x2"), "4 ranks: data 1 x space 2x2"),
                              (("--parallel", "data 2 x channel 2"), "4 ranks: data 2 x channel 2"),
                              (("--parallel", "data 2 x stage 2"), r"2 micro-batches; the stages but the first begin with \w+"),
                              (("--parallel", "auto"), r"process grids for 4 ranks and 4 samples a step:[\s\S]*chosen: data ")):
            with self.subTest(options):
                out = self.succeed("train", "--data", self.data, "--out", self.out, "--overwrite", "--global-batch", 4, "--max-steps", 1,
                                   *options, ranks=4, env=ONE_THREAD)
                self.assertRegex(out, says)
        for options, says in ((("--parallel", "data 2 x space 2", "--spatial", 2), "both say how ranks share samples"),
                              (("--parallel", "data 4 x space 2"), "is for 8 ranks, but there are 4"),
                              (("--parallel", "data 2 x ensemble 2"), "ensemble"),
                              (("--parallel", "rows 2"), "rows is no axis")):
            with self.subTest(options):
                self.refused("train", "--data", self.data, "--out", self.out / "none", *options, ranks=4, says=says)

    def test_stages_agree_on_what_they_measure(self):
        """The precision, and the layers with which stages begin; both are kept for the next start."""
        tuned = ONE_THREAD | {"KEELSON_TUNE": "on", "KEELSON_CACHE": str(self.folder / "choices")}
        found = [re.search("begin with .*", self.succeed("train", "--data", self.data, "--out", self.out, "--overwrite", "--batch", 2,
                                                         "--max-steps", 1, "--stages", 2, "--precision", "auto", ranks=2, env=tuned))[0]
                 for _ in range(2)]
        self.assertEqual(*found)
        self.assertTrue(list((self.folder / "choices").glob("stages-*")))

    def test_networks_without_parts(self):
        done = BENCH.run("step", "--net", "lstm-small", "--spatial", 2, ranks=2)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stderr, "cannot be cut into 2 parts along a spatial dimension")

    @unittest.skipUnless(has_ulfm(), "needs Open MPI with ULFM")
    def test_ranks_that_survive_losses_have_all_of_the_state(self):
        for options, says in ((("--spatial", 2, "--shard-optimizer", "moments"), "--shard-optimizer"),
                              (("--channel-parallel", 2), "--channel-parallel 2"), (("--stages", 2), "--stages 2")):
            with self.subTest(options):
                done = COSMOFLOW.run("train", "--data", self.data, "--out", self.out, *options, ranks=4, launcher=ULFM)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertRegex(done.stderr, rf"\({says}\) on 4 ranks that survive losses: .*without --with-ft ulfm")

    def test_steps_count_the_samples_of_replicas(self):
        done = BENCH.run("step", "--net", "mlperf", "--size", 32, "--batch", 2, "--steps", 1, "--warmup", 0, "--json", "--spatial", 2,
                         ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["grid"], "data 1 x space 2")
        self.assertAlmostEqual(found["samples_per_second"] * found["seconds_per_step"], 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
