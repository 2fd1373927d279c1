"""Runs exported models by onnxruntime and compares with what the engine gave: run_models.py MODELS.json

The file lists models; of each, runs for one batch size; of each run, calls one after the other, whose outputs "<state>_next" are the
inputs "<state>" of the next call. Where the package onnx is there, its checker reads each model. Exit code 77: there is no onnxruntime.
"""

import json
import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from onnx_session import onnxruntime, open_session

try:
    import numpy
except ImportError:
    numpy = None

# In a process of its own: some builds of the two packages do not get along in one.
CHECK = """
import sys
try:
    import onnx.checker
except ImportError:
    sys.exit(77)
for path in sys.argv[1:]:
    onnx.checker.check_model(path, full_check=True)
"""
TOLERANCE = 1e-5


def load(array):
    return numpy.fromfile(array["file"], array["dtype"]).reshape(array["shape"])


def compare(session, calls):
    """The largest difference relative to an output's largest element."""
    worst, states = 0.0, {}
    types = {i.name: i for i in session.get_inputs()}
    for call in calls:
        feed = {a["name"]: load(a) for a in call["inputs"]}
        batch = next(iter(feed.values())).shape[0]
        for name in types:
            if name not in feed:  # a state: zeros at first
                feed[name] = states.get(name, numpy.zeros([batch] + types[name].shape[1:], numpy.float32))
        names = [o.name for o in session.get_outputs()]
        got = dict(zip(names, session.run(names, feed)))
        assert sorted(names) == sorted(a["name"] for a in call["outputs"]), names
        for expected in call["outputs"]:
            values, want = got[expected["name"]], load(expected)
            assert values.shape == want.shape, f"{expected['name']} is {values.shape}, expected {want.shape}"
            assert numpy.isfinite(want).all() and abs(want).max() > 0, expected["name"]
            worst = max(worst, float(abs(values - want).max() / abs(want).max()))
        states = {name.removesuffix("_next"): values for name, values in got.items() if name.endswith("_next")}
    return worst


def main():
    if not onnxruntime or not numpy:
        sys.exit(77)
    with open(sys.argv[1]) as f:
        models = json.load(f)
    checked = subprocess.run([sys.executable, "-c", CHECK, *(m["file"] for m in models)]).returncode
    print({0: "onnx.checker has read all models", 77: "not checked: Python has no onnx"}.get(checked, "onnx.checker has found a FAULT"))
    failed = checked not in (0, 77)
    for model in models:
        session = open_session(model["file"])
        worst = max(compare(session, calls) for calls in model["runs"])
        failed |= not worst < TOLERANCE
        print(f"{model['name']}: largest difference {worst:.1e}{'' if worst < TOLERANCE else f', EXPECTED LESS THAN {TOLERANCE}'}")
    sys.exit(failed)


main()
