#!/usr/bin/env python3
"""Measures how long a training run needs to continue after one of its ranks is killed: without that rank (ULFM), with a
spare rank in its place, and by a new mpirun from the last checkpoint. Usage: ./dev run python3
scripts/recovery-times.py [--ranks N] [--repeats N]"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

PROGRAM = "keelson-cosmoflow"
MPIRUN = ["mpirun", "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]


def records(out):
    try:
        lines = (out / "metrics.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith("}")]


def last_step(out):
    return max((r["step"] for r in records(out) if r["type"] == "step"), default=0)


def wait_for(run, there, limit=300):
    end = time.monotonic() + limit
    while not there():
        if run.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"the run ended early ({run.poll()})")
        time.sleep(0.002)


def start(out, options, arguments):
    return subprocess.Popen([*MPIRUN, *options, PROGRAM, "train", "--out", str(out), "--log-every", "1", *arguments],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def ranks_of(run):
    """The ranks' process numbers, in order of ranks."""
    files = pathlib.Path(f"/proc/{run.pid}/task").glob("*/children")
    found = {}
    for pid in [int(word) for file in files for word in file.read_text().split()]:
        words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        found[int(dict(w.split(b"=", 1) for w in words if b"=" in w)[b"OMPI_COMM_WORLD_RANK"])] = pid
    return found


def kill_one(run, out, step, ranks):
    """Kills one of the first `ranks` ranks."""
    wait_for(run, lambda: last_step(out) >= step)
    os.kill(ranks_of(run)[random.randrange(ranks)], signal.SIGKILL)
    return time.monotonic(), last_step(out)


def end(run):
    run.terminate()
    run.wait()


def shrink(folder, ranks, training, step):
    """Seconds from the kill to the end of the repeated step, and the run's own figures."""
    out = folder / "shrink"
    run = start(out, ["--with-ft", "ulfm", "-n", str(ranks)], training)
    killed, _ = kill_one(run, out, step, ranks)
    found = []
    wait_for(run, lambda: found.extend(r for r in records(out) if r.get("event") == "ranks lost") or found)
    seconds = time.monotonic() - killed
    parts = [float(s) for s in re.findall(r"([\d.]+) (?:interrupted|to agree|to rebuild|to do)", found[0]["text"])]
    end(run)
    return seconds, parts


def restart_in_place(folder, ranks, training, step):
    """Seconds from the kill to the first step that the run had not done before, and the run's own figures."""
    out = folder / "spare"
    run = start(out, ["--with-ft", "ulfm", "-n", str(ranks + 1)],
                [*training, "--checkpoint-steps", "5", "--spares", "1"])
    killed, done = kill_one(run, out, step, ranks)
    found = []
    wait_for(run, lambda: found.extend(r for r in records(out) if r.get("event") == "ranks lost") or found)
    wait_for(run, lambda: last_step(out) > done)  # records after the checkpoint are removed when training begins
    seconds = time.monotonic() - killed
    parts = [float(s) for s in re.findall(r"([\d.]+) (?:interrupted|to agree|to begin)", found[0]["text"])]
    end(run)
    return seconds, parts


def restart(folder, ranks, training, step):
    """Seconds from the kill to the first step that the killed run had not done; and those to the end of the job."""
    out = folder / "restart"
    run = start(out, ["-n", str(ranks)], [*training, "--checkpoint-steps", "5"])
    wait_for(run, lambda: list((out / "checkpoints").glob("step-*.h5")))  # training does not wait for the checkpoint
    killed, done = kill_one(run, out, step, ranks)
    run.wait()
    ended = time.monotonic() - killed
    run = start(out, ["-n", str(ranks)], ["--resume"])
    # Records after the checkpoint are removed when training begins.
    wait_for(run, lambda: any(r.get("event") == "resume" for r in records(out)) and last_step(out) > done)
    seconds = time.monotonic() - killed
    end(run)
    return seconds, [ended]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="keelson-recovery-"))
    try:
        data = folder / "data"
        subprocess.run([PROGRAM, "generate", "--out", data, "--size", "32", "--particles", "1", "--order", "1", "--train",
                        "64", "--validation", "4", "--test", "0"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        training = ["--data", str(data), "--batch", "1", "--epochs", "50", "--lr", "0.001", "--overwrite"]
        print(f"{options.ranks} ranks, seconds from SIGKILL to the end of the first step that was not done before; "
              f"medians of {options.repeats}")
        for name, measure, parts in (
                ("shrink (ULFM)", shrink, ["interrupted", "agree and regroup", "rebuild", "do it again"]),
                ("in place, with a spare", restart_in_place, ["interrupted", "agree and regroup", "begin anew"]),
                ("fresh mpirun, --resume", restart, ["end of the job"])):
            found = []
            for i in range(options.repeats):
                found.append(measure(folder, options.ranks, training, 8 + 2 * i))
                for out in ("shrink", "spare", "restart"):
                    shutil.rmtree(folder / out, ignore_errors=True)
            seconds = statistics.median(s for s, _ in found)
            middle = [statistics.median(p) for p in zip(*(p for _, p in found))]
            text = ", ".join(f"{what} {value:.3f}" for what, value in zip(parts, middle))
            print(f"{name:24} {seconds:7.2f}   ({text})", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
