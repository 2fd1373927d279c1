"""Stages that train CosmoFlow on made-up universes: `accuracy`, `input`, `replay`, and `ranks`."""

import json
import os

from .check import FAILED, PASSED, SKIPPED

NEAR = 0.02  # relative to the validation MAE in fp32
# For runs that ask for correctness: they are not to spend their time on the choice of algorithms.
UNTUNED = {"KEELSON_TUNE": "off"}


def universes(check):
    """The folder with the universes, made once; None if they cannot be made. It has two folders of the same files:
    train/, and many/ with each file several times, so that an epoch lasts some seconds."""
    folder = check.work / "universes"
    if not check.found("data"):
        size, train, validation = (32, 8, 4) if check.quick else (128, 40, 16)
        stage, check.stage = check.stage, "data"
        made = check.run("generate", [check.node.program("keelson-cosmoflow"), "generate", "--out", folder, "--size", size,
                                      "--particles", 1, "--order", 1, "--prior", "public", "--train", train,
                                      "--validation", validation, "--test", 1])
        many = folder / "many"
        if made.ok:
            many.mkdir(exist_ok=True)
            for copy in range(2 if check.quick else 12):
                for file in sorted((folder / "train").iterdir()):
                    link = many / f"{copy:02}_{file.name}"
                    if not link.exists():
                        os.link(file, link)
        check.record("universes", PASSED if made.ok else FAILED, made, cells=size, files=train)
        check.stage = stage
    return folder if check.found("data")["status"] == PASSED else None


def train(check, name, data, *options, ranks=0, env=None):
    """Trains; returns the ended command and the records of metrics.jsonl."""
    run = check.work / "runs" / name.replace(" ", "-")
    launcher = check.node.mpiexec() + ["-n", ranks] if ranks else []
    done = check.run(name, [*launcher, check.node.program("keelson-cosmoflow"), "train", "--data", data, "--out", run,
                            "--overwrite", "--checkpoint-every", 0, *options], env=env)
    metrics = run / "metrics.jsonl"
    return done, [json.loads(line) for line in metrics.read_text().splitlines()] if done.ok else []


def losses(records):
    return [r["loss"] for r in records if r["type"] == "step"]


def accuracy(check):
    """Trains 200 steps in each precision, from the same parameters and with the same order of samples; then compares
    the MAE of the validation data. A run in fp32 with another seed shows how far apart equally good runs are."""
    data = universes(check)
    if not data:
        return
    steps, batch = (8, 2) if check.quick else (200, 1)
    samples = check.found("data")["files"]
    epochs = -(-steps * batch // samples)
    mae, near_enough = {}, NEAR
    for name, precision, seed in (("fp32", "fp32", 1), ("fp32, another seed", "fp32", 2), ("bf16", "bf16", 1),
                                  ("fp16", "fp16", 1)):
        done, records = train(check, name, data, "--precision", precision, "--batch", batch, "--epochs", epochs,
                              "--max-steps", steps, "--lr", 0.001, "--dropout", 0, "--seed", seed, "--log-every",
                              max(1, steps // 20), env=UNTUNED)
        epochs_done = [r for r in records if r["type"] == "epoch"]
        if not done.ok or not epochs_done:
            unknown = precision == "fp16" and done.code == 2 and check.gpu
            check.record(name, SKIPPED if unknown else FAILED, done,
                         reason=done.reason or "no validation in metrics.jsonl")
            continue
        mae[name] = epochs_done[-1]["metric"]
        apart = abs(mae[name] / mae["fp32"] - 1) if "fp32" in mae else None
        if seed == 2 and apart is not None:
            near_enough = max(NEAR, apart)
        near = precision == "fp32" or (apart is not None and apart <= near_enough)
        # A few steps on a CPU say nothing about accuracy; they only show that this stage works.
        check.record(name, PASSED if near or check.quick else FAILED, done, steps=epochs_done[-1]["step"],
                     mae=mae[name], apart=apart, near_enough=near_enough, first_mae=epochs_done[0]["metric"], losses=losses(records))


def input_from_files(check):
    """Measures samples/s while training from files, and of the reader alone. The target divides the first by the rate
    of the step alone."""
    data = universes(check)
    if not data:
        return
    reader = check.run("reader", [check.node.program("keelson-bench"), "input", "--data", data / "many", "--epochs", 2,
                                  "--json", *([] if check.gpu else ["--codes"])], 20 if not check.quick else 600)
    rates = [e["samples_per_second"] for e in reader.json()["epochs"]] if reader.ok else None
    check.record("reader alone", PASSED if reader.ok else FAILED, reader, samples_per_second=rates and rates[-1],
                 epochs=rates)
    precision = "fp32" if check.gpu else "bf16"
    step = check.run("step", [check.node.program("keelson-bench"), "step", "--size", 32 if check.quick else 128, "--steps",
                              2 if check.quick else 20, "--precision", precision, "--json"])
    if step.ok:
        check.record("step", PASSED, step, samples_per_second=step.json()["samples_per_second"])
    else:
        check.record("step", FAILED, step)
    done, records = train(check, "training", data, "--train", data / "many", "--batch", 1, "--epochs", 2, "--precision",
                          precision, "--log-every", 4 if check.quick else 60)
    rates = [r["samples_per_second"] for r in records if r["type"] == "step"]
    settled = sorted(rates[len(rates) // 2:])  # the second half: the second epoch
    if not done.ok or not settled:
        check.record("training", FAILED, done)
        return
    last = [r for r in records if r["type"] == "epoch"][-1]
    check.record("training", PASSED, done, precision=precision, samples_per_second=settled[len(settled) // 2], rates=rates,
                 seconds_of=last["seconds"])


def replay(check):
    """Losses of captured steps, with weight gradients on a second stream, must have the same bits as with
    KEELSON_CHECK=1, which runs call by call. Samples are small, since KEELSON_CHECK=1 copies every operand of every
    call to the host."""
    data = universes(check)
    if not data:
        return
    steps = 6  # captured in the second and third, and launched from then on
    captured = {**UNTUNED, "KEELSON_VERBOSE": "1", "KEELSON_OVERLAP": "on"}
    for precision in ("bf16", "fp16", "fp32"):
        options = ("--size", 32, "--precision", precision, "--batch", 1, "--max-steps", steps, "--log-every", 1)
        recorded, first = train(check, f"recorded {precision}", data, *options, env=captured)
        plain, second = train(check, f"unrecorded {precision}", data, *options, env={**UNTUNED, "KEELSON_CHECK": "1"})
        ended = plain if recorded.ok else recorded
        refused = [line for line in recorded.text("err").splitlines() if "is not captured" in line]
        same = recorded.ok and plain.ok and len(losses(first)) == steps and losses(first) == losses(second)
        check.record(precision, PASSED if same and not refused else FAILED, ended, same=same, not_captured=refused,
                     losses=losses(first), unrecorded_losses=losses(second))


def ranks(check):
    """Compares two ranks that share a GPU, with gradients through host memory, with one rank and the same global
    batch."""
    if not check.node.mpiexec():
        check.record("two ranks", SKIPPED, reason="no mpirun")
        return
    data = universes(check)
    if not data:
        return
    env = {**UNTUNED, "KEELSON_COLLECTIVES": "staged", "OMP_NUM_THREADS": "1" if check.gpu else "4"}
    options = ("--global-batch", 4, "--max-steps", 4, "--epochs", 4, "--log-every", 1, "--precision", "fp32")
    one, alone = train(check, "one rank", data, *options, env=env)
    two, together = train(check, "two ranks", data, *options, ranks=2, env=env)
    a, b = losses(alone), losses(together)
    apart = max((abs(x - y) / abs(x) for x, y in zip(a, b)), default=None)
    same = one.ok and two.ok and len(a) == len(b) > 0 and apart < 1e-4
    check.record("two ranks", PASSED if same else FAILED, two if one.ok else one, apart=apart, losses=a, losses_of_two=b)
    bench = check.run("step", [*check.node.mpiexec(), "-n", 2, check.node.program("keelson-bench"), "step", "--size",
                               32 if check.quick else 128, "--steps", 2, "--json"], env=env)
    check.record("step of two", PASSED if bench.ok else FAILED, bench,
                 **({k: bench.json()[k] for k in ("samples_per_second", "device")} if bench.ok else {}))
