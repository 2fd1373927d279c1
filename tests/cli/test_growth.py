"""train --grow from end to end: a network that gains units, goes on after a kill, on any number of ranks, and is evaluated
and exported."""

import os
import re
import unittest

from lm_support import LmCase
from programs import UniversesCase, arrays, needs_h5py, newest, numpy, records


def changes(folder):
    return [r for r in records(folder, "event") if r["event"] == "network change"]


class Growth(LmCase):
    def setUp(self):
        super().setUp()
        self.blueprint = self.write("blueprint.toml", 'epochs = [1, 3]\nrate = "lemon"\n[widths]\n"*" = ["0.5x", "2x"]\n')
        self.arguments = ["--data", self.text, "--hidden", 12, "--layers", 1, "--unroll", 10, "--batch", 8, "--lr", 0.5,
                          "--epochs", 5, "--log-every", 1, "--seed", 3, "--momentum", 0.5, "--schedule", "linear", "--grow", self.blueprint]

    @needs_h5py
    def test_grows_resumes_and_is_used(self):
        whole = self.folder / "whole"
        text = self.succeed("train", "--out", whole, *self.arguments)
        found = changes(whole)
        self.assertEqual([r["epoch"] for r in found], [1, 3])
        last = newest(whole)
        for r in found:
            self.assertIn(r["text"], text)
            before, after = map(int, re.search(r"parameters (\d+) -> (\d+)", r["text"]).groups())
            self.assertLess(before, after)
            self.assertEqual((r["before"]["parameters"], r["after"]["parameters"]), (before, after))
        self.assertEqual(after, sum(a.size for name, a in arrays(last).items() if name.startswith("parameters/")))
        self.assertEqual(found[0]["before"]["widths"]["embedding"], 6)
        report = (whole / "report.html").read_text()
        for title in ("Parameters", "Widths", "Time of a step"):
            self.assertIn(title, report)
        steps = {r["step"]: r for r in records(whole, "step")}
        # The linear decay begins again from the largest rate at each event.
        for r in found:
            self.assertEqual(steps[r["step"] + 1]["learning_rate"], 0.5)
            self.assertLess(steps[r["step"]]["learning_rate"], 0.5)

        os.remove(self.blueprint)  # it is in the checkpoints
        step = found[0]["step"]
        for end in (step, step + 3):  # just before the first event, and just after it
            with self.subTest(end):
                out = self.folder / f"cut{end}"
                self.write("blueprint.toml", 'epochs = [1, 3]\nrate = "lemon"\n[widths]\n"*" = ["0.5x", "2x"]\n')
                self.succeed("train", "--out", out, *self.arguments, "--max-steps", end)
                os.remove(self.blueprint)
                self.succeed("train", "--resume", out)
                for name, array in arrays(last).items():
                    if name.split("/")[0] in ("parameters", "optimizer"):
                        self.assertEqual(array.tobytes(), arrays(newest(out))[name].tobytes(), name)
        self.assertGreater(self.evaluate(whole, "--test", self.text / "ptb.test.txt")["perplexity"], 1)
        self.sample(whole, "--tokens", 3)
        self.succeed("export", "--checkpoint", whole, "--onnx", self.folder / "model.onnx")

    def test_refusals(self):
        def refused(text, says, *more):
            blueprint = self.write("bad.toml", text)
            self.refused("train", "--data", self.text, "--out", self.out, "--grow", blueprint, *more, says=says)
        refused('[widths]\n"*" = "2x"\n', "--grow with --apoptosis normal", "--apoptosis", "normal")
        refused('widhts = 3\n', "unknown key 'widhts'; expected one of epochs, factor")
        refused('factor = 1\n[widths]\n"*" = "2x"\n', "factor = 1: expected a number above 1")
        refused('[widths]\nlstm9 = 40\n', "bad.toml': the layer 'lstm9' cannot grow: the network has none")
        self.refused("train", "--data", self.text, "--out", self.out, "--grow", "nowhere.toml",
                     says="--grow nowhere.toml: cannot be read")


class GrowthOnRanks(UniversesCase):
    @needs_h5py
    def test_all_numbers_of_ranks_have_the_same_bits(self):
        blueprint = self.write("blueprint.toml", 'epochs = [1, 2]\n[widths]\n"*" = ["0.125x", "0.25x"]\n')
        runs = {}
        for ranks in (1, 2, 4):
            runs[ranks] = self.folder / str(ranks)
            self.succeed("train", "--data", self.data, "--out", runs[ranks], "--epochs", 3, "--global-batch", 4, "--grow",
                         blueprint, "--reproducible", ranks=ranks, env=os.environ | {"OMP_NUM_THREADS": "1"})
            self.assertEqual(len(changes(runs[ranks])), 2)
        for ranks in (2, 4):
            a, b = arrays(newest(runs[1])), arrays(newest(runs[ranks]))
            self.assertEqual(a.keys(), b.keys())
            for name, value in a.items():
                self.assertTrue(numpy.array_equal(value, b[name]), f"{ranks} ranks: {name}")


if __name__ == "__main__":
    unittest.main()
