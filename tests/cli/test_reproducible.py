"""--reproducible: the same bits for 1, 2 and 4 ranks, and what is not possible with it."""

import json
import os
import unittest

from programs import Program, UniversesCase, arrays, attributes, long_test, needs_h5py, newest, numpy, records

BENCH = Program("keelson-bench")
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


class Reproducible(UniversesCase):
    universes = (11, 6, 0)

    def train(self, name, *options, ranks, env=ONE_THREAD):
        """Two epochs, whose last steps have 3 samples."""
        folder = self.folder / name
        self.succeed("train", "--data", self.data, "--out", folder, "--epochs", 2, "--log-every", 1, "--dropout", 0.25,
                     "--augment", *options, ranks=ranks, env=env)
        return folder

    def results(self, folder):
        """Losses and metrics, without times."""
        steps = [(r["step"], r["loss"], r["learning_rate"]) for r in records(folder, "step")]
        epochs = [(r["train_loss"], r["validation_loss"], r["metric"]) for r in records(folder, "epoch")]
        return steps, epochs

    def assert_same_arrays(self, one, other):
        a, b = arrays(newest(one)), arrays(newest(other))
        self.assertEqual(a.keys(), b.keys())
        for name, value in a.items():
            self.assertTrue(numpy.array_equal(value, b[name]), name)

    @needs_h5py
    def test_all_numbers_of_ranks_have_the_same_bits(self):
        self.compare_ranks(4, "adam")

    @long_test
    @needs_h5py
    def test_the_same_with_another_batch_and_optimizer(self):
        self.compare_ranks(8, "sgd")

    def compare_ranks(self, batch, optimizer):
        options = ("--global-batch", batch, "--optimizer", optimizer, "--clip-norm", 0.5, "--reproducible")
        one = self.train("1", *options, ranks=1)
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                other = self.train(str(ranks), *options, ranks=ranks)
                self.assertEqual(self.results(other), self.results(one))
                self.assert_same_arrays(other, one)

    @needs_h5py
    def test_a_run_continues_with_another_number_of_ranks(self):
        options = ("--global-batch", 4, "--reproducible")
        whole = self.train("whole", *options, ranks=1)
        part = self.train("part", *options, "--max-steps", 4, ranks=2)
        self.assertEqual(attributes(newest(part))["config.threads"], "1")
        self.succeed("train", "--resume", part, "--max-steps", -1, ranks=4, env=ONE_THREAD)
        self.assert_same_arrays(part, whole)

    def test_threads_are_those_of_the_run_before(self):
        part = self.train("part", "--global-batch", 4, "--reproducible", "--max-steps", 1, ranks=1)
        self.refused("train", "--resume", part, "--max-steps", 2, env=os.environ | {"OMP_NUM_THREADS": "2"},
                     says="--reproducible and 1 threads per rank, but this rank has 2: set OMP_NUM_THREADS=1")

    def test_refusals(self):
        train = ("train", "--data", self.data, "--out", self.out, "--reproducible")
        for options, variables, ranks, says in (
                (("--global-batch", 6), {}, 2, "powers of two; found a batch of 3 on each of 2 ranks"),
                (("--global-batch", 6), {}, 3, "powers of two; found a batch of 2 on each of 3 ranks"),
                (("--global-batch", 4, "--wire", "bf16"), {}, 2, "are exchanged in fp32"),
                (("--global-batch", 4, "--precision", "auto"), {}, 2, "--precision auto"),
                (("--global-batch", 4, "--sync", "gossip"), {}, 2, "synchronization gossip with reproducible sums"),
                (("--global-batch", 4), {"KEELSON_ALLREDUCE": "ring"}, 2, "ring .*is not possible .*choose halving or")):
            with self.subTest(says):
                self.refused(*train, *options, ranks=ranks, says=says, env=ONE_THREAD | variables)

    def test_the_benchmark_says_what_it_costs(self):
        step = ("step", "--net", "mlperf", "--size", 32, "--batch", 2, "--steps", 2, "--warmup", 1, "--reproducible")
        done = BENCH.run(*step, "--json", ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertGreater(found["seconds_per_step_without"], 0)
        self.assertAlmostEqual(found["seconds_per_step"] / found["seconds_per_step_without"], found["cost"])
        done = BENCH.run(*step, ranks=1)
        self.assertRegex(done.stdout, r"reproducible: [0-9.]+ times a step without")


if __name__ == "__main__":
    unittest.main()
