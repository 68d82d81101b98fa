"""The numbers that the objects of a collection hold, such as addresses.

A write looks at the objects that have changed since the last one, by the log of changes, and not at
all objects. There is no other record: a restored, rewound or copied collection is counted anew.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from fakeapi.store.store import Collection, Revision
    from fakeapi.types.kind import NumberRange
    from fakeapi.types.objects import Json


class NumbersHeld:
    """Counts the holders of each number; implements `fakeapi.types.kind.Held`."""

    def __init__(self, collection: Collection, numbers_of: Callable[[Json], Iterable[int]]) -> None:
        self._collection = collection
        self._numbers_of = numbers_of
        self._holders: Counter[int] = Counter()
        #: By range: the numbers at all positions before this one are held.
        self._starts: dict[NumberRange, int] = {}
        self._changes = self._position = -1

    def follow(self) -> None:
        """Count what has changed since the last call."""
        collection, log = self._collection, self._collection.log
        changes = collection.changes - self._changes
        if self._position >= log.first and log.end - self._position == changes:
            for position in range(self._position, log.end):
                change = log.at(position)
                self._count(change.previous, -1)
                self._count(change.current, +1)
        else:
            self._holders.clear()
            self._starts.clear()
            for revision in collection.revisions.values():
                self._count(revision, +1)
        self._changes, self._position = collection.changes, log.end

    def holders(self, number: int) -> int:
        """Return how many objects hold a number."""
        return self._holders[number]

    def lowest_free(self, wanted: NumberRange, but: Container[int]) -> int | None:
        """Return the first number of a range that no object holds, and is not in `but`."""
        start = self._starts.get(wanted, 0)
        while start < len(wanted.numbers) and self._holders[wanted.at(start)]:
            start += 1
        self._starts[wanted] = start
        for position in range(start, len(wanted.numbers)):
            number = wanted.at(position)
            if not self._holders[number] and number not in but:
                return number
        return None

    def _count(self, revision: Revision | None, holders: int) -> None:
        if revision is None:
            return
        for number in self._numbers_of(revision.object):
            self._holders[number] += holders
            if not self._holders[number]:
                del self._holders[number]
                for wanted, start in self._starts.items():
                    if number in wanted.numbers:
                        self._starts[wanted] = min(start, wanted.position(number))
