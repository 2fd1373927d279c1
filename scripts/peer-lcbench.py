#!/usr/bin/env python3
"""Makes a table for `keelson-search compare` whose losses are those of LCBench's surrogate, instead of trained ones.

    peer-lcbench.py grid/search.jsonl --model yahpo_data/lcbench --task 167168 --out lcbench-167168

Reads the log of a grid of dense networks, which only lists the networks, and writes a folder with the same networks and,
for each rung of 1, 2, 4, ... epochs, the validation cross entropy, the accuracy and the seconds that the surrogate of
YAHPO Gym predicts (Zimmer, Lindauer, Hutter 2021; Pfisterer et al. 2022). The surrogate knows the number of layers, the
units of the widest one, the largest dropout, rate, momentum, weight decay and batch. Needs the package onnxruntime, and
the folder lcbench of github.com/slds-lmu/yahpo_data.
"""

import argparse
import json
import pathlib

import numpy
import onnxruntime

TABLE = []
for byte in range(256):
    value = byte
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    TABLE.append(value)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def line(entry):
    """With the checksum that the log has at the end of each line."""
    entry = {name: value for name, value in entry.items() if name != "check"}
    text = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)[:-1]
    return f'{text},"check":"{crc32c(text.encode()):08x}"}}\n'


def inputs(genome, epoch):
    """In the surrogate's order: epoch, batch, rate, momentum, weight decay, layers, units, dropout."""
    dense, training = genome["dense"], genome["training"]
    return [epoch, float(training["batch"]), float(training["rate"]), float(training["momentum"]),
            float(training["weight_decay"]), len(dense), max(float(layer["units"]) for layer in dense),
            max(float(layer["dropout"]) for layer in dense)]


class Surrogate:
    def __init__(self, folder, task):
        self.task = json.loads((folder / "encoding.json").read_text())["OpenML_task_id"][task]
        self.session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])

    def __call__(self, genomes, epoch):
        """Seconds since the beginning, accuracy in percent, cross entropy, ... of each."""
        x = numpy.array([inputs(g, epoch) for g in genomes], "f4")
        return self.session.run(None, {"x_cat": numpy.full((len(x), 1), self.task, "i4"), "x_cont": x})[0]


def write(log, surrogate, epochs, out):
    entries = [json.loads(text) for text in log.read_text().splitlines() if text.strip()]
    genomes, seen = [], set()
    for entry in entries:
        key = json.dumps(entry.get("genome"), sort_keys=True)
        if entry["type"] == "birth" and key not in seen:
            seen.add(key)
            genomes.append(entry)
    rungs = [surrogate([g["genome"] for g in genomes], 2**k) for k in range(epochs.bit_length())]
    seconds = numpy.maximum.accumulate([r[:, 0] for r in rungs])
    lines = []
    for entry in entries[:1]:
        lines.append(line({**entry, "epochs": float(epochs), "first_epochs": 1.0, "eta": 2}))
    now = 0.0
    for n, birth in enumerate(genomes):
        # A birth names the number of log lines that it has seen.
        lines.append(line({**birth, "slot": 0, "seen": len(lines), "time": now}))
        for k, rung in enumerate(rungs):
            if k > 0:
                lines.append(line({"attempt": 0, "id": n, "rung": k, "slot": 0, "time": now, "type": "run"}))
            took = max(1e-3, float(seconds[k][n] - (seconds[k - 1][n] if k > 0 else 0)))
            now += took
            lines.append(line({"id": n, "loss": float(rung[n, 2]), "metric": float(rung[n, 1]) / 100, "rung": k,
                               "seconds": took, "step_ms": 1.0, "time": now, "type": "result"}))
    out.mkdir(parents=True, exist_ok=True)
    (out / "search.jsonl").write_text("".join(lines))
    last = rungs[-1][:, 2]
    print(f"{out}: {len(genomes)} networks, loss {last.min():.4f} to {last.max():.4f}, median {numpy.median(last):.4f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("log", type=pathlib.Path, help="search.jsonl of `keelson-search run --method grid`")
    p.add_argument("--model", type=pathlib.Path, required=True, help="the folder lcbench of yahpo_data")
    p.add_argument("--task", required=True, help="number of the OpenML task")
    p.add_argument("--epochs", type=int, default=32, help="of the last rung, a power of 2; the surrogate knows up to 52")
    p.add_argument("--out", type=pathlib.Path, required=True, help="folder to write")
    a = p.parse_args()
    write(a.log, Surrogate(a.model, a.task), a.epochs, a.out)
