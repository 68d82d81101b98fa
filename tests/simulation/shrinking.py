"""The shortest part of a history that still fails, for histories that a seed has made."""

from collections.abc import Callable

from .simulation import History


def shortest(history: History, fails: Callable[[History], bool]) -> History:
    """Leave out runs of steps, long ones first, while the rest still fails."""
    size = max(1, len(history) // 2)
    while True:
        shorter = _without_runs(history, size, fails)
        if size == 1 and len(shorter) == len(history):
            return history
        history, size = shorter, max(1, size // 2)


def _without_runs(history: History, size: int, fails: Callable[[History], bool]) -> History:
    start = 0
    while start < len(history):
        rest = history[:start] + history[start + size :]
        if fails(rest):
            history = rest
        else:
            start += size
    return history
