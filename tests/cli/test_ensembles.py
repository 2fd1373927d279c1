"""Ensembles: members in groups of ranks, their folders, and how an ensemble goes on."""

import json
import shutil
import signal
import time
import unittest

from lm_support import LM, SMALL, LmCase
from programs import arrays, needs_h5py, newest, records


class Members(LmCase):
    arguments = [*SMALL, "--batch", 4, "--epochs", 2]

    def ensemble(self, members, *arguments, out=None, ranks=2, **options):
        return self.train(*self.arguments, "--members", members, *arguments, out=out, ranks=ranks, **options)

    def list(self, out=None):
        return json.loads(((out or self.out) / "ensemble.json").read_text())

    def beside(self, name):
        return self.out.parent / name

    def member(self, member, out=None):
        return (out or self.out) / f"member-{member:03}"

    def parameters(self, folder):
        return {k: v.tobytes() for k, v in arrays(newest(folder)).items() if k.startswith(("parameters", "moments"))}

    @needs_h5py
    def test_members_are_runs_of_their_own(self):
        """The same bits for any number of groups, and as a run alone with the seed of the list."""
        text = self.ensemble(3)
        self.assertRegex(text, r"3 members, seed 1: 2 groups of 1 rank")
        for member in range(3):
            self.assertEqual(text.count(f"member {member}: epoch "), 2, text)
            self.assertRegex(text, rf"(?m)^member {member}: all epochs done after epoch 2, step ")
        self.assertEqual(text.count("training data:"), 1, text)
        found = self.list()
        self.assertEqual([m["state"] for m in found["members"]], ["all epochs done"] * 3)
        seeds = [m["seed"] for m in found["members"]]
        self.assertEqual(len(set(seeds)), 3)
        mine = [self.parameters(self.member(m)) for m in range(3)]
        self.assertNotEqual(mine[0], mine[1])
        self.ensemble(3, out=self.beside("one"), ranks=0)
        self.train(*self.arguments, "--seed", seeds[1], out=self.beside("alone"))
        self.assertEqual([self.parameters(self.member(m, self.beside("one"))) for m in range(3)], mine)
        self.assertEqual(self.parameters(self.beside("alone")), mine[1])
        best = min(r["metric"] for r in records(self.member(1), "epoch"))
        self.assertAlmostEqual(found["members"][1]["metric"], best, places=6)
        self.assertEqual(found["metric"], "perplexity")

    @needs_h5py
    def test_members_of_two_ranks(self):
        """By default all ranks divided by the members; each member is data-parallel in its group."""
        text = self.ensemble(2, ranks=4)
        self.assertRegex(text, r"2 members, seed 1: 2 groups of 2 ranks")
        seed = self.list()["members"][1]["seed"]
        self.train(*self.arguments, "--seed", seed, out=self.beside("alone"), ranks=2)
        self.assertEqual(self.parameters(self.member(1)), self.parameters(self.beside("alone")))

    def has_steps(self, member):
        return (self.member(member) / "metrics.jsonl").exists() and bool(records(self.member(member), "step"))

    def wait_for(self, run, condition):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end, "waited too long")
            if run.poll() is not None:
                self.fail("".join(run.communicate()))
            time.sleep(0.02)

    def test_a_signal_ends_all_members(self):
        """With checkpoints; members that have not begun do not begin."""
        run = LM.start("train", "--data", self.text, "--out", self.out, *SMALL, "--members", 3, "--epochs", 100000, ranks=2)
        self.wait_for(run, lambda: all(self.has_steps(m) for m in range(2)))
        run.send_signal(signal.SIGUSR1)
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 75, out + err)
        self.assertIn(f"to continue: keelson-lm train --resume {self.out}", out)
        self.assertEqual(err.count("signalled to end"), 1, err)
        self.assertEqual([m["state"] for m in self.list()["members"][:2]], ["interrupted"] * 2, self.list())
        self.assertFalse((self.member(2) / "checkpoints").exists())

    @needs_h5py
    def test_resumed_members_have_the_same_bits(self):
        """What is finished is not trained again, and data and options come from members that have begun."""
        self.ensemble(3, out=self.beside("whole"))
        self.ensemble(3, "--max-steps", 30)
        self.assertEqual([m["state"] for m in self.list()["members"]], ["step limit reached"] * 3, self.list())
        shutil.rmtree(self.member(2))  # as if it had not begun
        text = self.succeed("train", "--resume", self.out, ranks=2)
        for m in range(3):
            self.assertEqual(self.parameters(self.member(m)), self.parameters(self.member(m, self.beside("whole"))))
        self.assertIn("member 1: continuing from", text)
        self.assertNotIn("member 2: continuing from", text)
        before = [newest(self.member(m)).stat().st_mtime_ns for m in range(3)]
        text = self.succeed("train", "--resume", self.out, "--members", 4, ranks=2)
        self.assertIn("3 members finished before", text)
        self.assertEqual([newest(self.member(m)).stat().st_mtime_ns for m in range(3)], before)
        self.assertEqual([m["state"] for m in self.list()["members"]], ["all epochs done"] * 4)
        text = self.succeed("train", "--resume", self.out, "--epochs", 3, ranks=2)
        self.assertEqual(text.count(": epoch 3/3"), 4, text)

    def test_a_member_that_fails_leaves_the_others(self):
        done = LM.run("train", "--data", self.text, "--out", self.out, *self.arguments, "--members", 3, "--lr", 1e38, ranks=2)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(LM.errors(done)), 1, done.stderr)
        for m in range(3):
            self.assertRegex(LM.errors(done)[0], rf"member {m}: the loss became")
        self.assertEqual([m["state"] for m in self.list()["members"]], ["failed"] * 3)

    def test_refusals(self):
        train = ["train", "--data", self.text, "--out", self.out, *self.arguments]
        self.refused(*train, "--members", 2, "--member-ranks", 3, ranks=2, says="cannot be divided into groups of 3")
        self.refused(*train, "--members", 1, "--member-ranks", 1, ranks=2, says="start at most 1 rank")
        self.refused(*train, "--members", 2, "--trace", self.beside("t.json"), says="--trace with --members")
        self.refused(*train, "--members", 2, "--spares", 1, says="--spares with --members")
        self.refused(*train, "--member-ranks", 2, says="--member-ranks without --members")
        self.refused(*train, "--members", 2, "--resume", says="holds no ensemble")
        self.ensemble(2, "--max-steps", 0)
        self.refused(*train, "--members", 2, says="holds an ensemble; continue it with --resume")
        self.refused(*train, says="holds an ensemble; continue it with --resume")
        self.refused("train", "--resume", self.out, "--members", 1, says="--members 1: .* has 2 members")
        self.refused("train", "--resume", self.out, "--seed", 5, says="--seed 5: .* has seed 1")
        (self.out / "ensemble.json").write_text("{")
        self.refused("train", "--resume", self.out, says="cannot be read as the list of an ensemble's members")
        self.train(*self.arguments, "--overwrite", "--max-steps", 0)
        self.refused(*train, "--members", 2, says="holds a run already")


if __name__ == "__main__":
    unittest.main()
