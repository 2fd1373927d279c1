"""Ensembles: members in groups of ranks, their folders, and how an ensemble goes on."""

import json
import shutil
import signal
import time
import unittest

from lm_support import LM, SMALL, LmCase
from programs import Case, Program, UniversesCase, arrays, needs_h5py, newest, records


NET = ("--blocks", "1,1", "--growth", 4, "--first", 4, "--kernel", 3)  # a small one for snapshots


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

    @needs_h5py
    def test_members_with_bags(self):
        """Each member has weights of its own, which are those of its seed alone; resumed with the same bits."""
        self.ensemble(2, "--bag")
        mine = [self.parameters(self.member(m)) for m in range(2)]
        self.ensemble(2, out=self.beside("plain"))
        self.assertNotEqual(self.parameters(self.member(0, self.beside("plain"))), mine[0])
        seed = self.list()["members"][1]["seed"]
        self.train(*self.arguments, "--bag", "--seed", seed, out=self.beside("alone"))
        self.assertEqual(self.parameters(self.beside("alone")), mine[1])
        self.ensemble(2, "--bag", "--max-steps", 30, out=self.beside("cut"))
        self.succeed("train", "--resume", self.beside("cut"), ranks=2)
        self.assertEqual([self.parameters(self.member(m, self.beside("cut"))) for m in range(2)], mine)
        losses = [r["loss"] for r in records(self.member(0), "step")]
        self.assertTrue(all(loss is not None and loss >= 0 for loss in losses), losses)

    def designs(self, *entries):
        file = self.beside("designs.json")
        file.write_text(json.dumps(entries))
        return "--members-file", file

    @needs_h5py
    def test_members_of_different_design(self):
        """Each is the run alone with the options of its entry; the list begins again; evaluation averages them."""
        entries = {"hidden": 16, "layers": 2}, {"lr": 0.5, "batch": 2, "bag": True}, {}
        text = self.train(*self.arguments, *self.designs(*entries), "--members", 4, ranks=2)
        self.assertRegex(text, r"(?m)^member 0: --hidden 16 --layers 2$")
        members = self.list()["members"]
        self.assertEqual(members[0]["options"], {"hidden": "16", "layers": "2"})
        self.assertEqual(members[1]["options"], {"lr": "0.5", "batch": "2", "bag": "true"})
        self.assertNotIn("options", members[2])
        self.assertEqual(members[3]["options"], members[0]["options"])
        self.assertEqual(members[1]["common"], {"lr": "1", "batch": "4", "global-batch": "0", "bag": "false"})
        self.assertEqual(self.list()["designs"], 3)
        mine = [self.parameters(self.member(m)) for m in range(4)]
        own = ["--hidden", 16, "--layers", 2], ["--lr", 0.5, "--batch", 2, "--bag"], [], ["--hidden", 16, "--layers", 2]
        for m in range(4):
            alone = self.beside(f"alone-{m}")
            given = {n: v for n, v in zip(map(str, self.arguments[::2]), self.arguments[1::2])}
            given = [x for n, v in given.items() if n not in own[m] for x in (n, v)]
            self.train(*given, *own[m], "--seed", members[m]["seed"], out=alone)
            self.assertEqual(self.parameters(alone), mine[m], m)
        e = self.evaluate(self.out, "--data", self.text)
        for m in range(4):
            single = self.evaluate(self.member(m), "--data", self.text)["perplexity"]
            self.assertAlmostEqual(e["scores"]["perplexity"]["members"][m] / single, 1, places=5)
        self.assertLessEqual(e["scores"]["NLL"]["ensemble"], sum(e["scores"]["NLL"]["members"]) / 4)

    @needs_h5py
    def test_designs_that_are_resumed(self):
        """A member that had not begun has the options of its own design, and not those of the one that had."""
        designs = self.designs({"lr": 0.5, "batch": 2, "schedule": "constant"}, {"hidden": 16})
        train = [*SMALL, "--epochs", 2, "--recipe", "demo", "--batch", 4, *designs]
        self.train(*train, out=self.beside("whole"))
        self.train(*train, "--max-steps", 20)
        shutil.rmtree(self.member(1))
        self.succeed("train", "--resume", self.out)
        for m in range(2):
            self.assertEqual(self.parameters(self.member(m)), self.parameters(self.member(m, self.beside("whole"))), m)
        self.refused("train", "--resume", self.out, *designs, says="--members-file with --resume")
        self.succeed("train", "--resume", self.out, "--members", 3, ranks=3)
        self.assertEqual(self.list()["members"][2]["options"], self.list()["members"][0]["options"])

    def test_designs_that_are_refused(self):
        train = ["train", "--data", self.text, "--out", self.out, *self.arguments]
        for entries, says in (([{"lr": 0.1}, {"filter": 3}], "entry 1 has 'filter'. Expected options in which members may"),
                              ([{"seed": 3}], "entry 0 has 'seed'"), ([{"train": "x"}], "entry 0 has 'train'"),
                              ([{"keep": 3}], "entry 0 has 'keep'"), ([{"checkpoint-every": 3}], "has 'checkpoint-every'"),
                              ([{}, {"lr": -1}], "entry 1: --lr: found '-1', expected a number above 0"),
                              ([{"lr": {}}], "entry 0: 'lr' is {}"), ([3], "entry 0 is 3"), ([], "an empty list")):
            self.refused(*train, *self.designs(*entries), says=says)
        self.refused(*train, "--members", 1, *self.designs({}, {}), says="--members 1: .* has 2 option sets")
        self.refused(*train, "--members-file", self.beside("none.json"), says="cannot be read")
        file = self.beside("designs.json")
        file.write_text("[{")
        self.refused(*train, "--members-file", file, says="cannot be read as a list of option sets")
        self.refused(*train, *self.designs({"optimizer": "adam", "nesterov": True}), says="member 0: --nesterov needs")

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

    def test_evaluation_of_words(self):
        """Averages probabilities; one member is the single model; the ensemble is no worse than its members on average."""
        self.ensemble(2)
        page = self.beside("page.html")
        e = self.evaluate(self.out, "--data", self.text, "--calibrate", "--report", page)
        alone = [self.evaluate(self.member(m), "--data", self.text) for m in range(2)]
        found = e["scores"]["perplexity"]["members"]
        for m in range(2):
            self.assertAlmostEqual(found[m] / alone[m]["perplexity"], 1, places=5)
        self.assertEqual(e["tokens"], alone[0]["tokens"])
        plain = self.evaluate(self.out, "--data", self.text)
        self.assertEqual(plain["temperature"], 1)
        for score in ("NLL", "Brier score"):
            self.assertLessEqual(plain["scores"][score]["ensemble"], sum(plain["scores"][score]["members"]) / 2)
        self.assertGreater(plain["bald"], 0)
        self.assertAlmostEqual(plain["predictive_entropy"], plain["mean_entropy"] + plain["bald"], places=10)
        self.assertEqual(sum(b["count"] for b in plain["reliability"]), plain["tokens"])
        self.assertNotEqual(e["temperature"], 1)
        self.assertIn("ptb.valid.txt", e["calibrated_on"])
        validation = ["--validation", self.text / "ptb.valid.txt"]
        calibrated = self.evaluate(self.out, *validation, "--calibrate")["scores"]["NLL"]["ensemble"]
        self.assertLess(calibrated, self.evaluate(self.out, *validation)["scores"]["NLL"]["ensemble"])
        self.assertRegex(page.read_text(), r"(?s)<svg.*Reliability")
        two = json.loads(self.succeed("evaluate", "--checkpoint", self.out, "--data", self.text, "--json", "--batch", 2, ranks=2))
        one = self.evaluate(self.out, "--data", self.text, "--batch", 4)
        self.assertAlmostEqual(two["scores"]["NLL"]["ensemble"], one["scores"]["NLL"]["ensemble"], places=6)
        self.refused("evaluate", "--checkpoint", self.member(0), "--data", self.text, "--calibrate",
                     says="is not the folder of an ensemble")
        self.refused("evaluate", "--checkpoint", self.out, "--data", self.text, "--trace", self.beside("t.json"),
                     says="the evaluation of an ensemble is not traced")
        self.ends(1, "evaluate", "--checkpoint", self.out, "--data", self.text, "--require", 1, says="not good enough")

    def test_one_member_is_the_single_model(self):
        self.ensemble(1, ranks=0)
        e = self.evaluate(self.out, "--data", self.text)
        alone = self.evaluate(self.member(0), "--data", self.text)
        self.assertAlmostEqual(e["scores"]["perplexity"]["ensemble"] / alone["perplexity"], 1, places=5)
        self.assertEqual(e["deviation"], 0)


class Universes(UniversesCase):
    universes = (8, 4, 4)

    def test_evaluation_of_numbers(self):
        text = self.succeed("train", "--data", self.data, "--out", self.out, "--members", 2, "--epochs", 1, "--batch", 4,
                            ranks=2)
        self.assertRegex(text, r"12 samples read once for all members, \d+\.\d MB on each node")
        page = self.out / "page.html"
        evaluate = ["evaluate", "--data", self.data, "--json", "--checkpoint"]
        e = json.loads(self.succeed(*evaluate, self.out, "--calibrate", "--report", page))
        alone = [json.loads(self.succeed(*evaluate, self.out / f"member-00{m}")) for m in range(2)]
        for m in range(2):
            self.assertAlmostEqual(e["scores"]["MAE"]["members"][m], alone[m]["value"], places=6)
        self.assertIn("validation", e["calibrated_on"])
        for t in e["targets"]:
            mse = sum(m["mse"] for m in t["members"]) / 2
            self.assertAlmostEqual(t["mse"], mse - t["epistemic_variance"], places=12)
            self.assertEqual(t["aleatoric_variance"], 0)
            self.assertGreater(t["variance_scale"], 0)
            self.assertEqual(sum(t["pit"]), 4)
        self.assertIn("<svg", page.read_text())
        self.refused(*evaluate, self.out, "--require", "sigma_8:0.5", says="for a single network")
        text = self.succeed("evaluate", "--data", self.data, "--checkpoint", self.out)
        self.assertRegex(text, r"(?m)^MAE .*\d\.\d{5}")
        self.assertIn("epistemic std", text)


class UncertainUniverses(UniversesCase):
    universes = (8, 4, 4)

    def test_networks_that_predict_variances(self):
        self.succeed("train", "--data", self.data, "--out", self.out, "--members", 2, "--epochs", 1, "--batch", 4,
                     "--uncertainty", "--bag", ranks=2)
        evaluate = ["evaluate", "--data", self.data, "--json", "--checkpoint"]
        page = self.out / "page.html"
        e = json.loads(self.succeed(*evaluate, self.out, "--report", page))
        one_page = self.out / "one.html"
        alone = [json.loads(self.succeed(*evaluate, self.out / f"member-00{m}", "--report", one_page)) for m in range(2)]
        for m in range(2):
            self.assertAlmostEqual(e["scores"]["MAE"]["members"][m], alone[m]["value"], places=6)
            for score in ("NLL", "CRPS"):
                found = alone[m]["uncertainty"]["scores"][score]["ensemble"]
                self.assertAlmostEqual(e["scores"][score]["members"][m] / found, 1, places=6)
        for t, target in enumerate(e["targets"]):
            one = [a["uncertainty"]["targets"][t] for a in alone]
            self.assertEqual([o["epistemic_variance"] for o in one], [0, 0])
            mean = sum(o["aleatoric_variance"] for o in one) / 2
            self.assertAlmostEqual(target["aleatoric_variance"] / mean, 1, places=6)
            self.assertGreater(target["aleatoric_variance"], 0)
            self.assertAlmostEqual(target["variance"], target["aleatoric_variance"] + target["epistemic_variance"], places=12)
            self.assertEqual(sum(target["pit"]), 4)
            self.assertIsNone(one[0]["fair_crps_of_members"])
        for file in (page, one_page):
            self.assertRegex(file.read_text(), r"(?s)aleatoric std.*<svg")
        text = self.succeed("evaluate", "--data", self.data, "--checkpoint", self.out / "member-000", "--calibrate")
        self.assertRegex(text, r"(?m)^NLL -?\d+\.\d{5}, CRPS \d\.\d{5}")
        self.assertRegex(text, r"(?m)^target .*aleatoric std +epistemic std")
        self.assertIn("variance scales fitted on", text)
        text = self.succeed("export", "--checkpoint", self.out / "member-000", "--onnx", self.out / "net.onnx")
        self.assertRegex(text, r"(?m)^output  prediction.*\noutput  variance")
        text = self.succeed("train", "--resume", self.out, "--epochs", 2, ranks=2)
        self.assertEqual(text.count(": epoch 2/2"), 2, text)

    def test_refusals(self):
        train = ["train", "--data", self.data, "--out", self.out, "--max-steps", 0]
        self.refused(*train, "--uncertainty", "--net", "paper", says="--uncertainty is for --net mlperf")
        file = self.out.parent / "designs.json"
        file.write_text('[{"uncertainty": true}]')
        self.refused(*train, "--members-file", file, says="entry 0 has 'uncertainty'")
        self.succeed(*train, "--uncertainty")
        self.succeed("train", "--data", self.data, "--out", self.out.parent / "mixed", "--members", 2, "--max-steps", 0)
        shutil.rmtree(self.out.parent / "mixed" / "member-001")
        shutil.copytree(self.out, self.out.parent / "mixed" / "member-001")
        self.refused("evaluate", "--data", self.data, "--checkpoint", self.out.parent / "mixed", says="alike in --uncertainty")
        self.succeed("train", "--data", self.data, "--out", self.out.parent / "one", "--max-steps", 0)
        self.refused("evaluate", "--data", self.data, "--checkpoint", self.out.parent / "one", "--calibrate",
                     says="is not the folder of an ensemble")


class Snapshots(Case):
    program = Program("keelson-climate")

    def test_evaluation_of_pixels(self):
        data = self.folder / "weather"
        self.succeed("generate", "--out", data, "--height", 64, "--width", 96, "--cyclones", 4, "--train", 2, "--validation", 2,
                     "--test", 1)
        self.succeed("train", "--data", data, "--out", self.out, "--members", 2, "--max-steps", 2, *NET, ranks=2)
        e = json.loads(self.succeed("evaluate", "--data", data, "--json", "--checkpoint", self.out, "--calibrate"))
        for m in range(2):
            alone = json.loads(self.succeed("evaluate", "--data", data, "--json", "--checkpoint", self.out / f"member-00{m}"))
            self.assertAlmostEqual(e["scores"]["mean IoU per image"]["members"][m], alone["mean_iou_per_image"], places=6)
        plain = json.loads(self.succeed("evaluate", "--data", data, "--json", "--checkpoint", self.out))
        for score in ("NLL", "Brier score"):
            self.assertLessEqual(plain["scores"][score]["ensemble"], sum(plain["scores"][score]["members"]) / 2)
        self.assertGreater(e["bald"], 0)
        file = self.folder / "designs.json"
        file.write_text('[{"growth": 6, "bag": true}, {"net": "deepcam", "width": 0.05, "optimizer": "adam"}]')
        out = self.folder / "designs"
        self.succeed("train", "--data", data, "--out", out, "--members-file", file, "--max-steps", 2, *NET)
        e = json.loads(self.succeed("evaluate", "--data", data, "--json", "--checkpoint", out))
        for m in range(2):
            alone = json.loads(self.succeed("evaluate", "--data", data, "--json", "--checkpoint", out / f"member-00{m}"))
            self.assertAlmostEqual(e["scores"]["mean IoU per image"]["members"][m], alone["mean_iou_per_image"], places=6)


if __name__ == "__main__":
    unittest.main()
