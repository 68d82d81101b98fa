"""A priority heap whose items can be found, changed and taken out by key.

The order of two items is that of their sort keys, worked out once when an item is put in; items
with equal sort keys leave in the order in which they came. So the comparisons are those of tuples,
made in C by `heapq`, where upstream calls `less` back for each of them.

An item that is deleted or moves up leaves its old entry behind in the heap. Such dead entries are
dropped when they reach the top, and swept out when they outnumber the living; every operation
stays O(log n), amortised.
Source: `pkg/scheduler/backend/heap/heap.go`.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

#: What items are ordered by, the least first.
SortKey = tuple[object, ...]

#: Sort key, turn of arrival, key of the item. The turn is unique, so the key is never compared.
_Entry = tuple[SortKey, int, str]

#: How many dead entries are tolerated whatever the size of the heap.
_DEAD_ENTRIES_MIN: Final = 16


class Heap(Generic[T]):
    """Items by key, the least first. `sort_key` is asked once each time an item is put in."""

    __slots__ = ("_entries", "_items", "_sort_key", "_turn")

    def __init__(self, sort_key: Callable[[T], SortKey]) -> None:
        self._sort_key: Final = sort_key
        self._entries: list[_Entry] = []
        self._items: dict[str, tuple[_Entry, T]] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: str) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[T]:
        """All items, in no particular order."""
        return (item for _, item in self._items.values())

    def get(self, key: str) -> T | None:
        """The item under this key, None if there is none."""
        found = self._items.get(key)
        return None if found is None else found[1]

    def add_or_update(self, key: str, item: T) -> None:
        """Put an item in, or in place of the one under the same key.

        To be called as well when an item that is in the heap has changed. While its sort key is
        the same it keeps its turn among its equals.
        """
        sort_key = self._sort_key(item)
        known = self._items.get(key)
        if known is not None and known[0][0] == sort_key:
            self._items[key] = (known[0], item)
            return
        self._turn += 1
        entry = (sort_key, self._turn, key)
        self._items[key] = (entry, item)
        heapq.heappush(self._entries, entry)
        if known is not None:
            self._sweep()

    def delete(self, key: str) -> T | None:
        """Take an item out; None if there is none under this key."""
        found = self._items.pop(key, None)
        if found is None:
            return None
        self._sweep()
        return found[1]

    def peek(self) -> T | None:
        """The least item, left where it is; None if the heap is empty."""
        entries = self._entries
        while entries:
            entry = entries[0]
            found = self._items.get(entry[2])
            if found is not None and found[0] is entry:
                return found[1]
            heapq.heappop(entries)
        return None

    def pop(self) -> T | None:
        """Take the least item out; None if the heap is empty."""
        entries, items = self._entries, self._items
        while entries:
            entry = heapq.heappop(entries)
            found = items.get(entry[2])
            if found is not None and found[0] is entry:
                del items[entry[2]]
                return found[1]
        return None

    def in_order(self) -> list[T]:
        """All items, in the order in which they would leave. For people and tests: it sorts."""
        return [item for _, item in sorted(self._items.values(), key=lambda found: found[0])]

    def complaints(self) -> Iterator[str]:
        """What is wrong with the heap, one line each: nothing, unless there is a bug."""
        entries = self._entries
        for index in range(1, len(entries)):
            if entries[index] < entries[(index - 1) // 2]:
                yield f"{entries[index][2]} lies below {entries[(index - 1) // 2][2]} in the heap"
        present = {id(entry) for entry in entries}
        for key, (entry, _) in self._items.items():
            if id(entry) not in present:
                yield f"{key} is known to the heap but has no entry in it"
        if len(entries) > 2 * len(self._items) + _DEAD_ENTRIES_MIN:
            yield f"{len(entries)} entries for {len(self._items)} items were not swept"

    def _sweep(self) -> None:
        if len(self._entries) > 2 * len(self._items) + _DEAD_ENTRIES_MIN:
            self._entries = [entry for entry, _ in self._items.values()]
            heapq.heapify(self._entries)
