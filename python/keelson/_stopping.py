"""Callbacks that look at how the epochs go: they end training, or lower the learning rate."""

import pathlib
import warnings

import numpy

from ._callback import Callback
from ._errors import InputError

__all__ = ["EarlyStopping", "ReduceOnPlateau"]


def _require_patience(patience):
    if patience is not None and (isinstance(patience, bool) or patience != int(patience) or patience < 1):
        raise InputError(f"patience is {patience}. Expected a whole number of epochs, at least 1")


class EarlyStopping(Callback):
    """Ends training when it does not get better: a callback of keelson.Trainer.

    patience: epochs after the best one after which training ends; None: never. metric: a name of keelson.History; by
    default "val_loss", and without validation "loss". restore_best: at the end, unless that is an interrupt, the parameters
    get their values of the best epoch. Of an epoch before a resume these come from best.h5 in the trainer's folder of
    checkpoints, or in that of the resumed checkpoint; if best.h5 is of another epoch, the last values stay, with a warning.

    Everything else follows from the trainer's history, so that a resumed run ends with the same epoch.
    """

    def __init__(self, patience=10, metric=None, restore_best=True):
        _require_patience(patience)
        self.patience, self.metric, self.restore_best = patience, metric, restore_best
        self._of, self._values = None, {}  # epoch and number that the values belong to
        self._resumed_from = ""

    def _best(self, history):
        """Epoch and number of the best epoch, and how many epochs are after it; None: there is none."""
        i = history.best(self.metric)
        if i is None:
            return None
        return (history["epoch"][i], history[history.judged(self.metric)][i]), len(history["epoch"]) - 1 - i

    def on_start(self, trainer, resumed_from):
        """Notes where the values of earlier epochs may be."""
        self._resumed_from = resumed_from

    def on_epoch(self, trainer, epoch):
        """Keeps the values of the best epoch, and ends training when it is `patience` epochs ago."""
        best = self._best(trainer.history)
        if best is None:
            return
        of, since = best
        if self.restore_best and since == 0:
            parameters = trainer.parameters
            self._of, self._values = of, {name: numpy.array(parameters[name]) for name in parameters}
        if self.patience is not None and since >= self.patience:
            trainer.stop()

    def on_stop(self, trainer, reason):
        """Gives the parameters the values of the best epoch."""
        best = self._best(trainer.history)
        if not self.restore_best or reason == "interrupted" or best is None or best[1] == 0:
            return
        (epoch, _), parameters = best[0], trainer.parameters
        if self._of == best[0] and {n: v.shape for n, v in self._values.items()} == parameters.graph.parameters:
            for name, values in self._values.items():
                parameters[name] = values
        elif not self._load(trainer, epoch):
            warnings.warn(f"EarlyStopping has no parameters of epoch {epoch}, the best one, since the run was resumed after it or "
                          "the network has changed: those of the last epoch stay", stacklevel=2)

    def _load(self, trainer, epoch):
        from . import _engine

        for written in map(pathlib.Path, (trainer.last_checkpoint, self._resumed_from)):
            if written == pathlib.Path("."):
                continue
            try:
                checkpoint = _engine.Checkpoint(written.parent / "best.h5", comm=trainer.parameters.context.comm)
                if checkpoint.state.epoch == epoch:
                    checkpoint.load(trainer.parameters)
                    return True
            except InputError:
                pass
        return False


class ReduceOnPlateau(Callback):
    """Multiplies the learning rate by `factor` when training does not get better: a callback of keelson.Trainer.

    patience: epochs without a better one after which the rate falls; then the epochs are counted anew. minimum: the rate
    does not fall below it. metric: as that of keelson.EarlyStopping.

    It works with any schedule: all later rates are multiplied. What has happened follows from the trainer's history and is
    in checkpoints, so that a resumed run gives the same bits.
    """

    def __init__(self, factor=0.1, patience=5, minimum=0.0, metric=None):
        if not 0 < factor < 1:
            raise InputError(f"factor is {factor}. Expected a number between 0 and 1")
        if patience is None:
            raise InputError("patience is None. Expected a whole number of epochs, at least 1")
        _require_patience(patience)
        self.factor, self.patience, self.minimum, self.metric = factor, patience, minimum, metric

    def on_epoch(self, trainer, epoch):
        """Lowers the rate if this epoch is the last one of the patience."""
        history = trainer.history
        best, waited = float("nan"), 0
        for value in history[history.judged(self.metric)]:
            waited = 0 if waited == self.patience else waited
            if history.is_better(self.metric, value, best):
                best, waited = value, 0
            else:
                waited += 1
        if waited == self.patience and trainer.learning_rate > self.minimum:
            trainer.learning_rate = max(trainer.learning_rate * self.factor, self.minimum)
