"""--trace: one file for all ranks, also of runs that are interrupted or fail; and the table of where the time went."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from lm_support import LM, SMALL, LmCase
from programs import Case, Program

BENCH = Program("keelson-bench")


def spans(file, name, rank=None):
    return [e for e in file["traceEvents"] if e["ph"] == "X" and e["name"] == name and rank in (None, e["pid"])]


class TraceCase(Case):
    def read(self, path, ranks, complete=True):
        """The file, held against what is true of each: names, times, and begins that have their ends."""
        file = json.loads(path.read_text())
        self.assertEqual(file["otherData"]["complete"], complete)
        events = file["traceEvents"]
        named = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(sorted(named), sorted(ranks))
        for rank, name in named.items():
            self.assertRegex(name, rf"^rank {rank} \(\S+\)$")
        begins, open_parts = {}, {}
        for e in events:
            if e["ph"] == "M":
                continue
            self.assertGreaterEqual(e["ts"], 0)
            if e["ph"] == "X":
                track = e["pid"], e["tid"]
                self.assertGreaterEqual(e["ts"], begins.get(track, 0))
                begins[track] = e["ts"]
            elif e["ph"] == "b":
                open_parts.setdefault(e["id"], []).append(e)
            else:
                begin = open_parts[e["id"]].pop()
                self.assertEqual(begin["name"], e["name"])
                self.assertLessEqual(begin["ts"], e["ts"])
        self.assertFalse(any(open_parts.values()))
        return file


class BenchStep(TraceCase):
    program = BENCH

    def step(self, ranks, *options):
        trace = self.folder / "trace.json"
        out = self.succeed("step", "--net", "mlperf", "--size", 32, "--steps", 3, "--warmup", 1, "--trace", trace,
                           *options, ranks=ranks)
        return self.read(trace, range(max(1, ranks))), out

    def test_alone(self):
        file, out = self.step(0)
        self.assertIn("open it in https://ui.perfetto.dev", out)
        self.assertEqual(len(spans(file, "step")), 4)
        for name in ("forward", "backward", "update", "dense1/dense", "conv2/conv bwd weights", "conv1/weights/update"):
            self.assertEqual(len(spans(file, name)), 4, name)

    def test_ranks(self):
        file, _ = self.step(2)
        for rank in (0, 1):
            self.assertEqual([e["args"]["step"] for e in spans(file, "step", rank)], [1, 2, 3, 4])
            buckets = [e for e in file["traceEvents"] if e["ph"] == "b" and e["pid"] == rank]
            self.assertEqual(sum(e["name"].startswith("gradient bucket 1 (") for e in buckets), 4)
            self.assertEqual(sum(e["name"] == "waited for" for e in buckets),
                             sum(e["name"] == "posting" for e in buckets))
        clock = file["otherData"]["ranks"][1]["clock_at_end"]
        self.assertLessEqual(abs(clock["offset_us"]), clock["error_us"])  # both ranks read the clock of one machine

    def test_limit(self):
        file, _ = self.step(0, "--trace-events", 20)
        self.assertEqual(file["otherData"]["ranks"][0]["events"], 20)
        self.assertEqual(file["otherData"]["events_kept"], "newest")
        self.assertEqual([e["args"]["step"] for e in spans(file, "step")], [4])

    def test_refused(self):
        for path in (self.folder, self.folder / "nowhere/trace.json"):
            for ranks in (0, 2):
                self.refused("step", "--size", 32, "--trace", path, says=r"--trace \S+: ", ranks=ranks)


class Train(LmCase, TraceCase):
    def start(self, *options):
        return LM.start("train", "--data", self.text, "--out", self.out, *SMALL, "--layers", 1, "--trace",
                        self.folder / "trace.json", *options, ranks=2)

    def test_a_whole_run(self):
        trace = self.folder / "trace.json"
        out = self.train(*SMALL, "--layers", 1, "--epochs", 2, "--batch", 10, "--trace", trace, ranks=2)
        self.assertIn(f"trace: {trace} (open it in https://ui.perfetto.dev)", out)
        file = self.read(trace, (0, 1))
        for rank in (0, 1):
            steps = [e["args"]["step"] for e in spans(file, "step", rank)]
            self.assertEqual(steps, list(range(1, len(steps) + 1)))
            self.assertEqual(len(spans(file, "validation", rank)), 2)
            self.assertGreaterEqual(len(spans(file, "checkpoint", rank)), 1)
            self.assertGreaterEqual(len(spans(file, "input wait", rank)), len(steps))
            self.assertGreaterEqual(len(spans(file, "copy", rank)), len(steps))
        self.table(out, len(steps))
        self.assertIn("exposed communication", (self.out / "report.html").read_text())

        evaluated = self.folder / "evaluated.json"
        self.evaluate(self.out, "--trace", evaluated, ranks=2)
        self.assertEqual(len(spans(self.read(evaluated, (0, 1)), "evaluation")), 2)

    def table(self, out, steps):
        """Its figures add up: shares to the whole, seconds to the run's."""
        head = re.search(rf"where the time went: {steps} steps on 2 ranks, ([\d.]+) s\n", out)
        self.assertTrue(head, out)
        rows = re.findall(r"^(\w[\w: ]*?) +([\d.]+) % +([\d.]+) s +([\d.]+) s \(rank (\d)\) +([\d.]+) s \(rank (\d)\)$", out,
                          re.MULTILINE)
        self.assertEqual([row[0] for row in rows],
                         ["compute", "exposed communication", "waiting for slower ranks", "input: reading",
                          "input: decoding", "input: from other ranks", "copy", "validation", "checkpoints",
                          "changes of the network", "other"])
        self.assertAlmostEqual(sum(float(row[1]) for row in rows), 100, delta=0.5)
        self.assertAlmostEqual(sum(float(row[2]) for row in rows), float(head[1]), delta=0.1)
        for row in rows:
            self.assertLessEqual(float(row[3]), float(row[2]) + 0.01)
            self.assertLessEqual(float(row[2]), float(row[5]) + 0.01)

    def test_interrupted(self):
        run = self.start("--epochs", 100000, "--checkpoint-every", 0)
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        while run.poll() is None and not list(self.out.glob("checkpoints/step-*.h5")):
            time.sleep(0.01)
        run.send_signal(signal.SIGUSR1)
        out, err = run.communicate(timeout=100)
        self.assertEqual(run.returncode, 75, err)
        self.assertIn("where the time went: ", out)
        file = self.read(self.folder / "trace.json", (0, 1))
        last = max(e["args"]["step"] for e in spans(file, "step"))
        for rank in (0, 1):  # the newest events are there
            self.assertEqual(spans(file, "checkpoint", rank)[-1]["args"]["step"], last)

    def test_failed(self):
        run = self.start("--lr", "1e30", "--batch", 10, "--epochs", 1)
        out, err = run.communicate(timeout=100)
        self.assertEqual(run.returncode, 1, err)
        self.assertIn("not finite", err)
        for rank, name in ((0, "trace.json"), (1, "trace.json.rank-1")):
            file = self.read(self.folder / name, (rank,), complete=False)
            self.assertTrue(spans(file, "step"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
