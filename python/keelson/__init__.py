"""Keelson trains deep networks on scientific data, on laptops and supercomputers.

    import keelson
    from keelson import layers

    graph = keelson.Graph("mine")
    x, y = graph.input("x", (1, 32, 32, 32)), graph.input("y", (1,))
    h = layers.relu(layers.conv(x, 16, name="conv1"))
    h = layers.dense(layers.flatten(layers.global_average_pool(h)), 1, name="head")
    graph.output("prediction", h)
    layers.mse(h, y)

    context = keelson.Context()
    parameters = keelson.Parameters(graph, context, seed=1)
    trainer = keelson.Trainer(parameters, {"x": cubes, "y": amplitudes}, epochs=10)
    history = trainer.run()
    print(history["loss"])
"""

import atexit as _atexit
import collections.abc as _abc
import os as _os
import sys as _sys

# Lets waiting OpenMP threads sleep soon, so that processes can share cores. libgomp reads the variable when it is
# loaded.
if "OMP_WAIT_POLICY" not in _os.environ:
    _os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from ._errors import Error, InputError, OutOfMemory, RanksLost, UnknownName
from . import _engine
from ._engine import (
    Checkpoint, Communicator, Context, Epoch, Evaluation, Graph, Inference, Init, NetworkChange, Parameters, Plan, RateRange, RunState,
    Step, Trainer, Var, backends, change_channels, evaluate, export_onnx, layers, metrics, optim, world)
from ._engine import version as __version__
from . import data, nets
from ._callback import Callback
from ._ensemble import Ensemble
from ._estimators import KeelsonClassifier, KeelsonRegressor, fit
from ._history import History
from ._onnx import OnnxNetwork, from_onnx
from ._predictor import Predictor
from ._progress import Progress
from ._search import FoundNetwork, SearchResult, search
from ._stopping import EarlyStopping, ReduceOnPlateau

__all__ = [
    "Callback", "Checkpoint", "Communicator", "Context", "EarlyStopping", "Ensemble", "Epoch", "Error", "Evaluation",
    "FoundNetwork", "Graph", "History", "Inference", "Init", "InputError", "KeelsonClassifier", "KeelsonRegressor",
    "NetworkChange", "OnnxNetwork", "OutOfMemory", "Parameters", "Plan", "Predictor", "Progress", "RanksLost", "RateRange", "ReduceOnPlateau",
    "RunState", "SearchResult", "Step", "Trainer", "UnknownName", "Var", "backends", "change_channels", "data", "evaluate",
    "export_onnx", "fit", "from_onnx", "layers", "metrics", "nets", "optim", "search", "world"]

_sys.modules[__name__ + ".layers"] = layers
_sys.modules[__name__ + ".metrics"] = metrics
_sys.modules[__name__ + ".optim"] = optim
_abc.Mapping.register(Parameters)

_failure = [0, ""]


def _note_failure(kind, value, traceback, _hook=_sys.excepthook):
    """An exception that ends one rank also ends the others, which would otherwise wait for it."""
    _failure[:] = [1, f"{kind.__name__}: {value}"]
    _hook(kind, value, traceback)


_sys.excepthook = _note_failure
_atexit.register(lambda: _engine._shut_down(*_failure))
