"""Some pods of each of many worlds, in one list.

A list for each world would be ten times as many objects, which the collector counts and visits.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.pod_info import PodInfo


class PodsByWorld:
    """Pods in one list: first of world 0, then of world 1, and so on."""

    def __init__(self, pods: Sequence[PodInfo], counts: IntArray) -> None:
        self.pods: Final = pods
        #: The number of pods of each world, and the position of the first one in the list.
        self.counts: Final = counts
        self.starts: Final[IntArray] = np.cumsum(counts) - counts

    @property
    def worlds(self) -> IntArray:
        """The world of each pod."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @functools.cached_property
    def priorities(self) -> IntArray:
        """The priority of each pod."""
        return np.array([pod.priority for pod in self.pods], dtype=np.int64)

    def of(self, world: int) -> Sequence[PodInfo]:
        """Return the pods of one world."""
        start = int(self.starts[world])
        return self.pods[start : start + int(self.counts[world])]

    def at(self, positions: IntArray) -> list[PodInfo]:
        """Return the pods at some positions of the list."""
        return list(map(self.pods.__getitem__, positions.tolist()))

    def take(self, worlds: IntArray) -> PodsByWorld:
        """Return the pods of some different worlds, in the order of these."""
        if np.array_equal(worlds, np.arange(len(self.counts))):
            return self
        counts = self.counts[worlds]
        ends = np.cumsum(counts)
        shifts = np.repeat(self.starts[worlds] - (ends - counts), counts)
        return PodsByWorld(self.at(np.arange(len(shifts)) + shifts), counts)

    def flagged(self, flags: BoolArray) -> PodsByWorld:
        """Return the flagged pods of all worlds."""
        if flags.all():
            return self
        counts = np.bincount(self.worlds[flags], minlength=len(self.counts))
        return PodsByWorld(self.at(np.flatnonzero(flags)), counts)
