"""What the rules of MLPerf HPC ask of a log (mlcommons/logging, mlperf_logging/compliance_checker/hpc_3.0.0)."""

import json
import math

POSITIVE = lambda v: v > 0
AT_LEAST_0 = lambda v: v >= 0
SOME_TEXT = lambda v: isinstance(v, str) and v != ""

COMMON = {
    "submission_org": SOME_TEXT,
    "submission_platform": SOME_TEXT,
    "submission_division": lambda v: v in ("closed", "open"),
    "submission_status": lambda v: v in ("cloud", "onprem", "preview", "research"),
    "submission_benchmark": lambda v: v in ("cosmoflow", "deepcam"),
    "train_samples": POSITIVE,
    "eval_samples": POSITIVE,
}
CLOSED = {"number_of_nodes": POSITIVE, "accelerators_per_node": AT_LEAST_0}
COSMOFLOW = {
    "global_batch_size": POSITIVE,
    "opt_name": lambda v: v in ("sgd", "SGD"),
    "opt_base_learning_rate": AT_LEAST_0,
    "opt_learning_rate_warmup_epochs": AT_LEAST_0,
    "opt_learning_rate_warmup_factor": AT_LEAST_0,
    "opt_learning_rate_decay_boundary_epochs": lambda v: isinstance(v, list),
    "opt_learning_rate_decay_factor": lambda v: isinstance(v, list),
    "dropout": lambda v: 0 <= v < 1,
    "opt_weight_decay": AT_LEAST_0,
}
DEEPCAM = {
    "gradient_accumulation_frequency": POSITIVE,
    "seed": POSITIVE,
    "global_batch_size": POSITIVE,
    "batchnorm_group_size": POSITIVE,
    "opt_name": lambda v: v in ("Adam", "AdamW", "LAMB"),
    "opt_lr": POSITIVE,
    "opt_betas": lambda v: len(v) == 2,
    "opt_eps": lambda v: math.isclose(v, 1e-6),
    "scheduler_type": lambda v: v in ("multistep", "cosine_annealing"),
    "scheduler_lr_warmup_steps": AT_LEAST_0,
    "scheduler_lr_warmup_factor": lambda v: v >= 1,
    "train_samples": lambda v: v == 121266,
    "eval_samples": lambda v: v == 15158,
}
MORE = {
    "LAMB": {"opt_bias_correction": bool, "opt_grad_averaging": bool, "opt_max_grad_norm": lambda v: v == 1},
    "multistep": {"scheduler_milestones": lambda v: isinstance(v, list), "scheduler_decay_rate": lambda v: v <= 1},
    "cosine_annealing": {"scheduler_t_max": lambda v: v >= 1, "scheduler_eta_min": AT_LEAST_0},
}
# Intervals, from the outermost to the innermost, and whether a log has one of them or many.
INTERVALS = {"init": 1, "run": 1, "epoch": None, "eval": None}
CONVERGED = {"cosmoflow": ("eval_error", lambda v: 0 < v <= 0.124), "deepcam": ("eval_accuracy", lambda v: 0.82 <= v <= 1)}


def read(path):
    """The events of a log file."""
    token = ":::MLLOG "
    with open(path) as f:
        events = [json.loads(line[len(token):]) for line in f if line.startswith(token)]
    for e in events:
        assert list(e) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"], e
        assert isinstance(e["time_ms"], int) and e["event_type"] in ("INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"), e
    return events


def once(events, rules):
    """Problems of keys that must come exactly once, with a value that fits."""
    found = []
    for key, fits in rules.items():
        values = [e["value"] for e in events if e["key"] == key]
        if len(values) != 1:
            found.append(f"{key} comes {len(values)} times")
        elif not fits(values[0]):
            found.append(f"{key} is {values[0]!r}")
    return found


def order(events):
    """Problems of intervals: an end for each begin, epochs inside the run, times that do not go back."""
    found, open_ones = [], []
    for e in events:
        name, _, edge = e["key"].rpartition("_")
        if name not in INTERVALS or edge not in ("start", "stop"):
            continue
        if name in ("epoch", "eval") and "epoch_num" not in e["metadata"]:
            found.append(f"{e['key']} has no epoch_num")
        if edge == "start":
            expected = {"init": [], "run": [], "epoch": ["run"], "eval": ["run", "epoch"]}[name]
            if open_ones != expected:
                found.append(f"{e['key']} comes within {open_ones}")
            open_ones.append(name)
        elif not open_ones or open_ones.pop() != name:
            found.append(f"{e['key']} has no begin")
    found += [f"{name} has no end" for name in open_ones]
    for name, count in INTERVALS.items():
        starts = sum(e["key"] == name + "_start" for e in events)
        if starts == 0 or (count and starts != count):
            found.append(f"{name}_start comes {starts} times")
    keys = [e["key"] for e in events]
    if "init_stop" in keys and "run_start" in keys and keys.index("init_stop") > keys.index("run_start"):
        found.append("run_start comes before init_stop")
    times = [e["time_ms"] for e in events]
    if times != sorted(times):
        found.append("times go back")
    if [e["metadata"].get("status") for e in events if e["key"] == "run_stop"] not in (["success"], ["aborted"]):
        found.append("run_stop has no status")
    return found


def problems(events):
    """What a checker has to complain of; nothing: the log follows the rules."""
    value = {e["key"]: e["value"] for e in events}
    rules = dict(COMMON)
    if value.get("submission_division") == "closed":
        rules.update(CLOSED)
        rules.update({"cosmoflow": COSMOFLOW, "deepcam": DEEPCAM}.get(value.get("submission_benchmark"), {}))
        for choice in ("opt_name", "scheduler_type"):
            rules.update(MORE.get(value.get(choice), {}))
    found = once(events, rules) + order(events)
    if "cache_clear" not in value:
        found.append("cache_clear is missing")
    metric, converged = CONVERGED.get(value.get("submission_benchmark"), ("", bool))
    results = [e for e in events if e["key"] == metric]
    if not any(converged(e["value"]) for e in results):
        found.append(f"{metric} never reaches the target")
    found += [f"{metric} has no epoch_num" for e in results if "epoch_num" not in e["metadata"]]
    return found
