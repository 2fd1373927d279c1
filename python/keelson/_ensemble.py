"""Several networks that predict together, and how sure they are."""

import json
import os

import numpy

from . import _engine, _errors, nets
from ._predictor import Predictor

__all__ = ["Ensemble"]


class _Member:
    """What a member predicts: logits of classes, or numbers."""

    def __init__(self, model, batch):
        self.model = model
        graph = model.graph if isinstance(model, (_engine.Parameters, Predictor)) else None
        if isinstance(model, _engine.Inference):
            graph = model.parameters.graph
        elif isinstance(model, _engine.Parameters):
            self.model = _engine.Inference(model, batch=batch)
        elif graph is None and not callable(model):
            raise _errors.InputError(f"a member is a {type(model).__name__}. Expected keelson.Parameters, an Inference, a "
                                     "Predictor, or a function that returns logits or numbers")
        self.classifies = graph.inputs["y"][1] == "int32" if graph is not None and "y" in graph.inputs else None

    def predict(self, x):
        found = self.model.raw(x) if isinstance(self.model, Predictor) else self.model(x)
        if isinstance(found, dict):
            name = next((n for n in ("prediction", "logits") if n in found), None)
            if name is None:
                raise _errors.InputError(f"a member has the outputs {', '.join(found)}. Expected 'prediction' or 'logits'")
            found = found[name]
        found = numpy.ascontiguousarray(found, dtype="float32")
        return found[:, None] if found.ndim == 1 else found


class Ensemble:
    """Networks that predict together: the mean of their probabilities, or of the numbers that they predict.

    models: keelson.Parameters, Inference, Predictor (of searches; designs may differ), or functions of x that return
    logits (N, classes, ...) or numbers (N, targets). classes: whether they predict classes; by default the networks say.
    batch: samples that are computed at once. The predictions of all members for all samples are in memory together.
    Each rank predicts for itself. Recurrent networks begin each batch without a state.

    classifies: whether the members predict classes. temperature: of the probabilities, after they have been averaged:
    p^(1/T), normalised. scales: factors on the variance of each target; empty: 1. calibrate() sets them.
    """

    def __init__(self, models, *, classes=None, batch=64):
        self._members = [_Member(model, batch) for model in models]
        if not self._members:
            raise _errors.InputError("an ensemble of no models. Expected at least one")
        known = {m.classifies for m in self._members} - {None}
        if len(known) > 1:
            raise _errors.InputError("some members predict classes and others numbers. Expected the same of all")
        self.classifies = bool(classes if classes is not None else known.pop() if known else False)
        self.temperature = 1.0
        self.scales = []

    @classmethod
    def load(cls, folder, *, best=True, context=None, batch=64):
        """The members in the folder of a program's `train --members`. best: the best checkpoint of each, else the
        newest. context: the device, by default this process' own."""
        path = os.path.join(folder, "ensemble.json")
        try:
            with open(path) as file:
                listed = [member["folder"] for member in json.load(file)["members"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _errors.InputError(f"{path}: {error}. Expected the folder of a program's train --members") from None
        context = context or _engine.Context()
        models = []
        for name in listed:
            checkpoint = _engine.Checkpoint(os.path.join(folder, name), best=best)
            models.append(_engine.Parameters(nets.from_checkpoint(checkpoint.state), context))
            checkpoint.load(models[-1])
        return cls(models, batch=batch)

    def __len__(self):
        return len(self._members)

    def _all(self, x):
        return [member.predict(x) for member in self._members]

    def _combine(self, predicted):
        if self.classifies:
            return _engine.ensemble.combine_classes(predicted, self.temperature)
        return _engine.ensemble.combine_values(predicted, self.scales)

    def _truth(self, y):
        y = numpy.asarray(y)
        if self.classifies and y.dtype.kind not in "biu":
            raise _errors.InputError(f"y has the dtype {y.dtype}. Expected whole numbers, the classes")
        y = numpy.ascontiguousarray(y, dtype="int32" if self.classifies else "float32")
        return y[:, None] if y.ndim == 1 and not self.classifies else y

    def predict(self, x, *, members=False):
        """The mean: probabilities (N, classes, ...) at the temperature, or numbers (N, targets). With members=True, what
        each member predicts, with the members as a first dimension: (members, N, ...)."""
        predicted = self._all(x)
        if not members:
            return self._combine(predicted)["mean"]
        if self.classifies:
            predicted = [_engine.ensemble.combine_classes([p])["mean"] for p in predicted]
        return numpy.stack(predicted)

    def uncertainty(self, x):
        """How unsure each prediction is: 'total' = 'aleatoric' (noise of the data, as the members see it) + 'epistemic'
        (what the members do not agree on). Of classes entropies in nats, (N, ...): of the mean probabilities, the mean of
        the members' entropies, and their difference (BALD), before the temperature. Of numbers variances, (N, targets),
        times the scales; members that predict no variances of their own have no aleatoric part."""
        found = self._combine(self._all(x))
        return {name: found[name] for name in ("total", "aleatoric", "epistemic")}

    def scores(self, x, y):
        """Scores on labelled data. Of classes: 'nll', 'brier', 'ece', 'accuracy', the mean 'entropy' and its parts
        'aleatoric' and 'epistemic', 'reliability' (count, confidence, accuracy of 15 bins), and 'members': the first four
        of each. Of numbers: 'rmse', 'mae', 'nll', 'crps', 'coverage_50', 'coverage_90', 'aleatoric', 'epistemic', 'pit'
        and 'members'; for several targets a list with a dict for each. docs/ensembles.md explains the scores."""
        predicted, truth = self._all(x), self._truth(y)
        if self.classifies:
            return _engine.ensemble.class_scores(predicted, truth, self.temperature)
        found = _engine.ensemble.value_scores(predicted, truth, self.scales)
        return found[0] if len(found) == 1 else found

    def calibrate(self, x, y):
        """Corrects how sure the ensemble is, by data that the members were not trained on: finds the temperature of the
        mean probabilities, or the scales of the variances, that fits them best. Returns it, and keeps it for predict(),
        uncertainty() and scores()."""
        predicted, truth = self._all(x), self._truth(y)
        if self.classifies:
            self.temperature = _engine.ensemble.fit_temperature(predicted, truth)
            return self.temperature
        scales = _engine.ensemble.fit_scales(predicted, truth)
        if not numpy.all(numpy.isfinite(scales)) or min(scales) <= 0:
            raise _errors.InputError(f"the scales of the variances would be {scales}. Expected members that do not all "
                                     "predict the same")
        self.scales = scales
        return numpy.array(scales)

    def __repr__(self):
        return f"<keelson.Ensemble: {len(self)} members, {'classes' if self.classifies else 'numbers'}>"
