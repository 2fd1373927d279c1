class Callback:
    """Methods that a trainer calls. Pass objects of derived classes, or any objects with some of these methods.

    The thread that trains calls the methods, on every rank. `trainer.state` is the state of the training.
    """

    def on_start(self, trainer, resumed_from):
        """Called before the first step. `resumed_from`: path of the checkpoint; "" for a new run."""

    def on_epoch_start(self, trainer):
        """Called before the first step of each epoch."""

    def on_step(self, trainer, step):
        """Called after every step (keelson.Step)."""

    def on_validation_start(self, trainer):
        """Called before each validation."""

    def on_epoch(self, trainer, epoch):
        """Called after every epoch (keelson.Epoch)."""

    def on_checkpoint(self, trainer, path, best):
        """Called after a checkpoint was written to this path. `best`: best.h5 is now this checkpoint."""

    def on_network_change(self, trainer, text):
        """Called after the network has lost or gained units or layers (apoptosis, growth), which `text` says, before its
        next step."""

    def on_stop(self, trainer, reason):
        """Called at the end of training."""
