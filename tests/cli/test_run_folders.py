"""What runs do to each other's folders: the lock on --out, temporaries of others, files of the user."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest
import zlib

from lm_support import LM, SMALL, LmCase
from programs import attributes, needs_h5py, newest, records


class Folders(LmCase):
    def setUp(self):
        super().setUp()
        text = self.write("train.txt", " ".join(self.tokens("ptb.train.txt")[:1200]))
        self.arguments = ["--data", text, *SMALL, "--layers", 1, "--global-batch", 8]
        self.lock = self.out / "run.lock"

    def start(self, *arguments):
        """A run that goes on until it is ended, with a checkpoint already."""
        run = LM.start("train", "--out", self.out, *self.arguments, "--epochs", 100000, *arguments)
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        while run.poll() is None and not list(self.out.glob("checkpoints/step-*.h5")):
            time.sleep(0.01)
        return run

    def end(self, run, number=signal.SIGTERM):
        run.send_signal(number)
        out, err = run.communicate(timeout=60)
        return run.returncode, out, err

    def seen_on_another_machine(self, **changes):
        """Makes the lock that of a process of which nothing can be known here."""
        holder = json.loads(self.lock.read_text())
        holder.update({"host": "elsewhere", **changes})
        self.lock.write_text(json.dumps(holder))

    def test_a_live_run_keeps_its_folder(self):
        run = self.start()
        for arguments in (["--resume"], ["--overwrite", *self.arguments]):
            for ranks in (0, 2):
                self.refused("train", "--out", self.out, *arguments, ranks=ranks,
                             says=rf"--out {self.out}: is in use by process {run.pid} on \S+, since 2")
        code, out, err = self.end(run)
        self.assertEqual(code, 75, err)
        self.assertFalse(self.lock.exists())
        steps = [r["step"] for r in records(self.out, "epoch")]
        self.assertEqual(steps, sorted(set(steps)))
        self.succeed("train", "--resume", self.out, "--max-steps", steps[-1] + 30)

    def test_a_killed_run_is_taken_over(self):
        run = self.start()
        self.end(run, signal.SIGKILL)
        self.assertTrue(self.lock.exists())
        (self.out / "checkpoints/.step-0000000001.h5.partial-elsewhere-1").write_text("of another machine")
        self.succeed("train", "--resume", self.out, "--epochs", int(newest(self.out).stem[5:]) // 24 + 2)
        self.assertEqual([p.name for p in self.out.rglob(".*")], [".step-0000000001.h5.partial-elsewhere-1"])
        self.assertFalse(self.lock.exists())

    def test_the_older_run_ends(self):
        run = self.start("--log-every", 1)
        self.seen_on_another_machine(token="0123456789abcdef", process=17)
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 1, out + err)
        self.assertRegex(err, f"{self.out} was taken over by process 17 on elsewhere, since .* ends without writing")
        self.assertEqual(json.loads(self.lock.read_text())["process"], 17)
        before = {p: p.stat().st_mtime_ns for p in self.out.rglob("*")}
        self.refused("train", "--resume", self.out, says="cannot tell whether it still runs.* remove .*run.lock$")
        self.assertEqual(before, {p: p.stat().st_mtime_ns for p in self.out.rglob("*")})

    def test_slurm_starts_a_job_again(self):
        run = self.start()
        self.end(run, signal.SIGKILL)
        self.seen_on_another_machine(slurm_job="71", slurm_restart=0)
        again = ["train", "--resume", self.out, "--max-steps", 1]
        self.refused(*again, says="Slurm job 71.* This machine")
        self.refused(*again, says="Slurm job 71.* This machine", env={**os.environ, "SLURM_JOB_ID": "71"})
        self.succeed(*again, env={**os.environ, "SLURM_JOB_ID": "71", "SLURM_RESTART_COUNT": "1"})

    def test_slurm_knows_that_a_job_has_ended(self):
        run = self.start()
        self.end(run, signal.SIGKILL)
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        self.seen_on_another_machine(slurm_job="71")
        for answer, code in (("RUNNING", 2), ("TIMEOUT", 0)):
            squeue = bin_folder / "squeue"
            squeue.write_text(f'#!/bin/sh\nfor a; do case $a in --jobs=71) echo {answer};; esac; done\n')
            squeue.chmod(0o755)
            done = LM.run("train", "--resume", self.out, "--max-steps", 1,
                          env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"})
            self.assertEqual(done.returncode, code, done.stderr)

    def test_a_damaged_lock(self):
        self.out.mkdir()
        for content in ("", "{", "[1]", '{"token": "../../x"}', '{"token": 7, "host": {}}', "\0\xff"):
            self.lock.write_text(content)
            self.refused("train", "--out", self.out, *self.arguments, "--max-steps", 1,
                         says="a process whose lock file cannot be read.* remove .*run.lock$")

    def test_a_lock_that_is_no_file(self):
        self.out.mkdir()
        for make in (self.lock.mkdir, lambda: os.mkfifo(self.lock)):
            make()
            self.refused("train", "--out", self.out, *self.arguments, "--max-steps", 1,
                         says="a process whose lock file cannot be read")
            self.lock.rmdir() if self.lock.is_dir() else self.lock.unlink()

    def test_overwriting_leaves_the_files_of_others(self):
        self.train("--max-steps", 1, *self.arguments[2:])
        mine = [self.out / "notes.txt", self.out / "checkpoints/of-a-friend.h5", self.out / "checkpoints/figures/a.svg"]
        for path in mine:
            path.parent.mkdir(exist_ok=True)
            path.write_text("mine")
        self.train("--max-steps", 2, "--overwrite", *self.arguments[2:])
        self.assertEqual([p.read_text() for p in mine], ["mine"] * 3)
        self.assertEqual([p.name for p in self.out.glob("checkpoints/step-*")], ["step-0000000002.h5"])

    def test_a_run_that_failed_before_its_first_checkpoint_is_no_run(self):
        self.ends(1, "train", "--out", self.out, *self.arguments, "--lr", 1e38, "--epochs", 3,
                  says="the loss became")
        self.assertTrue((self.out / "metrics.jsonl").exists())
        self.train("--max-steps", 1, *self.arguments[2:])

    @needs_h5py
    def test_going_back_to_an_earlier_checkpoint(self):
        checkpoints = self.out / "checkpoints"
        self.train("--max-steps", 12, "--checkpoint-steps", 2, "--keep", 5, "--wire", "bf16", "--exact-conv",
                   "--log-every", 1, *self.arguments[2:])

        def contents():
            return {p.name: zlib.crc32(p.read_bytes()) for p in self.out.rglob("*") if p.is_file()}

        before = contents()
        told = self.succeed("train", "--resume", checkpoints / "step-0000000004.h5", "--max-steps", 4)
        self.assertIn("step limit reached after epoch 0, step 4", told)
        self.assertEqual(before, contents(), "no step, no change")
        told = self.succeed("train", "--resume", checkpoints / "step-0000000004.h5", "--max-steps", 6,
                            "--checkpoint-steps", 1, "--keep", 2, "--log-every", 1)
        self.assertEqual(sorted(p.name for p in checkpoints.iterdir()),
                         ["abandoned-1", "step-0000000005.h5", "step-0000000006.h5"])
        aside = checkpoints / "abandoned-1"
        self.assertEqual(sorted(p.name for p in aside.iterdir()),
                         ["metrics.jsonl", *(f"step-{step:010}.h5" for step in (6, 8, 10, 12))])
        self.assertIn(f"checkpoints that do not lead to step 4 were moved to {aside}", told)
        self.assertIn("other options than those of the checkpoint: --checkpoint-steps 1 (was 2)\n", told)
        self.assertEqual([r["step"] for r in records(self.out, "step")], list(range(1, 7)))
        found = attributes(newest(self.out))
        self.assertEqual((found["config.wire"], found["config.exact-conv"], found["config.checkpoint-steps"]),
                         ("bf16", "true", "1"))
        # Another run's checkpoint does not go on in this folder.
        elsewhere = self.folder / "elsewhere.h5"
        shutil.copy(aside / "step-0000000012.h5", elsewhere)
        before = {p: p.stat().st_mtime_ns for p in self.out.rglob("*")}
        self.refused("train", "--resume", elsewhere, "--out", self.out,
                     says=f"--out {self.out}: holds another run than that of {elsewhere}, which --resume names")
        self.assertEqual(before, {p: p.stat().st_mtime_ns for p in self.out.rglob("*")})

    def test_names_that_cannot_be(self):
        long, deep = "x" * 300, "abcdefgh/" * 600
        for name in (long, deep):
            for arguments in (["train", *self.arguments, "--out", name], ["corpus", "--words", 100, "--out", name],
                              ["train", "--data", name, "--out", self.out], ["evaluate", "--checkpoint", name],
                              ["train", "--resume", name]):
                self.refused(*arguments, says=f"{name[:200]}.*: File name too long")
        self.refused("train", *self.arguments, "--out", "", says="--out: found an empty name")

    def test_output_that_cannot_be_written(self):
        self.train("--max-steps", 1, *self.arguments[2:])
        subcommands = (["train", "--help"], ["train", "--resume", self.out, "--max-steps", 40],
                 ["evaluate", "--checkpoint", self.out, "--test", self.text / "ptb.test.txt", "--json"])
        for arguments in subcommands:
            with open("/dev/full", "w") as full:
                done = subprocess.run(LM.command(0, *arguments), stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(LM.errors(done)[0], "cannot write the output")
        self.assertEqual(newest(self.out).name, "step-0000000040.h5")

    def test_a_refused_run_leaves_no_folder(self):
        self.refused("train", "--out", self.out, *self.arguments, "--global-batch", 10**9, says="batch")
        self.assertFalse(self.out.exists())

    def test_evaluating_the_newest_checkpoint_while_it_is_replaced(self):
        run = self.start("--checkpoint-steps", 1, "--keep", 1)
        for _ in range(5):
            self.evaluate(self.out, "--test", self.text / "ptb.test.txt")
        self.assertIsNone(run.poll())


if __name__ == "__main__":
    unittest.main(verbosity=2)
