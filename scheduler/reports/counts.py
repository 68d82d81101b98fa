"""Numbers in the sentences of reports."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return `1 pod`, `2 pods`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
