"""What goes wrong with files that hold state."""

from __future__ import annotations

__all__ = ["StateError", "file_error"]


class StateError(Exception):
    """A file of state cannot be used; the message is one line for a person."""


def file_error(path: object, error: OSError) -> StateError:
    """What the operating system says about a file, as one line."""
    return StateError(f"{path}: {error.strerror or error}")
