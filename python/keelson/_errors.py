"""The exceptions of Keelson."""

__all__ = ["Error", "InputError", "OutOfMemory", "RanksLost", "UnknownName"]


class Error(RuntimeError):
    """A failure that the user did not cause: a full disk, a lost rank, an error of a library."""

    def __str__(self):
        return str(self.args[0]) if self.args else ""


class InputError(Error, ValueError):
    """The user's input cannot be used. The message says what was found, what was expected and what to try."""


class UnknownName(InputError, KeyError):
    """No object has this name."""


class OutOfMemory(Error, MemoryError):
    """A device has not enough memory."""


class RanksLost(Error):
    """Ranks of the group have died."""
