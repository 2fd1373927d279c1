"""What a training tells while it goes on, and afterwards."""

import math
import sys

from ._callback import Callback

__all__ = ["History", "Progress"]


class History(Callback):
    """Collects the results of all epochs: a callback of keelson.Trainer.

    epochs: list of keelson.Epoch. history["validation_loss"] is the list of this number, an attribute of keelson.Epoch, over
    the epochs.
    """

    def __init__(self):
        self.epochs = []

    def on_epoch(self, trainer, epoch):
        """Appends the results of the epoch."""
        self.epochs.append(epoch)

    def __getitem__(self, name):
        return [getattr(epoch, name) for epoch in self.epochs]

    def __len__(self):
        return len(self.epochs)

    def __repr__(self):
        return f"<keelson.History: {len(self.epochs)} epochs>"


def _watched(stream):
    """Whether somebody looks at the stream: a terminal, or a notebook."""
    return hasattr(stream, "isatty") and stream.isatty() or "ipykernel" in sys.modules


class Progress(Callback):
    """Shows how far a training is, in one line that is rewritten: a callback of keelson.Trainer.

    epochs: those of the trainer. stream: where to write; by default the standard error. always: also where it is neither a
    terminal nor a notebook; there each epoch is a line. Only the first rank of a job writes.
    """

    def __init__(self, epochs, stream=None, always=False):
        self.epochs, self._stream, self._always = epochs, stream or sys.stderr, always
        self._width = 0

    def on_epoch(self, trainer, epoch):
        """Writes the line of the epoch."""
        from . import _engine

        live = _watched(self._stream)
        if not (live or self._always) or _engine.world().rank != 0:
            return
        text = f"epoch {epoch.epoch}/{self.epochs}: loss {epoch.train_loss:.4g}"
        if not math.isnan(epoch.validation_loss):
            text += f", validation {epoch.validation_loss:.4g}"
        text += f", {epoch.rate:.0f} samples/s"
        self._stream.write(("\r" + text.ljust(self._width)) if live else text + "\n")
        self._width = len(text)
        self._stream.flush()

    def on_stop(self, trainer, reason):
        """Ends the line that is rewritten."""
        if self._width and _watched(self._stream):
            self._stream.write("\n")
            self._stream.flush()
