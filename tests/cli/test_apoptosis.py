"""train --apoptosis from end to end: a network that loses units, goes on after a kill, and is evaluated and exported."""

import re
import signal
import subprocess
import time
import unittest

from lm_support import LmCase
from programs import arrays, long_test, needs_h5py, newest, records


class Apoptosis(LmCase):
    def setUp(self):
        super().setUp()
        # 25 steps an epoch; of the 24 features of each word many have hardly an effect at first
        self.arguments = ["--data", self.text, "--hidden", 24, "--layers", 1, "--unroll", 10, "--batch", 8, "--lr", 0.5,
                          "--epochs", 6, "--log-every", 1, "--seed", 3, "--apoptosis", "aggressive"]

    def changes(self, folder):
        return [r for r in records(folder, "event") if r["event"] == "network change"]

    @needs_h5py
    def test_shrinks_resumes_and_is_used(self):
        whole = self.folder / "whole"
        text = self.succeed("train", "--out", whole, *self.arguments)
        changes = self.changes(whole)
        self.assertTrue(changes)
        last = newest(whole)
        for r in changes:
            self.assertIn(r["text"], text)
            before, after = map(int, re.search(r"parameters (\d+) -> (\d+)", r["text"]).groups())
            self.assertLess(after, before)
        self.assertEqual(after, sum(a.size for name, a in arrays(last).items() if name.startswith("parameters/")))
        self.assertTrue([r for r in records(whole, "event") if r["event"] == "step time"])

        step = changes[0]["step"]
        for end in (step, step + 3):  # just before the first event, and just after it
            with self.subTest(end):
                out = self.folder / f"cut{end}"
                self.succeed("train", "--out", out, *self.arguments, "--max-steps", end)
                self.succeed("train", "--resume", out)
                for name, array in arrays(last).items():
                    if name.split("/")[0] in ("parameters", "optimizer"):
                        self.assertEqual(array.tobytes(), arrays(newest(out))[name].tobytes(), name)
        found = self.evaluate(whole, "--test", self.text / "ptb.test.txt")
        self.assertGreater(found["perplexity"], 1)
        self.sample(whole, "--tokens", 3)
        self.succeed("export", "--checkpoint", whole, "--onnx", self.folder / "model.onnx")

    @long_test
    @needs_h5py
    def test_killed_around_an_event_and_resumed(self):
        """As soon as the checkpoint before the first event is there, and a little later: some of the kills come while
        units are chosen."""
        arguments = list(self.arguments)
        for option, value in (("--hidden", 96), ("--epochs", 4)):
            arguments[arguments.index(option) + 1] = value
        whole, out = self.folder / "whole", self.folder / "killed"
        self.succeed("train", "--out", whole, *arguments)
        event = self.changes(whole)[0]["step"]
        for later in (0, 0.02, 0.05, 0.1, 0.2, 0.4):
            with self.subTest(later):
                run = subprocess.Popen(self.program.command(0, "train", "--out", out, *arguments, "--overwrite"),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.addCleanup(run.kill)
                checkpoint = out / "checkpoints" / f"step-{event:010}.h5"
                while run.poll() is None and not checkpoint.exists():
                    time.sleep(0.002)
                time.sleep(later)
                run.send_signal(signal.SIGKILL)
                run.wait()
                self.succeed("train", "--resume", out)
                self.assertEqual(self.changes(out)[-1]["text"], self.changes(whole)[-1]["text"])
                for name, array in arrays(newest(whole)).items():
                    if name.split("/")[0] in ("parameters", "optimizer"):
                        self.assertEqual(array.tobytes(), arrays(newest(out))[name].tobytes(), name)

    def test_refusals(self):
        self.refused("train", "--data", self.text, "--out", self.out, "--apoptosis", "slow",
                     says="expected one of off, conservative, normal, aggressive")


if __name__ == "__main__":
    unittest.main()
