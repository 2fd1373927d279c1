"""The results of a training, epoch by epoch."""

import collections.abc
import math

from ._errors import UnknownName

__all__ = ["History"]


class History(collections.abc.Mapping):
    """The results of all epochs: lists by name, as history["val_loss"]. keelson.Trainer.run() returns it.

    "epoch" and "step": epochs and steps done. "loss": of the training samples, while they were used. "val_loss": of the
    validation. The metrics have the names that they have themselves. "learning_rate": of the last step of the epoch.
    "seconds": of the epoch with its validation, on the first rank. "noise_scale": where the Trainer measures it.
    Checkpoints store the last 4096 epochs, so that the history of a resumed run begins with its first epoch.

    reason: why training has ended: "all epochs done", "step limit reached", "target reached", "time limit", "stopped" or
    "interrupted"; None: it has not.
    """

    _STORED = 4096  # epochs: an attribute of HDF5 has at most 64 KiB

    def __init__(self, higher_is_better=()):
        """higher_is_better: names of the metrics of which larger numbers are better."""
        self._higher_is_better = frozenset(higher_is_better)
        self._columns = {name: [] for name in ("epoch", "step", "loss", "learning_rate", "seconds")}
        self._epochs = 0
        self.reason = None

    def __getitem__(self, name):
        if name not in self._columns:
            advice = ". Give the Trainer validation=" if name == "val_loss" else ""
            raise UnknownName(f"the history has no '{name}'. Expected one of: {', '.join(self._columns)}{advice}")
        return self._columns[name]

    def __iter__(self):
        return iter(self._columns)

    def __len__(self):
        return len(self._columns)

    def __contains__(self, name):
        return name in self._columns

    def __repr__(self):
        last = [f"{name} {self[name][-1]:.4g}" for name in ("loss", "val_loss") if self._columns.get(name)]
        ended = [self.reason] if self.reason else []
        epochs = f"{len(self._columns['epoch'])} epochs"
        return f"<keelson.History: {', '.join([epochs, *last, *ended])}>"

    def best(self, name=None):
        """The place in the lists of the best epoch by this number, the first of equal ones; None: there is none yet. Errors
        and losses are better if they are smaller. By default: "val_loss", and "loss" without validation."""
        found, best = None, math.nan
        for i, value in enumerate(self[self.judged(name)]):
            if self.is_better(name, value, best):
                found, best = i, value
        return found

    def judged(self, name=None):
        """`name`, or the name of the number that judges epochs if it is None."""
        return name if name is not None else "val_loss" if "val_loss" in self else "loss"

    def is_better(self, name, value, than):
        """Whether a number of this name is better than another one. Any number is better than NaN."""
        if math.isnan(than) or math.isnan(value):
            return math.isnan(than) and not math.isnan(value)
        return value > than if name in self._higher_is_better else value < than

    # What the trainer calls.

    def _append(self, epoch):
        """Adds the results of an epoch (keelson.Epoch). If Ctrl-C ends a call early, the trainer calls again."""
        for column in self._columns.values():
            del column[self._epochs:]
        row = {"epoch": epoch.epoch, "step": epoch.step, "loss": epoch.train_loss}
        if not math.isnan(epoch.validation_loss):
            row["val_loss"] = epoch.validation_loss
        row.update({name: value for name, value in epoch.metrics.items() if name not in row})
        row.update(learning_rate=epoch.learning_rate, seconds=epoch.seconds)
        if not math.isnan(epoch.gradient_noise):  # measured; the scale itself may be NaN
            row["noise_scale"] = epoch.noise_scale
        for name in [*self._columns, *row]:
            column = self._columns.setdefault(name, [math.nan] * self._epochs)
            if len(column) == self._epochs:
                column.append(row.get(name, math.nan))
        self._epochs += 1  # last, and no interrupt comes behind it

    def _stored(self):
        return {name: [float(value) for value in column[-self._STORED:]] for name, column in self._columns.items()}

    def _restore(self, stored):
        self.__init__(self._higher_is_better)
        for name, column in stored.items():
            self._columns[name] = [int(v) for v in column] if name in ("epoch", "step") else list(column)
        self._epochs = len(self._columns["epoch"])
