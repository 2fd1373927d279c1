"""The table: targets, measured values, and whether the targets hold."""

from .check import FAILED, PASSED, SKIPPED


class Target:
    """name; measure(check) returns (text, whether the target holds), or None if nothing was measured; the second is
    None if a part was not measured. stage: the stage that measures it."""

    def __init__(self, name, stage, measure):
        self.name, self.stage, self.measure = name, stage, measure


def value(check, stage, name, key):
    found = check.found(stage, name)
    return found.get(key) if found and found["status"] == PASSED else None


def all_passed(stage, prefix=""):
    """All results of the stage whose names begin with the prefix must pass (the last result of each name); unknown if
    one was skipped."""
    def measure(check):
        last = {r["name"]: r["status"] for r in check.results if r["stage"] == stage and r["name"].startswith(prefix)}
        bad = [name for name, status in last.items() if status == FAILED]
        passed = [name for name, status in last.items() if status == PASSED]
        if not bad and not passed:
            return None
        return (f"{len(passed)} of {len(last)}" + (f"; not: {', '.join(bad[:4])}" if bad else ""),
                False if bad else True if len(passed) == len(last) else None)
    return measure


def op_tests(check):
    results = [r for r in check.results if r["stage"] == "ops"]
    ran = sum(r.get("tests", 0) - r.get("skipped", 0) for r in results)
    broken, left_out = (sum(r["status"] == status for r in results) for status in (FAILED, SKIPPED))
    if not ran and not broken:
        return None
    text = f"{ran} tests ran, {broken} suites failed" + (f", {left_out} had no time" if left_out else "")
    return text, False if broken else None if left_out else True


def at_least(least, text, *where):
    def measure(check):
        measured = value(check, *where)
        return None if measured is None else (text.format(measured), measured >= least)
    return measure


def files_of_step(check):
    """The rate of training from files divided by that of the step alone (from stage `bench` if measured, else from
    stage `input`)."""
    training = value(check, "input", "training", "samples_per_second")
    step = value(check, "bench", "mlperf bf16 batch 1", "rate") or value(check, "input", "step", "samples_per_second")
    return None if not training or not step else (f"{training:.0f} of {step:.0f} samples/s, {training / step:.3f}",
                                                  training / step >= 0.95)


def near(precision):
    def measure(check):
        found = check.found("accuracy", precision)
        if not found or found.get("apart") is None:
            return None
        return f"{found['mae']:.4f}, {100 * found['apart']:.2f} % apart", found["status"] == PASSED
    return measure


TARGETS = [
    Target("tests on the device pass", "ops", op_tests),
    Target("recorded steps = unrecorded ones, bit for bit", "replay", all_passed("replay")),
    Target("compute-sanitizer clean", "sanitizer", all_passed("sanitizer")),
    Target("bf16: validation MAE as near to fp32 as another seed, or 2 %", "accuracy", near("bf16")),
    Target("fp16: validation MAE as near to fp32 as another seed, or 2 %", "accuracy", near("fp16")),
    Target("two ranks on one GPU = one rank", "ranks", all_passed("ranks")),
    Target("every network runs in every precision", "bench", all_passed("bench")),
    Target("MLPerf CosmoFlow 128^3, bf16, batch 1: 300 samples/s", "bench",
           at_least(300, "{:.0f} samples/s", "bench", "mlperf bf16 batch 1", "rate")),
    Target("DeepCAM 768 x 1152, bf16, batch 2: 60 samples/s", "bench",
           at_least(60, "{:.1f} samples/s", "bench", "deepcam bf16 batch 2", "rate")),
    Target("Tiramisu 768 x 1152, bf16, batch 2: 36 samples/s", "bench",
           at_least(36, "{:.1f} samples/s", "bench", "tiramisu bf16 batch 2", "rate")),
    Target("MLPerf CosmoFlow from files: 0.95 of the step", "input", files_of_step),
    Target("MLPerf CosmoFlow against PyTorch: 1.5 times", "torch", at_least(1.5, "{:.2f} times", "torch", "mlperf", "times")),
    Target("medium LSTM against PyTorch's cuDNN: 1 time", "torch",
           at_least(1, "{:.2f} times", "torch", "lstm-medium", "times")),
    Target("large LSTM against PyTorch's cuDNN: 1 time", "torch",
           at_least(1, "{:.2f} times", "torch", "lstm-large", "times")),
]


def why_not_measured(check, stage):
    """The reason that the stage recorded, the worst first, or that the stage did not run."""
    results = [r for r in check.results if r["stage"] == stage]
    for status in (FAILED, SKIPPED):
        for r in results:
            if r["status"] == status and "reason" in r:
                return f"{r['name']}: {r['reason']}" if r["name"] != stage else r["reason"]
    return f"stage {stage} has not measured it" if results else f"stage {stage} was not asked for"


def judge(check):
    """Each target as {"target", "stage", "status", "measured"}. Without a GPU, or with --quick, no target passes: all
    are skipped."""
    rows = []
    for target in TARGETS:
        measured = target.measure(check)
        row = {"target": target.name, "stage": target.stage, "measured": measured and measured[0]}
        failed = any(r["stage"] in (target.stage, "data") and r["status"] == FAILED for r in check.results)
        if check.gpu != "" or check.quick:
            row.update(status=SKIPPED, reason="no GPU" if check.gpu != "" else "--quick")
        elif measured and measured[1] is not None:
            row["status"] = PASSED if measured[1] else FAILED
        else:
            row.update(status=FAILED if failed else SKIPPED, reason=why_not_measured(check, target.stage))
        rows.append(row)
    return rows


def table(rows):
    words = {PASSED: "yes", FAILED: "NO", SKIPPED: "skipped"}
    lines = [("target", "measured", "passed")]
    for row in rows:
        lines.append((row["target"], row["measured"] or "", words[row["status"]] + (f": {row['reason']}" if "reason" in row else "")))
    widths = [max(len(line[i]) for line in lines) for i in range(2)]
    return "\n".join(f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in lines)
