"""The replay of a recording: its changes, on the server's clock, with the recorded gaps.

    speed 1 as it was    speed 10 ten times as fast    speed 0 all at once

Each recorded object is stored as it is, with its uid, its times and all that the recorded server
added; nothing is admitted or validated again. Only resourceVersions are the server's own. The state
before a change may differ from the recorded state:

    ADDED, MODIFIED   stored, unless an equal object exists; an object of that name with another uid
                      is deleted first, as watchers have no other way to replace an object
    DELETED           deleted if it exists

An object that was being deleted, and is gone already, stays away: a controller was faster.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from fakeapi.state.contents import StateError
from fakeapi.state.recording import RecordedChange, read_recording
from fakeapi.store.store import DELETED, object_key
from fakeapi.types.objects import (
    Json,
    is_deleting,
    metadata_of,
    name_of,
    namespace_of,
    with_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fakeapi.clock import Timer
    from fakeapi.store.registry import Registry
    from fakeapi.types.kind import KindTable, ResourceKey

#: Changes that are made in one go before others get their turn.
_AT_ONCE_MAX: Final = 100


async def replay(state: Registry, path: Path, *, speed: float) -> int:
    """Play a recording and return the number of changes; gaps are divided by `speed`, 0 is no gap.

    The file is checked before the first change is made. Raises StateError.
    """
    if not 0 <= speed < float("inf"):
        raise StateError(f"speed: expected a number of at least 0, found {speed}")
    count = sum(1 for _ in read_recording(path))
    await _Player(state, path, read_recording(path), speed).done()
    return count


class _Player:
    """Makes the changes that are due, and sets the timer for the next."""

    def __init__(
        self,
        state: Registry,
        path: Path,
        changes: Iterator[tuple[int, RecordedChange]],
        speed: float,
    ) -> None:
        self._state = state
        self._path = path
        self._changes = changes
        self._speed = speed
        self._next: tuple[int, RecordedChange] | None = None
        self._started_seconds = state.clock.now()
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer: Timer | None = None

    async def done(self) -> None:
        """Play to the end; stops when it is cancelled."""
        self._play()
        try:
            await self._finished
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _play(self) -> None:
        """From a timer, so that a clock that is moved by hand finds every change at its time."""
        if self._finished.done():
            return
        try:
            self._play_due()
        except Exception as error:  # noqa: BLE001 - raised where the end is awaited
            self._finished.set_exception(error)

    def _play_due(self) -> None:
        for _ in range(_AT_ONCE_MAX):
            if self._next is None:
                self._next = next(self._changes, None)
            if self._next is None:
                self._finished.set_result(None)
                return
            number, change = self._next
            delay = self._delay_seconds(change)
            if delay > 0:
                self._timer = self._state.clock.call_later(delay, self._play)
                return
            self._next = None
            self._make(number, change)
        asyncio.get_running_loop().call_soon(self._play)

    def _delay_seconds(self, change: RecordedChange) -> float:
        if not self._speed:
            return 0.0
        due = self._started_seconds + change.seconds / self._speed
        return due - self._state.clock.now()

    def _make(self, number: int, change: RecordedChange) -> None:
        store, resource, obj = self._state.store, change.resource_key, change.object
        key = object_key(namespace_of(obj), name_of(obj))
        existing = store.collection(resource).revisions.get(key)
        if existing is not None and _uid(existing.object) != _uid(obj):
            store.remove(resource, key)
            existing = None
        if existing is None and (change.type == DELETED or is_deleting(obj)):
            return
        if change.type == DELETED:
            store.remove(resource, key)
        elif existing is None or not _is_same(existing.object, obj):
            if resource not in _stored_resources(self._state.kinds):
                name = f"{change.resource}.{change.group}".rstrip(".")
                raise StateError(f"{self._path}: line {number}: no {name} are served")
            store.put(resource, key, obj)


def _stored_resources(kinds: KindTable) -> frozenset[ResourceKey]:
    """The resources whose objects are stored, worked out once for each state of the table."""
    return kinds.derived("stored resources", lambda: frozenset(kind.storage_key for kind in kinds))


def _uid(obj: Json) -> object:
    return metadata_of(obj).get("uid")


def _is_same(one: Json, other: Json) -> bool:
    """Return True if two states of an object differ in their version only."""
    return with_metadata(one, resourceVersion=None) == with_metadata(other, resourceVersion=None)
