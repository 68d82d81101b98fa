"""Sets of completion indexes and their short form, 0-2,5. Source: indexed_job_utils.go."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["parsed", "shown"]


def parsed(text: str, completions: int) -> set[int]:
    """The indexes below `completions` that the short form names; nonsense in it is left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first.isdecimal() and (not dash or last.isdecimal()):
            found |= set(range(int(first), min(int(last or first) + 1, completions)))
    return found


def shown(indexes: Iterable[int]) -> str:
    """The short form; two neighbours are named one by one."""
    runs: list[list[int]] = []
    for one in sorted(indexes):
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ",".join(str(a) if a == b else f"{a}{',' if b == a + 1 else '-'}{b}" for a, b in runs)
