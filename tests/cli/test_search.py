"""Searches for networks: found, continued, killed, replayed."""

import csv
import json
import os
import random
import resource
import shlex
import signal
import subprocess
import time

import unittest

from programs import long_test, numpy
from searches import ONE_THREAD, PROGRAM, SearchCase, lines_of

KILLS = int(os.environ.get("KEELSON_FAULTS", "5"))


class Searches(SearchCase):
    def test_finds_continues_and_replays(self):
        done = self.run_search("--networks", 8, ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"192 training and 48 validation samples of 5; 3 classes")
        self.complete(8)
        page = (self.out / "report.html").read_text()
        for text in ("<svg", "The best networks", "Ancestors of the best", "Early stopping"):
            self.assertIn(text, page)
        # Another number of ranks goes on.
        more = PROGRAM.run("resume", self.out, "--networks", 12, env=ONE_THREAD)
        self.assertEqual(more.returncode, 0, more.stderr)
        self.complete(12)
        # All genomes follow from the log, and the losses of two networks, which one rank trains again.
        again = PROGRAM.run("replay", self.out, "--retrain", 2, "--scratch", self.folder / "scratch", env=ONE_THREAD)
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertIn("12 networks made again from the log, 0 differ", again.stdout)
        self.assertEqual(again.stdout.count("as in the log"), 2)
        status = PROGRAM.run("status", self.out)
        self.assertRegex(status.stdout, r"best \d+: loss .*12 networks, 0 running, 0 failed")
        best = self.folder / "best"
        written = PROGRAM.run("best", self.out, "--out", best)
        self.assertEqual(written.returncode, 0, written.stderr)
        self.assertEqual({p.name for p in best.iterdir()},
                         {"genome.json", "network.hpp", "network.py", "checkpoint.h5", "network.onnx"})
        compile((best / "network.py").read_text(), "network.py", "exec")

    def test_begins_with_a_given_network(self):
        """The log has the genome of --start, so resume and replay use it: the first 8 networks are changes of it."""
        self.assertEqual(self.run_search("--networks", 1).returncode, 0)
        self.assertEqual(PROGRAM.run("best", self.out, "--out", self.folder / "best").returncode, 0)
        start = self.folder / "genome.json"
        (self.folder / "best" / "genome.json").rename(start)
        begun = self.run_search("--networks", 3, "--start", start, "--seed", 5, "--overwrite")
        self.assertEqual(begun.returncode, 0, begun.stderr)
        given = json.loads(start.read_text())
        start.unlink()
        done = PROGRAM.run("resume", self.out, "--networks", 8, env=ONE_THREAD)
        self.assertEqual(done.returncode, 0, done.stderr)
        births = lines_of(self.out, "birth")
        self.assertEqual(births[0]["genome"], given)
        self.assertEqual([line["origin"] for line in births], ["given"] + 7 * ["mutation"])
        again = PROGRAM.run("replay", self.out)
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertIn("8 networks made again from the log, 0 differ", again.stdout)

    def test_learning_rates_of_a_network(self):
        """Of a network of a search, and of the same genome without the search."""
        self.assertEqual(self.run_search("--networks", 2).returncode, 0)
        rates = {"env": ONE_THREAD}
        found = self.succeed("lr-range", self.out, "--network", 0, "--steps", 40, "--out", self.folder / "of-search", **rates)
        self.assertRegex(found, r"search-000000: .*parameters")
        self.assertRegex(found, r"the smoothed loss is least at")
        self.succeed("best", self.out, "--network", 0, "--out", self.folder / "best")
        alone = ["--data", self.table, "--classes", "--space", self.space(), "--start", self.folder / "best" / "genome.json"]
        self.succeed("lr-range", *alone, "--steps", 40, "--out", self.folder / "alone", ranks=2, **rates)
        losses = []
        for out in ("of-search", "alone"):
            self.assertEqual({p.name for p in (self.folder / out).iterdir()}, {"lr-range.html", "lr-range.csv"})
            with (self.folder / out / "lr-range.csv").open() as table:
                losses.append([float(row["loss"]) for row in csv.DictReader(table)][:20])
        for one, two in zip(*losses):
            self.assertAlmostEqual(one, two, delta=1e-4)
        self.refused("lr-range", says="either the folder of a search, or --start")
        self.refused("lr-range", self.out, "--network", 7, says="--network 7: the search has the networks 0 to 1")
        self.refused("lr-range", self.out, "--space", self.space(), says="has its own; leave it out")
        self.refused("lr-range", "--start", self.folder / "best" / "genome.json", says="--start without --data")
        self.table.write_text(self.table.read_text() + "1,1,1,1,1,ice\n")
        self.refused("lr-range", self.out, says="not those with which the search began")

    def test_trains_a_network_on_several_ranks(self):
        done = self.run_search("--networks", 3, "--ranks-per-network", 2, ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 worker by evolution", done.stdout)
        self.complete(3)

    def test_numbers_and_arrays(self):
        """Images with two numbers to predict, and two objectives."""
        if numpy is None:
            self.skipTest("needs NumPy")
        chance = numpy.random.default_rng(1)
        x = chance.standard_normal((60, 8, 8, 1), dtype=numpy.float32)
        numpy.savez(self.folder / "images.npz", x=x, y=numpy.stack([x.mean((1, 2, 3)), x.std((1, 2, 3))], 1))
        small = self.write("small.json", json.dumps({"stages": {"number": [1, 2], "filters": [4, 6, 8]}, "dense": {"layers": [0, 1]}}))
        done = PROGRAM.run("run", "--data", self.folder / "images.npz", "--out", self.out, "--networks", 6, "--epochs", 2,
                           "--objective", "loss,parameters", "--space", small, env=ONE_THREAD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 numbers to predict", done.stdout)
        self.complete(6)
        numpy.savez(self.folder / "one.npz", x=x, y=x.mean((1, 2, 3)))  # (samples)
        done = PROGRAM.run("run", "--data", self.folder / "one.npz", "--out", self.out, "--networks", 2, "--epochs", 1,
                           "--space", small, "--overwrite", env=ONE_THREAD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 number to predict", done.stdout)
        self.complete(2)

    def test_sequences(self):
        """Sequences whose class is the sign of their first step: only recurrent layers, in turn with a convolution."""
        if numpy is None:
            self.skipTest("needs NumPy")
        chance = numpy.random.default_rng(2)
        x = chance.standard_normal((400, 6, 2), dtype=numpy.float32)
        numpy.savez(self.folder / "sequences.npz", x=x, y=(x[:, 0, 0] > 0).astype(numpy.int32))
        space = self.write("recurrent.json", json.dumps({
            "stages": {"kind": ["conv", "lstm", "gru"], "number": [2, 2], "hidden": [16, 23], "filters": [4], "stride": [1],
                       "padding": ["same"], "dropout": ["0", "0.1"], "kernel_h": [1, 3], "kernel_w": [1]},
            "dense": {"layers": [0, 0]},
            "training": {"optimizer": ["adam"], "batch": [16], "rate": ["0.00562", "0.01"], "schedule": ["constant"]}}))
        done = PROGRAM.run("run", "--data", self.folder / "sequences.npz", "--classes", "--out", self.out, "--networks", 12,
                           "--epochs", 12, "--space", space, "--method", "random", "--keep", 12, env=ONE_THREAD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.complete(12)
        stages = [[s["kind"] for s in line["genome"]["stages"]] for line in lines_of(self.out, "birth")]
        self.assertTrue(any("lstm" in kinds or "gru" in kinds for kinds in stages))
        best = self.folder / "best"
        for network, kinds in enumerate(stages):
            written = PROGRAM.run("best", self.out, "--out", best, "--network", network)
            self.assertEqual(written.returncode, 0, written.stderr)
            self.assertIn("network.onnx", written.stdout)
            compile((best / "network.py").read_text(), "network.py", "exec")
            for kind in kinds:
                if kind != "conv":
                    self.assertIn(f"keelson::{kind}(h, ", (best / "network.hpp").read_text())
        self.assertRegex(done.stdout, r"best network \d+: loss [\d.e-]+, accuracy (1\.|0\.9)", stages)

    def population_words(self, method, *others, interval=2):
        one = self.write("one.json", json.dumps({
            "dense": {"layers": [1, 1], "units": [16], "activation": ["relu"], "batch_norm": ["no"], "dropout": ["0"]},
            "training": {"optimizer": ["sgd", "adam"], "batch": [16, 32], "schedule": ["constant"], "warmup": ["0"]}}))
        return ["run", "--data", self.table, "--classes", "--out", self.out, "--method", method, "--space", one,
                "--networks", 5, "--epochs", 3 * interval, "--interval", interval, *others]

    def population_is_complete(self):
        """Each of 5 members has a result of each of 3 intervals, or has failed."""
        self.assertEqual({line["member"] for line in lines_of(self.out, "birth")}, set(range(5)))
        results = [(line["id"], line["rung"]) for line in lines_of(self.out, "result")]
        self.assertEqual(len(results), len(set(results)))
        failed = {line["id"] for line in lines_of(self.out, "failure")}
        self.assertEqual({i for i, rung in results if rung == 2} | failed, set(range(5)))

    def population_is_shown(self):
        status = PROGRAM.run("status", self.out)
        self.assertRegex(status.stdout, r"best \d+: loss .*15 of 15 intervals, \d+ with another's weights; 5 networks, 0 running")
        page = (self.out / "report.html").read_text()
        for text in ("Loss of each member", "Learning rate of each member", "Lineage of the best", "new weights"):
            self.assertIn(text, page)
        best = self.folder / "best"
        written = PROGRAM.run("best", self.out, "--out", best)
        self.assertEqual(written.returncode, 0, written.stderr)
        self.assertEqual({p.name for p in best.iterdir()},
                         {"genome.json", "network.hpp", "network.py", "checkpoint.h5", "network.onnx"})
        again = PROGRAM.run("replay", self.out)
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertIn("5 networks and 10 intervals made again from the log, 0 differ", again.stdout)

    def test_population_based_training(self):
        done = PROGRAM.run(*self.population_words("pbt", "--keep", 2), ranks=2, env=ONE_THREAD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 workers by pbt; 6 epochs, 5 members in intervals of 2", done.stdout)
        self.population_is_complete()
        copied = [line for line in lines_of(self.out, "run") if line["source"] != line["id"]]
        self.assertGreaterEqual(len(copied), 1)
        self.population_is_shown()
        # Only the last checkpoints of the two best are kept.
        kept = sorted(str(p.relative_to(self.out / "networks")) for p in (self.out / "networks").rglob("*.h5"))
        self.assertEqual(len([k for k in kept if "best" not in k]), 2, kept)
        self.assertTrue(all("rung-000002" in k for k in kept), kept)

    def test_tournaments(self):
        done = PROGRAM.run(*self.population_words("ltfb", "--partition"), ranks=2, env=ONE_THREAD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.population_is_complete()
        tournaments = [line for line in lines_of(self.out, "result") if "own_loss" in line]
        self.assertEqual(len(tournaments), 2 * 4)  # one of five sits out in each of two rounds
        self.population_is_shown()
        # Neither the number of workers nor the ranks of a worker's network change what is trained.
        losses = {(line["id"], line["rung"]): line["loss"] for line in lines_of(self.out, "result")}
        done = PROGRAM.run(*self.population_words("ltfb", "--partition", "--overwrite"), env=ONE_THREAD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({(line["id"], line["rung"]): line["loss"] for line in lines_of(self.out, "result")}, losses)
        done = PROGRAM.run(*self.population_words("ltfb", "--overwrite", "--ranks-per-network", 2), ranks=2, env=ONE_THREAD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.population_is_complete()

    def test_intervals_change_nothing(self):
        """A member that goes on alone gives the bits of a training without intervals: weights, optimizer, schedule, order."""
        space = self.write("steady.json", json.dumps({
            "dense": {"layers": [1, 1], "units": [16], "activation": ["relu"], "batch_norm": ["yes"], "dropout": ["0.1"]},
            "training": {"optimizer": ["adam"], "rate": ["0.01"], "batch": [32], "schedule": ["cosine"], "warmup": ["0.2"]}}))
        losses = []
        for interval in (1, 6):
            out = self.folder / f"interval{interval}"
            done = PROGRAM.run("run", "--data", self.table, "--classes", "--out", out, "--method", "pbt", "--space", space,
                               "--networks", 1, "--epochs", 6, "--interval", interval, env=ONE_THREAD)
            self.assertEqual(done.returncode, 0, done.stderr)
            results = lines_of(out, "result")
            self.assertEqual(len(results), 6 // interval)
            losses.append(results[-1]["loss"])
        self.assertEqual(*losses)

    def test_weights_are_taken_over(self):
        """With so small a rate, a member has the loss of the weights with which it began."""
        space = self.write("slow.json", json.dumps({
            "dense": {"layers": [1, 1], "units": [16], "activation": ["relu"], "batch_norm": ["no"], "dropout": ["0"]},
            "training": {"optimizer": ["adam"], "rate": ["0.0001"], "batch": [256], "schedule": ["constant"], "warmup": ["0"],
                         "weight_decay": ["0"]}}))
        for method in ("pbt", "ltfb"):
            with self.subTest(method):
                self.out = self.folder / method
                done = PROGRAM.run("run", "--data", self.table, "--classes", "--out", self.out, "--method", method, "--space",
                                   space, "--networks", 6, "--epochs", 2, env=ONE_THREAD)
                self.assertEqual(done.returncode, 0, done.stderr)
                results = {(line["id"], line["rung"]): line for line in lines_of(self.out, "result")}
                taken = 0
                for line in lines_of(self.out, "run"):
                    after = results[line["id"], 1]
                    other = line["source"] if method == "pbt" else line["partner"]
                    own = results[line["id"], 0]["loss"]
                    if method == "ltfb" and not after["partner_loss"] < after["own_loss"] or other == line["id"]:
                        self.assertAlmostEqual(after["loss"], own, delta=0.02)
                        continue
                    source = results[other, line["source_rung"]]["loss"]
                    self.assertAlmostEqual(after["loss"], source, delta=0.02)
                    taken += abs(source - own) > 0.05
                self.assertGreaterEqual(taken, 1)

    def test_populations_that_are_killed(self):
        for method in ("pbt", "ltfb"):
            with self.subTest(method):
                self.out = self.folder / method
                run = self.start(*self.population_words(method, interval=50))
                self.wait_for(7)
                run.send_signal(signal.SIGKILL)
                run.wait()
                before = len(lines_of(self.out, "result"))
                done = PROGRAM.run("resume", self.out, ranks=2, env=ONE_THREAD)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.population_is_complete()
                # Only what was trained when the worker died is trained again. Of equal claims the first one counts.
                self.assertLess(before, 15)
                again = {(line["id"], line["rung"]) for line in lines_of(self.out, "run") if line["attempt"] > 0}
                self.assertLessEqual(len(again), 1)

    def start(self, *words):
        output = open(self.folder / f"output-{time.monotonic()}", "w")
        self.addCleanup(output.close)
        run = subprocess.Popen(PROGRAM.command(0, *words), stdout=output, stderr=subprocess.STDOUT, env=ONE_THREAD)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def wait_for(self, count, kind="result", limit=120):
        for _ in range(limit * 50):
            if (self.out / "search.jsonl").exists() and len(lines_of(self.out, kind)) >= count:
                return
            time.sleep(0.02)
        self.fail(f"{count} lines of {kind} have not come")

    def test_workers_that_are_killed(self):
        """A worker that joined and the first one die; what they trained is trained again."""
        first = self.start(*self.words("--networks", 14, "--lease", 2))
        self.wait_for(2)
        second = self.start("resume", self.out, "--join", "--networks", 14)
        self.wait_for(3)
        second.send_signal(signal.SIGKILL)
        self.wait_for(6)
        first.send_signal(signal.SIGKILL)
        first.wait()
        done = PROGRAM.run("resume", self.out, "--networks", 14, env=ONE_THREAD)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.complete(14)

    @long_test
    def test_random_kills(self):
        """kill -9 at random moments: each costs at most one training, nothing is lost or doubled."""
        chance = random.Random(7)
        networks = 4 * KILLS
        run = self.start(*self.words("--networks", networks))
        self.wait_for(1, "birth")
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.05, 0.6))
            run.send_signal(signal.SIGKILL)
            run.wait()
            run = self.start("resume", self.out, "--networks", networks)
        self.assertEqual(run.wait(600), 0)
        self.complete(networks)
        # Trainings that were begun: one for each result or failure, and at most one more for each kill.
        trained = len(lines_of(self.out, "birth")) + len(lines_of(self.out, "run"))
        ended = len(lines_of(self.out, "result")) + len(lines_of(self.out, "failure"))
        self.assertLessEqual(trained, ended + KILLS)

    def test_a_full_disk(self):
        """One line names the file; when there is room again, the search goes on, and nothing is lost or doubled."""
        disk, folder = self.folder / "disk", self.folder
        disk.mkdir()
        out = disk / "out"
        run = [str(w) for w in PROGRAM.command(0, *self.words("--networks", 12, "--keep", 12))]
        run[run.index(str(self.out))] = str(out)
        resume = [str(w) for w in PROGRAM.command(0, "resume", out, "--networks", 12, "--keep", 12)]
        script = f"""
            mount -t tmpfs -o size=$1 tmpfs {disk} || exit 77
            try() {{ name=$1; shift; "$@" >{folder}/$name.out 2>{folder}/$name.err; echo $? >{folder}/$name.code; }}
            try first {shlex.join(run)}
            try second {shlex.join(resume)}
            cat /dev/zero >{disk}/rest 2>/dev/null
            for i in 1 2; do try join$i {shlex.join(resume)} --join; done
            try status {shlex.join(map(str, PROGRAM.command(0, "status", out)))}
            mount -o remount,size=100m {disk} && rm {disk}/rest
            try last {shlex.join(resume)}
            cp -r {out} {self.out}
        """
        done = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", "100k"], env=ONE_THREAD, text=True, stderr=subprocess.PIPE)
        if done.returncode == 77 or "unshare" in done.stderr:
            self.skipTest(f"a file system of its own cannot be mounted: {done.stderr}")
        full = ("first", "second", "join1", "join2")
        said = {name: (int((folder / f"{name}.code").read_text()), (folder / f"{name}.err").read_text())
                for name in (*full, "status", "last")}
        for name in full:
            code, errors = said[name]
            self.assertEqual(code, 1, said)
            self.assertEqual(len([line for line in errors.splitlines() if "error: " in line]), 1, said)
            self.assertRegex(errors, f"error: .*{out}/.*: No space left on device, .* free in")
        self.assertEqual(said["status"][0], 0, said)
        self.assertEqual(said["last"][0], 0, said)
        self.complete(12)
        self.assertEqual(lines_of(self.out, "failure"), [])
        # The end of the disk in the middle of a line.
        size = (self.out / "search.jsonl").stat().st_size + 50
        done = PROGRAM.run("resume", self.out, "--networks", 14, env=ONE_THREAD,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, f"error: cannot write {self.out}/search.jsonl: File too large")
        self.assertEqual(len(PROGRAM.errors(done)), 1, done.stderr)
        done = PROGRAM.run("resume", self.out, "--networks", 14, env=ONE_THREAD)
        self.assertEqual(done.returncode, 0, done.stderr)
        status = PROGRAM.run("status", self.out)
        self.assertRegex(status.stderr, "note: .*left out 1 line that cannot be read")
        self.assertIn("14 networks, 0 running, 0 failed", status.stdout)

    def test_a_full_disk_of_several_ranks(self):
        """Each rank says at most one line, and the job ends; so do the ranks that train one network together."""
        disk, folder = self.folder / "disk", self.folder
        disk.mkdir()
        tries = []
        for name, words in (("apart", []), ("together", ["--ranks-per-network", 2])):
            run = [str(w) for w in PROGRAM.command(2, *self.words("--networks", 12, "--keep", 12, "--overwrite", *words))]
            run[run.index(str(self.out))] = str(disk / "out")
            tries.append(f"{shlex.join(run)} >{folder}/{name}.out 2>{folder}/{name}.err; echo $? >{folder}/{name}.code")
        script = "\n".join([f"mount -t tmpfs -o size=$1 tmpfs {disk} || exit 77", *tries])
        done = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", "100k"], env=ONE_THREAD, text=True, stderr=subprocess.PIPE,
                              timeout=900)
        if done.returncode == 77 or "unshare" in done.stderr:
            self.skipTest(f"a file system of its own cannot be mounted: {done.stderr}")
        for name in ("apart", "together"):
            errors = (folder / f"{name}.err").read_text()
            self.assertEqual((folder / f"{name}.code").read_text(), "1\n", errors)
            lines = [line for line in errors.splitlines() if "error: " in line]
            self.assertIn(len(lines), (1, 2) if name == "apart" else (1,), errors)
            for line in lines:
                self.assertRegex(line, f"error: .*{disk}/out/.*: No space left on device, .* free in")

    def test_is_interrupted(self):
        """A signal ends the search soon; the training goes on from its checkpoint."""
        run = self.start(*self.words("--networks", 1000))
        self.wait_for(3)
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(60), 75)
        done = PROGRAM.run("resume", self.out, "--networks", 5, env=ONE_THREAD)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_refusals(self):
        self.assertEqual(self.run_search("--networks", 2).returncode, 0)
        log = self.out / "search.jsonl"
        for words, says in ((self.words("--networks", 2), "holds a search; keelson-search resume"),
                            (["resume", self.folder], "search.jsonl: No such file or directory"),
                            (["resume", self.out, "--networks", 2, "--data", self.write("other.csv", "a,b\n1,x\n2,y\n3,x\n4,y\n")],
                             "the data are not those with which the search began"),
                            (["run", "--data", self.table, "--out", self.folder / "b"], "ask for classes"),
                            (["run", "--data", self.table, "--out", self.folder / "b", "--method", "magic"], "--method"),
                            (["run", "--data", self.table, "--classes", "--out", self.folder / "b", "--method", "pbt"],
                             "the method pbt trains one network: give its genome as start"),
                            (["run", "--data", self.table, "--classes", "--out", self.folder / "b", "--method", "pbt",
                              "--first-epochs", 1], "the method pbt trains all members to the end: leave out the first epochs"),
                            (self.population_words("pbt", "--partition", "--overwrite"), "the method pbt trains all networks on all training data"),
                            (self.population_words("ltfb", "--tournament", 0.01, "--overwrite"), "192 training samples are too few for 5 members"),
                            (self.words("--method", "random", "--start", self.write("start.json", "{}"), "--overwrite"),
                             "the method random begins with random networks; evolution, pbt and ltfb take a genome"),
                            (self.words("--start", self.write("start.json", '{"dense": []}'), "--overwrite"), "start.json: a genome without"),
                            (["best", self.out, "--network", 99], "there are the networks 0 to"),
                            (["replay", self.out, "--retrain", 1], "--scratch")):
            with self.subTest(says):
                done = PROGRAM.run(*words, env=ONE_THREAD)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(says, done.stderr)
                self.assertEqual(len(PROGRAM.errors(done)), 1, done.stderr)
        lines = log.read_text().splitlines()
        log.write_text("\n".join([*lines[:2], lines[2][:-30], *lines[3:]]) + "\n")
        status = PROGRAM.run("status", self.out)
        self.assertRegex(status.stderr, r"note: .*left out 1 line that cannot be read, from line 3 on")

    def test_two_searches_in_a_folder(self):
        first = self.start(*self.words("--networks", 1000))
        self.wait_for(1)
        done = PROGRAM.run("resume", self.out, env=ONE_THREAD)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("in use", done.stderr)
        first.kill()


if __name__ == "__main__":
    unittest.main(verbosity=2)
