"""Members that one rank trains together (train --members M --stack)."""

import json
import shutil
import signal
import time
import unittest

from lm_support import LM, SMALL, LmCase
from programs import Case, Program, arrays, needs_h5py, newest, records


class StackedMembers(LmCase):
    arguments = [*SMALL, "--batch", 4]

    def ensemble(self, *arguments, epochs=3, out=None, **options):
        return self.train(*self.arguments, "--epochs", epochs, *arguments, out=out, **options)

    def list(self, out=None):
        return json.loads(((out or self.out) / "ensemble.json").read_text())

    def beside(self, name):
        return self.out.parent / name

    def parameters(self, member, out=None):
        file = newest((out or self.out) / f"member-{member:03}")
        return {k: v.tobytes() for k, v in arrays(file).items() if k.startswith(("parameters", "optimizer"))}

    @needs_h5py
    def test_members_are_those_that_are_trained_one_after_the_other(self):
        """The same bits, checkpoints, metrics and scores: a language model reads its text in one order for all seeds."""
        text = self.ensemble("--members", 3, "--stack", "--dropout", 0.2)
        self.assertRegex(text, r"3 members together, \d+ parameters each")
        self.assertRegex(text, r"(?m)^epoch 3/3  3 members  mean train loss [\d.]+  mean validation loss [\d.]+  perplexity ")
        self.ensemble("--members", 3, "--dropout", 0.2, out=self.beside("turn"))
        self.ensemble("--members", 3, "--stack", "--dropout", 0.2, out=self.beside("ranks"), ranks=2)
        for m in range(3):
            mine = self.parameters(m)
            self.assertGreater(len(mine), 3)
            self.assertEqual(self.parameters(m, self.beside("turn")), mine)
            self.assertEqual(self.parameters(m, self.beside("ranks")), mine)
            keys = ("epoch", "step", "samples", "train_loss", "validation_loss", "metric", "learning_rate")
            told = [[r[k] for k in keys] for r in records(self.out / f"member-00{m}", "epoch")]
            alone = [[r[k] for k in keys] for r in records(self.beside("turn") / f"member-00{m}", "epoch")]
            self.assertEqual(len(told), 3)
            for a, b in zip(told, alone):
                for x, y in zip(a, b):
                    self.assertAlmostEqual(x, y, places=9)
            self.assertIn("perplexity", (self.out / f"member-00{m}" / "report.html").read_text())
        self.assertEqual(self.list()["members"], self.list(self.beside("turn"))["members"])
        self.assertTrue(self.list()["stacked"])
        scores = [self.evaluate(out, "--data", self.text)["scores"] for out in (self.out, self.beside("turn"))]
        self.assertEqual(*scores)
        self.assertEqual(self.succeed("sample", "--checkpoint", self.out / "member-001", "--tokens", 5),
                         self.succeed("sample", "--checkpoint", self.beside("turn") / "member-001", "--tokens", 5))

    @needs_h5py
    def test_members_of_different_design(self):
        file = self.beside("designs.json")
        file.write_text('[{"hidden": 8}, {"hidden": 16, "optimizer": "adam", "lr": 0.01, "epochs": 2}, {"bag": true}]')
        self.ensemble("--members-file", file, "--stack")
        self.ensemble("--members-file", file, out=self.beside("turn"))
        for m in range(3):
            self.assertEqual(self.parameters(m), self.parameters(m, self.beside("turn")))
        self.assertEqual([m["epochs"] for m in self.list()["members"]], [3, 2, 3])
        file.write_text('[{"batch": 4}, {"batch": 8}]')
        train = ["train", "--data", self.text, "--out", self.out, *self.arguments, "--overwrite"]
        self.refused(*train, "--members-file", file, "--stack", says="batches of 8 .* but of 4 .* leave --stack out")
        file.write_text('[{"unroll": 6}, {"unroll": 3}]')
        self.refused(*train, "--members-file", file, "--stack", says="other samples than those of the members before")

    @needs_h5py
    def test_a_signal_and_the_way_on(self):
        """The epoch that a signal cuts is done again; so are those that a killed run had not written of some members."""
        run = LM.start("train", "--data", self.text, "--out", self.out, *SMALL, "--batch", 4, "--members", 3, "--stack",
                       "--epochs", 100000)
        end = time.monotonic() + 60
        while not (self.out / "member-002" / "metrics.jsonl").exists() or len(records(self.out / "member-002", "epoch")) < 2:
            self.assertLess(time.monotonic(), end, "waited too long")
            self.assertIsNone(run.poll(), "the run ended")
            time.sleep(0.02)
        run.send_signal(signal.SIGUSR1)
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 75, out + err)
        self.assertIn(f"to continue: keelson-lm train --resume {self.out}", out)
        done = [m["epochs"] for m in self.list()["members"]]
        self.assertEqual([m["state"] for m in self.list()["members"]], ["interrupted"] * 3)
        self.assertEqual(len(set(done)), 1)
        checkpoints = sorted((self.out / "member-001/checkpoints").glob("step-*.h5"))
        if len(checkpoints) > 1:  # as if the run had been killed before it had written this one
            checkpoints[-1].unlink()
        shutil.rmtree(self.out / "member-002")  # as if it had not begun
        self.succeed("train", "--resume", self.out, "--epochs", done[0] + 1)
        self.ensemble("--members", 3, epochs=done[0] + 1, out=self.beside("whole"))
        for m in range(3):
            self.assertEqual(self.parameters(m), self.parameters(m, self.beside("whole")))
            self.assertEqual([r["epoch"] for r in records(self.out / f"member-00{m}", "epoch")], list(range(1, done[0] + 2)))

    def test_a_member_that_fails_leaves_the_others(self):
        file = self.beside("designs.json")
        file.write_text('[{}, {"lr": 1e38}, {}]')
        done = LM.run("train", "--data", self.text, "--out", self.out, *self.arguments, "--members-file", file, "--stack")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(LM.errors(done)[-1], r"member 1: the loss became .* in step \d+; the first value that is not finite")
        self.assertEqual([m["state"] for m in self.list()["members"]], ["all epochs done", "failed", "all epochs done"])

    def test_refusals(self):
        train = ["train", "--data", self.text, "--out", self.out, *self.arguments]
        self.refused(*train, "--stack", says="--stack without --members")
        together = [*train, "--members", 2, "--stack"]
        self.refused(*together, "--member-ranks", 2, ranks=2, says="--member-ranks 2 with --stack")
        self.refused(*together, ranks=3, says="3 ranks in groups of 1 for 2 members: .*; start at most 2 ranks$")
        for option in (["--max-steps", 3], ["--checkpoint-steps", 3], ["--recompute"], ["--apoptosis", "normal"],
                       ["--reproducible"], ["--micro-batches", 2]):
            self.refused(*together, *option, says=f"{option[0]} with --stack: .* leave one of them out")
        blueprint = self.beside("blueprint.toml")
        blueprint.write_text('epochs = [1]\n[widths]\n"*" = "2x"\n')
        self.refused(*together, "--grow", blueprint, says="--grow with --stack: .* leave one of them out")
        self.refused(*together, "--precision", "fp16", says="--precision fp16 with --stack: expected fp32 or bf16")


class StackedSnapshots(Case):
    program = Program("keelson-climate")

    def test_networks_with_convolutions(self):
        """Data that are read from files, augmented, and judged by predictions."""
        data = self.folder / "weather"
        self.succeed("generate", "--out", data, "--height", 64, "--width", 96, "--cyclones", 4, "--train", 4, "--validation", 2)
        net = ("--blocks", "1,1", "--growth", 4, "--first", 4, "--kernel", 3, "--epochs", 2)
        text = self.succeed("train", "--data", data, "--out", self.out, "--members", 3, "--stack", *net, ranks=2)
        self.assertIn("read once for all members", text)
        members = json.loads((self.out / "ensemble.json").read_text())["members"]
        self.assertEqual([m["state"] for m in members], ["all epochs done"] * 3)
        e = json.loads(self.succeed("evaluate", "--data", data / "validation", "--json", "--checkpoint", self.out))
        for m in range(3):
            self.assertAlmostEqual(e["scores"]["mean IoU per image"]["members"][m], members[m]["metric"], delta=2e-3)


if __name__ == "__main__":
    unittest.main()
