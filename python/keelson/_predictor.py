"""A network that a search has found, or that keelson-tabular has trained, ready to predict."""

import json

import numpy

from . import _engine, _errors, nets

__all__ = ["Predictor"]


class Predictor:
    """The network of a checkpoint of a search or of keelson-tabular, which predicts from numbers in the units of the data.

    model(x) takes samples as the training's data had them, and scales them as the training did. It returns numbers in
    the units of y, (samples, numbers), or probabilities of the classes, (samples, classes). checkpoint: a file, or a
    folder with checkpoints; context: the device, by default this process' own; batch: samples that are computed at once.

    graph, parameters: the network and its trained values. inference: predicts from standardised numbers. classifies:
    whether it predicts classes. classes: their names, if they have names.
    """

    def __init__(self, checkpoint, *, context=None, batch=64):
        found = _engine.Checkpoint(checkpoint)
        if "scaling" not in found.state.texts:
            raise _errors.InputError(f"{found.path}: is not of a network that a search has found, or that keelson-tabular "
                                     "has trained. Make others by keelson.nets.from_checkpoint")
        self.graph = nets.from_checkpoint(found.state)
        self.parameters = _engine.Parameters(self.graph, context or _engine.Context())
        found.load(self.parameters)
        self.inference = _engine.Inference(self.parameters, batch=batch)
        scaling = json.loads(found.state.texts["scaling"])
        self.classifies = self.graph.inputs["y"][1] == "int32"
        self.classes = scaling["classes"]
        self._x, self._y, self._layout = scaling["x"], scaling["y"], scaling["layout"]

    def prepare(self, x):
        """The samples as the network reads them: (N, C, [D,] H, W), standardised, float32."""
        x = numpy.asarray(x)
        if self._layout == "none" and x.ndim >= 3:
            x = x[:, None]
        elif self._layout == "channels-last" and x.ndim >= 4:
            x = numpy.moveaxis(x, -1, 1)
        means, deviations = (numpy.array(self._x[name]) for name in ("means", "deviations"))
        if means.size > 1 and x.ndim >= 2 and x.shape[1] == means.size:
            means, deviations = (a.reshape(1, -1, *[1] * (x.ndim - 2)) for a in (means, deviations))
        elif means.size > 1:
            raise _errors.InputError(f"x has the shape {x.shape}. Expected {means.size} channels or features, as the data of "
                                     "the training had")
        logs = numpy.array(self._x.get("logs", []), dtype=bool)
        if logs.any():
            x = numpy.where(logs, numpy.log1p(numpy.maximum(x, 0)), x)
        return numpy.ascontiguousarray((x - means) / deviations if means.size else x, dtype="float32")

    def raw(self, x):
        """Numbers in the units of y; of classes, logits."""
        predicted = self.inference(self.prepare(x))
        if not self._y["means"]:
            return predicted
        return (predicted * numpy.array(self._y["deviations"]) + numpy.array(self._y["means"])).astype("float32")

    def __call__(self, x):
        predicted = self.raw(x)
        return _engine.ensemble.combine_classes([predicted])["mean"] if self.classifies else predicted

    def __repr__(self):
        return f"<keelson.Predictor: {self.graph!r}>"
