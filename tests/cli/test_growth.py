"""train --grow from end to end: a network that gains units, goes on after a kill, on any number of ranks, and is evaluated
and exported."""

import json
import os
import re
import time
import unittest

from lm_support import LmCase
from onnx_session import onnxruntime, open_session
from programs import UniversesCase, arrays, h5py, needs_h5py, newest, numpy, records


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
        refused('widhts = 3\n', "unknown key 'widhts'; expected one of epochs, events, factor")
        refused('factor = 1\n[widths]\n"*" = "2x"\n', "factor = 1: expected a number above 1")
        refused('[widths]\nlstm9 = 40\n', "bad.toml': the layer 'lstm9' cannot grow: the network has none")
        refused('[depth]\nlstm1 = 1\n', "bad.toml': no copies can follow the layer 'lstm1'.*this network has none")
        refused('parameters = 50\n[widths]\n"*" = "2x"\n', "parameters at first, but at most 50")
        self.refused("train", "--data", self.text, "--out", self.out, "--grow", "nowhere.toml",
                     says="--grow nowhere.toml: cannot be read")


class GrowthOnRanks(UniversesCase):
    @needs_h5py
    def test_all_numbers_of_ranks_have_the_same_bits(self):
        blueprint = self.write("blueprint.toml", 'epochs = [1, 2]\n[widths]\n"*" = ["0.125x", "0.125x"]\nconv1 = [4, 5]\n'
                                                 '[depth]\nconv5 = 1\ndense1 = 1\n')
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

    @needs_h5py
    def test_what_does_not_help_is_undone(self):
        blueprint = self.write("blueprint.toml", 'patience = 1\n[widths]\n"*" = ["0.0625x", "0.0625x"]\nconv1 = [2, 3]\n'
                                                 '[depth]\nconv4 = 1\ndense1 = 1\n')
        arguments = ["--data", self.data, "--epochs", 6, "--global-batch", 4, "--reproducible", "--optimizer", "adam",
                     "--lr", 1, "--grow", blueprint]  # tanh is 1 or -1 soon, and stays
        whole = self.folder / "whole"
        text = self.succeed("train", "--out", whole, *arguments, ranks=2)
        found = changes(whole)
        self.assertEqual([r["epoch"] for r in found], [2, 3, 3, 4, 4, 5])
        self.assertEqual([r["text"].startswith("growth undone: ") for r in found], [False, True] * 3)
        for r in found:
            self.assertIn(r["text"], text)
        self.assertRegex(found[0]["text"], r"^growth: conv1 2 -> 3 \(copy\); parameters \d+ -> \d+$")
        self.assertEqual({r["text"].split(";")[0] for r in found[2::2]}, {"growth: copy 1 of conv4", "growth: copy 1 of dense1"})
        for r in found[1::2]:
            self.assertEqual(r["after"], found[0]["before"])
        last = arrays(newest(whole))
        self.assertFalse([name for name in last if "+" in name or name.startswith("before")])
        for end in (5, 7):  # within a trial of units, and of a copy
            with self.subTest(end):
                out = self.folder / f"cut{end}"
                self.succeed("train", "--out", out, *arguments, "--max-steps", end)  # on one rank
                self.assertIn("before/parameters/conv1/weights", arrays(newest(out)))
                self.succeed("train", "--resume", out)
                again = arrays(newest(out))
                self.assertEqual(again.keys(), last.keys())
                for name, value in last.items():
                    if name != "texts/blueprint":
                        self.assertEqual(value.tobytes(), again[name].tobytes(), name)

    @needs_h5py
    def test_killed_around_an_undo_and_resumed(self):
        """Killed within the trial of an event, which the resumed run then undoes, and after its undo, within the next."""
        blueprint = self.write("blueprint.toml", 'patience = 1\nundo = 2\n[widths]\n"*" = ["0.0625x", "0.0625x"]\n'
                                                 'conv1 = [2, 3]\n[depth]\nconv4 = 1\n')
        arguments = ["--data", self.data, "--epochs", 8, "--batch", 4, "--reproducible", "--optimizer", "adam", "--lr", 1,
                     "--keep", 100, "--grow", blueprint]
        whole = self.folder / "whole"
        self.succeed("train", "--out", whole, *arguments)
        expected = changes(whole)
        self.assertEqual([r["epoch"] for r in expected], [2, 4, 4, 6])
        steps = [r["step"] for r in expected]
        for trial, first, end in ((0, steps[0] + 2, steps[1]), (1, steps[2] + 2, steps[3])):
            with self.subTest(trial):
                for _ in range(10):  # until a kill comes before the undo
                    out = self.folder / f"killed{trial}"
                    run = self.program.start("train", "--out", out, *arguments, "--overwrite")
                    checkpoint = out / "checkpoints" / f"step-{first:010}.h5"
                    while run.poll() is None and not checkpoint.exists():
                        time.sleep(0.002)
                    run.kill()
                    run.communicate()
                    last = int(newest(out).stem.split("-")[1])
                    if first <= last <= end:
                        break
                self.assertTrue(first <= last <= end, last)
                self.assertIn("before/parameters/conv1/weights", arrays(newest(out)))
                self.succeed("train", "--resume", out)
                self.assertEqual([(r["epoch"], r["text"]) for r in changes(out)], [(r["epoch"], r["text"]) for r in expected])
                again = arrays(newest(out))
                for name, value in arrays(newest(whole)).items():
                    self.assertEqual(value.tobytes(), again[name].tobytes(), name)

    @needs_h5py
    def test_deeper_networks_are_used(self):
        blueprint = self.write("blueprint.toml", 'epochs = [1]\nlayers = "all"\n[widths]\n"*" = ["0.0625x", "0.0625x"]\n'
                                                 '[depth]\nconv5 = [1, 2]\ndense1 = 1\n')
        self.succeed("train", "--data", self.data, "--epochs", 2, "--batch", 4, "--grow", blueprint, "--out", self.out)
        self.assertEqual(changes(self.out)[0]["text"].split(";")[0], "growth: copy 2 of conv5, copy 1 of dense1")
        names = arrays(newest(self.out)).keys()
        for name in ("conv5+1.in", "conv5+2.out", "dense1+1.in"):
            self.assertIn(f"parameters/{name}/weights", names)
        expected = json.loads(self.succeed("evaluate", "--checkpoint", newest(self.out), "--data", self.data / "validation", "--json"))
        path = self.folder / "model.onnx"
        self.succeed("export", "--checkpoint", newest(self.out), "--onnx", path)
        if not onnxruntime:
            return
        errors = []
        for file in sorted((self.data / "validation").iterdir()):
            with h5py.File(file) as f:
                x = numpy.log1p(f["x"][()].astype("f4").transpose(3, 0, 1, 2))[None]
                errors.append(abs(open_session(path).run(["prediction"], {"x": x})[0][0] - f["y"][()]))
        numpy.testing.assert_allclose(numpy.mean(errors, 0), [t["error"] for t in expected["targets"]], rtol=1e-4)


if __name__ == "__main__":
    unittest.main()
