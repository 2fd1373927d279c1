class Callback:
    """What a trainer can be told to call: give objects of derived classes, or any objects with some of these methods.

    Calls come in the thread that trains, on every rank. `trainer.state` says where the training stands.
    """

    def on_start(self, trainer, resumed_from):
        """Before the first step. `resumed_from`: path of the checkpoint; "" for a new run."""

    def on_epoch_start(self, trainer):
        """Before the first step of each epoch."""

    def on_step(self, trainer, step):
        """After every step (keelson.Step)."""

    def on_validation_start(self, trainer):
        """Before each validation."""

    def on_epoch(self, trainer, epoch):
        """After every epoch (keelson.Epoch)."""

    def on_checkpoint(self, trainer, path, best):
        """After a checkpoint is written to this path. `best`: best.h5 is now this checkpoint."""

    def on_stop(self, trainer, reason):
        """At the end of training."""
