"""--mlperf-log: the lines that MLPerf HPC's rules ask for."""

import unittest

import mlperf_rules
import programs

CLIMATE = programs.Program("keelson-climate")
COSMOFLOW = programs.Program("keelson-cosmoflow")
# As published, but for the size.
SGD = ("--lr", 0.001, "--momentum", 0.9, "--warmup-epochs", 1, "--warmup-from", 0.001, "--schedule", "steps", "--decay",
       "2:0.25,3:0.125", "--l2", 0.01, "--dropout", 0)


class CosmoFlow(programs.Case):
    program = COSMOFLOW

    def setUp(self):
        super().setUp()
        self.data, self.log = self.folder / "data", self.folder / "mlperf.log"
        self.succeed("generate", "--out", self.data, "--size", 32, "--particles", 1, "--order", 1, "--train", 8,
                     "--validation", 3, "--test", 1)

    def train(self, *arguments):
        return ("train", "--data", self.data, "--out", self.out, *SGD, "--mlperf-log", self.log, *arguments)

    def values(self, events, key):
        return [e["value"] for e in events if e["key"] == key]

    def test_closed_division(self):
        self.succeed(*self.train("--epochs", 9, "--target-mae", 9, "--mlperf-organization", "A University",
                                 "--mlperf-cache-cleared"), ranks=2)
        events = mlperf_rules.read(self.log)
        # The rules are met but for the error, which no network comes down to with so few universes.
        self.assertEqual(mlperf_rules.problems(events), ["eval_error never reaches the target"])
        said = {e["key"]: e["value"] for e in events}
        self.assertEqual(said["submission_org"], "A University")
        self.assertEqual((said["number_of_nodes"], said["accelerators_per_node"]), (1, 0))
        self.assertEqual((said["train_samples"], said["eval_samples"], said["global_batch_size"]), (8, 3, 2))
        self.assertEqual((said["opt_learning_rate_warmup_factor"], said["opt_weight_decay"]), (1.0, 0.01))
        self.assertEqual(said["opt_learning_rate_decay_boundary_epochs"], [2, 3])
        self.assertIs(said["cache_clear"], True)
        epochs = programs.records(self.out, "epoch")
        self.assertEqual(self.values(events, "eval_error"), [e["metric"] for e in epochs])
        stop = events[-1]
        self.assertEqual((stop["key"], stop["metadata"]["status"]), ("run_stop", "success"))

        # A checker that finds nothing would prove nothing.
        for i, e in enumerate(events):
            without = events[:i] + events[i + 1:]
            if e["key"] not in ("eval_error", "seed"):
                self.assertGreater(len(mlperf_rules.problems(without)), 1, e["key"])

    def test_a_run_that_falls_short(self):
        self.succeed(*self.train("--epochs", 2, "--optimizer", "adam", "--mlperf-division", "open"))
        events = mlperf_rules.read(self.log)
        self.assertEqual(mlperf_rules.problems(events), ["eval_error never reaches the target"])
        self.assertEqual(events[-1]["metadata"], {"epoch_num": 2, "step_num": 16, "status": "aborted"})
        self.assertEqual([e["metadata"] for e in events if e["key"] == "epoch_start"],
                         [{"epoch_num": 1, "step_num": 0}, {"epoch_num": 2, "step_num": 8}])

    def test_refusals(self):
        self.refused(*self.train("--optimizer", "adam"), says="cosmoflow ask for more: .*not adam; or give --mlperf-division open")
        self.refused(*self.train("--resume"), says="--mlperf-log with --resume")
        self.assertFalse(self.log.exists(), "a run that has not begun leaves no log")
        self.log.write_text("the log of another run")
        self.refused(*self.train(), says="mlperf.log: the file exists: give another name, or --overwrite")
        self.refused(*self.train("--overwrite", "--train", self.folder / "missing"), says="missing")
        self.assertEqual(self.log.read_text(), "the log of another run")
        self.log = self.folder / "nowhere" / "log"
        self.refused(*self.train(), says="log: there is no folder .*nowhere")


class DeepCam(programs.Case):
    program = CLIMATE

    def test_closed_division(self):
        data, log = self.folder / "data", self.folder / "mlperf.log"
        self.succeed("generate", "--out", data, "--height", 64, "--width", 96, "--cyclones", 4, "--train", 2,
                     "--validation", 1, "--test", 0)
        for schedule in ("deepcam-128", "deepcam-512"):  # cosine, milestones
            self.succeed("train", "--recipe", schedule, "--data", data, "--out", self.out, "--overwrite", "--width", 0.125,
                         "--middle-blocks", 1, "--global-batch", 1, "--epochs", 1, "--target-iou", 0.001, "--mlperf-log", log)
            events = mlperf_rules.read(log)
            self.assertEqual(mlperf_rules.problems(events),
                             ["train_samples is 2", "eval_samples is 1", "eval_accuracy never reaches the target"])
            said = {e["key"]: e["value"] for e in events}
            self.assertEqual((said["opt_name"], said["opt_betas"], said["opt_eps"]), ("LAMB", [0.9, 0.999], 1e-6))
        self.assertEqual((said["scheduler_milestones"], said["scheduler_decay_rate"]), ([2148, 4196], 0.1))
        self.assertEqual(said["scheduler_lr_warmup_steps"], 100)


if __name__ == "__main__":
    unittest.main()
