"""What Keelson raises."""

__all__ = ["Error", "InputError", "OutOfMemory", "RanksLost", "UnknownName"]


class Error(RuntimeError):
    """A failure that is not the user's doing: a full disk, a lost rank, a library that reports an error."""

    def __str__(self):
        return str(self.args[0]) if self.args else ""


class InputError(Error, ValueError):
    """Something the user gave cannot be used. The message says what was found, what was expected and what to try."""


class UnknownName(InputError, KeyError):
    """There is nothing of this name."""


class OutOfMemory(Error, MemoryError):
    """A device has no room for what was asked of it."""


class RanksLost(Error):
    """Ranks of the group have died."""
