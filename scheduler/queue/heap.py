"""A priority heap whose items can be found, changed and removed by key.

Items are ordered by their sort keys, which are computed once when an item is added; items with
equal sort keys leave in the order of their arrival. So all comparisons are comparisons of tuples,
made in C by `heapq`; upstream calls `less` for each comparison.

An item that is deleted or moved leaves its old entry in the heap. Such dead entries are dropped
when they reach the top, and removed together when they outnumber the others; every operation stays
O(log n), amortised. (`sortedcontainers` would need no dead entries, but is several times slower.)
Source: `pkg/scheduler/backend/heap/heap.go`.
"""

from __future__ import annotations

import heapq
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

#: The order of items, the least first.
SortKey = tuple[object, ...]

#: Sort key, number of arrival, key of the item. The number is unique: keys are never compared.
Entry = tuple[SortKey, int, str]

#: The number of dead entries that are kept whatever the size of the heap.
_DEAD_ENTRIES_MIN: Final = 16


class Heap(Generic[T]):
    """Items by key, the least first. `sort_key` is called each time an item is added."""

    __slots__ = ("_arrivals", "_entries", "_items", "sort_key")

    def __init__(self, sort_key: Callable[[T], SortKey]) -> None:
        self.sort_key: Final = sort_key
        self._entries: list[Entry] = []
        self._items: dict[str, tuple[Entry, T]] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        """Iterate over all items in no particular order."""
        return (item for _, item in self._items.values())

    def first(self, count: int) -> list[T]:
        """Return the first items in order, at most `count`."""
        by_entry = itemgetter(0)
        return [item for _, item in heapq.nsmallest(count, self._items.values(), key=by_entry)]

    def get(self, key: str) -> T | None:
        entry_and_item = self._items.get(key)
        return None if entry_and_item is None else entry_and_item[1]

    def add_or_update(self, key: str, item: T) -> None:
        """Add an item, replace the one with the same key, or order an item anew after a change.

        While its sort key is the same, an item keeps its place among equal items.
        """
        self.add_with_sort_key(key, item, self.sort_key(item))

    def add_with_sort_key(self, key: str, item: T, sort_key: SortKey) -> None:
        """Add or update an item whose sort key is known, as another heap in this order has it."""
        old = self._items.get(key)
        if old is not None and old[0][0] == sort_key:
            self._items[key] = (old[0], item)
            return
        self._arrivals += 1
        entry = (sort_key, self._arrivals, key)
        self._items[key] = (entry, item)
        heapq.heappush(self._entries, entry)
        if old is not None:
            self._remove_dead_entries()

    def delete(self, key: str) -> T | None:
        """Remove an item; None if there is none with this key."""
        removed = self._items.pop(key, None)
        if removed is None:
            return None
        self._remove_dead_entries()
        return removed[1]

    def delete_all(self, keys: Iterable[str]) -> None:
        """Remove the items with these keys, of which there must be one each."""
        items = self._items
        for key in keys:
            del items[key]
        self._remove_dead_entries()

    def peek(self) -> T | None:
        """Return the least item; None if the heap is empty."""
        entries = self._entries
        while entries:
            entry = entries[0]
            current = self._items.get(entry[2])
            if current is not None and current[0] is entry:
                return current[1]
            heapq.heappop(entries)
        return None

    def pop(self) -> T | None:
        """Remove the least item; None if the heap is empty."""
        entries, items = self._entries, self._items
        while entries:
            entry = heapq.heappop(entries)
            current = items.get(entry[2])
            if current is not None and current[0] is entry:
                del items[entry[2]]
                return current[1]
        return None

    def in_order(self) -> list[T]:
        """Return all items in the order in which they would be popped. Slow: it sorts them."""
        return [item for _, item in sorted(self._items.values(), key=lambda found: found[0])]

    def complaints(self) -> Iterator[str]:
        """Yield a line for each broken invariant."""
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

    def _remove_dead_entries(self) -> None:
        if len(self._entries) > 2 * len(self._items) + _DEAD_ENTRIES_MIN:
            self._entries = [entry for entry, _ in self._items.values()]
            heapq.heapify(self._entries)
