"""What a training tells while it goes on."""

import sys
import time

from ._callback import Callback

__all__ = ["Progress"]


def _watched(stream):
    """Whether somebody looks at the stream: a terminal, or a notebook."""
    return hasattr(stream, "isatty") and stream.isatty() or "ipykernel" in sys.modules


class Progress(Callback):
    """Shows how far a training is: a callback of keelson.Trainer, which Trainer.run() has of itself.

    On a terminal and in a notebook it is one line that is rewritten. Elsewhere nothing is written or, with `always`, a line
    after each epoch. stream: where to write; by default the standard error. Only the first rank of a job writes.
    """

    _SECONDS = 0.2  # between two texts within an epoch

    def __init__(self, stream=None, always=False):
        self._stream, self._always = stream or sys.stderr, always
        self._width, self._next = 0, 0.0

    def _writes(self):
        from . import _engine

        return (_watched(self._stream) or self._always) and _engine.world().rank == 0

    def _rewrite(self, text):
        self._stream.write("\r" + text.ljust(self._width))
        self._width = len(text)
        self._stream.flush()

    def on_start(self, trainer, resumed_from):
        """Waits a moment, so that short trainings show their epochs alone."""
        self._next = time.monotonic() + self._SECONDS

    def on_step(self, trainer, step):
        """Writes the line of the step, a few times in a second."""
        if time.monotonic() < self._next or not _watched(self._stream) or not self._writes():
            return
        self._next = time.monotonic() + self._SECONDS
        state = trainer.state
        self._rewrite(f"epoch {state.epoch + 1}/{trainer.epochs}, step {state.step_in_epoch}/{trainer.steps_per_epoch}: "
                      f"loss {step.loss:.4g}, {step.rate:.0f} samples/s")

    def on_epoch(self, trainer, epoch):
        """Writes the line of the epoch."""
        if not self._writes():
            return
        numbers = {"loss": epoch.train_loss, "val_loss": epoch.validation_loss, **epoch.metrics}
        text = f"epoch {epoch.epoch}/{trainer.epochs}: "
        text += ", ".join(f"{name} {value:.4g}" for name, value in numbers.items() if value == value)
        text += f", {epoch.rate:.0f} samples/s"
        if _watched(self._stream):
            self._rewrite(text)
        else:
            self._stream.write(text + "\n")
            self._stream.flush()

    def on_stop(self, trainer, reason):
        """Ends the line that is rewritten."""
        if self._width:
            self._stream.write("\n")
            self._stream.flush()
        self._width = 0


def of_run(wanted):
    """The Progress of Trainer.run(progress=wanted); None: nothing is shown."""
    if wanted is None:
        return Progress() if _watched(sys.stderr) else None
    return Progress(always=True) if wanted else None
