"""Stages that time steps: `bench`; `torch`, which takes turns with PyTorch on the same GPU; and `kernels`, which times
each kernel."""

import csv
import os
import pathlib
import statistics
import sys

from .check import FAILED, PASSED, SKIPPED

TURNS = 2


def size_of(check, net):
    if net not in ("mlperf", "paper"):
        return ()
    return ("--size", 128 if not check.quick else 80 if net == "paper" else 32)


def cases(check):
    """(net, precision, batch, with the plan's rows), the most important ones first; batch 0 is the network's
    default."""
    if check.quick:
        return [("mlperf", "fp32", 1, True), ("lstm-small", "fp32", 0, False)]
    telling = [("mlperf", "bf16", 1), ("lstm-medium", "bf16", 0), ("lstm-large", "bf16", 0), ("deepcam", "bf16", 2),
               ("tiramisu", "bf16", 2), ("mlperf", "fp32", 1), ("paper", "bf16", 1), ("lstm-small", "bf16", 0)]
    everything = [(net, precision, batch) for batch in (1, 4) for net in ("mlperf", "paper")
                  for precision in ("bf16", "tf32", "fp16", "fp32")]
    everything += [(net, precision, 0) for precision in ("tf32", "fp32", "fp16")
                   for net in ("lstm-medium", "lstm-large", "lstm-small")]
    return [(*case, True) for case in telling] + [(*case, False) for case in everything if case not in telling]


def rate(net, result):
    return result["words_per_second" if net.startswith("lstm-") else "samples_per_second"]


def step(check, name, net, precision, batch, *options):
    """Runs keelson-bench step; returns the ended command and its JSON."""
    steps = 2 if check.quick else 20
    done = check.run(name, [check.node.program("keelson-bench"), "step", "--net", net, *size_of(check, net), "--batch", batch,
                            "--precision", precision, "--steps", steps, "--json", *options], env={"KEELSON_VERBOSE": "1"})
    return done, done.json() if done.ok else None


def time_case(check, name, net, precision, batch):
    """With KEELSON_VERBOSE=1, the log says what the tuner measured, which parts were not captured as a CUDA graph, and
    the times with weight gradients on a second stream and without."""
    done, result = step(check, name, net, precision, batch)
    if not done.ok:
        check.record(name, FAILED, done)
        return
    said = done.text("err").splitlines()
    tuner = [line for line in said if "is the fastest" in line]
    not_captured = [line for line in said if "is not captured" in line]
    overlap = [line for line in said if "beside data gradients" in line]
    reason = {"reason": "a part of the step is not recorded as a CUDA graph"} if not_captured else {}
    check.record(name, FAILED if not_captured else PASSED, done, rate=rate(net, result),
                 milliseconds=result["seconds_per_step"] * 1e3, gflop_per_second=result["gflop_per_second"],
                 start_seconds=start_seconds(done, result), **reason,
                 result=result, tuned=len(tuner), tuner=tuner, not_captured=not_captured, overlap=overlap)


def start_seconds(done, result):
    """Seconds until the first of 20 steps before the 200 timed ones, with the choice of algorithms if the tuner's cache
    does not know them. The same case's second start, in time_calls(), finds them there."""
    return round(done.seconds - 220 * result["seconds_per_step"], 2)


def time_calls(check, name, net, precision, batch):
    """Records the plan's rows, in a separate run, since timing calls one by one makes a step slower."""
    done, result = step(check, name, net, precision, batch, "--plan")
    if not done.ok:
        check.record(name, FAILED, done)
        return
    slowest = sorted(result["rows"], key=lambda r: -r["milliseconds"])[:8]
    check.record(name, PASSED, done, calls=len(result["rows"]), milliseconds=sum(r["milliseconds"] for r in result["rows"]),
                 rows=result["rows"], peaks=result["peaks"],
                 slowest=[[r[key] for key in ("phase", "node", "op", "kernel", "milliseconds", "share_of_peak")]
                          for r in slowest])


def bench(check, again=False):
    """Times each network in each precision; again: only those that were skipped the first time."""
    for net, precision, batch, rows in cases(check):
        name = f"{net} {precision}" + (f" batch {batch}" if batch else "")
        for title, run in ((name, time_case), (f"plan {name}", time_calls)) if rows else ((name, time_case),):
            before = check.found("bench", title)
            if not again or (before and before["status"] == SKIPPED):
                run(check, title, net, precision, batch)


def kernels(check):
    """Asks Nsight Compute for the time of each kernel of MLPerf CosmoFlow's step: the sum, less than the step's time,
    tells the gaps between kernels. The names that take most time are recorded."""
    tool = check.node.tool("ncu")
    if not tool:
        check.record("ncu", SKIPPED, reason="no ncu (Nsight Compute), in PATH or CUDA_HOME")
        return
    steps = 1 + 10  # one before, which is not captured; keelson-bench times ten together
    command = [tool, "--clock-control", "none", "--metrics", "gpu__time_duration.sum", "--csv", "--print-units", "base",
               check.node.program("keelson-bench"), "step", "--net", "mlperf", *size_of(check, "mlperf"), "--precision", "bf16",
               "--steps", 1, "--warmup", 1]
    done = check.run("mlperf bf16", command)
    lines = [line for line in done.text().splitlines() if line.startswith('"')]
    total, count = {}, {}
    for row in csv.DictReader(lines):
        if row.get("Metric Name") == "gpu__time_duration.sum":
            name = row["Kernel Name"]
            total[name] = total.get(name, 0) + float(row["Metric Value"].replace(",", "")) * 1e-6
            count[name] = count.get(name, 0) + 1
    if not done.ok or not total:
        check.record("mlperf bf16", FAILED, done)
        return
    step_ms = (check.found("bench", "mlperf bf16 batch 1") or {}).get("milliseconds")
    slowest = sorted(total, key=total.get, reverse=True)[:40]
    check.record("mlperf bf16", PASSED, done, kernels=sum(count.values()) / steps, kernel_milliseconds=sum(total.values()) / steps,
                 step_milliseconds=step_ms, slowest=[[total[n] / steps, count[n] / steps, n] for n in slowest])


def rest(check):
    """Runs the cases for which stage `bench` had no time, in the time that all other stages have left."""
    check.stage = "bench"
    bench(check, again=True)


def torch(check):
    """Runs Keelson, PyTorch, Keelson, PyTorch on the same GPU, with PyTorch's fastest settings (torch_step.py)."""
    python = os.environ.get("KEELSON_TORCH_PYTHON", sys.executable)
    script = pathlib.Path(__file__).with_name("torch_step.py")
    plain = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}  # PyTorch brings its own libraries
    there = check.run("import", [python, script, "--version"], 60, plain)
    if not there.ok:
        check.record("PyTorch", SKIPPED, there, reason="not there: " + (there.text("err").splitlines() or ["?"])[-1])
        return
    check.record("PyTorch", PASSED, there, **there.json())
    if not check.gpu:
        peaks = check.run("ceilings", [python, script, "--ceilings"], 60, plain)
        check.record("ceilings", PASSED if peaks.ok else FAILED, peaks, **(peaks.json() if peaks.ok else {}))
    precision = "fp32" if check.gpu else "bf16"
    for net in ("mlperf",) if check.quick else ("mlperf", "lstm-medium", "lstm-large", "paper"):
        batch = 20 if net.startswith("lstm-") else 1
        ours, theirs, failed = [], [], None
        for turn in range(TURNS):
            done, result = step(check, f"keelson {net} {turn}", net, precision, batch)
            if not done.ok:
                failed = done
                break
            ours.append(rate(net, result))
            peer = check.run(f"torch {net} {turn}", [python, script, "--net", net, *size_of(check, net), "--batch", batch,
                                                     "--precision", precision, "--steps", 1 if check.quick else 8], 60, plain)
            if not peer.ok:
                failed = peer
                break
            theirs.append(peer.json())
        if failed:
            check.record(net, FAILED, failed, keelson=ours)
            continue
        best = [max(v["rate"] for v in p["variants"].values() if "rate" in v) for p in theirs]
        check.record(net, PASSED, precision=precision, batch=batch, keelson=statistics.median(ours),
                     pytorch=statistics.median(best), times=statistics.median(o / t for o, t in zip(ours, best)),
                     turns=[ours, best], variants=theirs[-1]["variants"])
