"""Counters, gauges and histograms: numbers by label values, and nothing else.

Counting is on the hot path, so it is a dictionary and an addition; how the numbers are written out
is for `exposition`, when somebody asks. No clock: durations are measured by whoever calls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Upper bounds, each `factor` times the one before (`prometheus.ExponentialBuckets`)."""
    bounds = []
    bound = start
    for _ in range(count):
        bounds.append(bound)
        bound *= factor
    return tuple(bounds)


class NumberVec(Counter[tuple[str, ...]]):
    """A counter's or gauge's values by label values; one nobody has touched is not there."""


class TallyVec:
    """Counters for those who count all the time: a cell is looked up once and then added to.

    cell = tallies.cell("NodeName", "Filter")
    cell[0] += 5
    """

    __slots__ = ("_cells",)

    def __init__(self) -> None:
        self._cells: Final[dict[tuple[str, ...], list[int]]] = {}

    def cell(self, *labels: str) -> list[int]:
        """The one number under these label values; 0 to begin with."""
        return self._cells.setdefault(labels, [0])

    def numbers(self) -> dict[tuple[str, ...], int]:
        """All of them as they are now."""
        return {labels: cell[0] for labels, cell in self._cells.items()}


class Histogram:
    """How many observations fell into each bucket, and their sum.

    `counts` has one entry more than there are bounds: for what is beyond the last.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds: Final = bounds
        self.counts: Final = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value; one that is equal to a bound belongs below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def total(self) -> int:
        """How many values were counted."""
        return sum(self.counts)


class HistogramVec:
    """Histograms by label values, made as they are needed."""

    __slots__ = ("_bounds", "by_labels")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds: Final = bounds
        self.by_labels: Final[dict[tuple[str, ...], Histogram]] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count a value under these label values."""
        self.of(*labels).observe(value)

    def of(self, *labels: str) -> Histogram:
        """The histogram under these label values; there from now on."""
        histogram = self.by_labels.get(labels)
        if histogram is None:
            histogram = self.by_labels[labels] = Histogram(self._bounds)
        return histogram
