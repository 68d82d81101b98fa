"""Answers that are good for a while: a bounded map whose entries run out.

Source: apimachinery `pkg/util/cache/lruexpirecache.go`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from scheduler.clock import Clock

K = TypeVar("K")
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """At most `entries_max` entries; the one that was asked for longest ago goes first."""

    def __init__(self, *, clock: Clock, entries_max: int) -> None:
        self._clock: Final = clock
        self._entries_max: Final = entries_max
        self._entries: Final[OrderedDict[K, tuple[V, float]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """What is remembered under a key, unless its time is over."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        value, expires = entry
        if self._clock.monotonic() >= expires:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, *, seconds: float) -> None:
        """Remember a value for so long; not at all if that is no time."""
        if seconds <= 0:
            return
        self._entries[key] = value, self._clock.monotonic() + seconds
        self._entries.move_to_end(key)
        while len(self._entries) > self._entries_max:
            self._entries.popitem(last=False)
