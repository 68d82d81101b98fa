"""Watches: each is a position in the log of a collection and an open response.

    WAITING for a version --reached--> INITIAL --sent--> LIVE --deadline, close--> EOF
        |  3 s                                             |  log compacted past it
        +------> ERROR 504, EOF                            +------> ERROR 410, EOF

A watcher has no queue of its own: it has still to send the part of the log after its position. A
client that reads slowly stalls only its own task. If the log drops changes that were not sent, the
stream ends with an Expired error and the client lists again. No event is skipped.
"""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING, Final

from fakeapi.decoding.options import ListOptions, parse_resource_version
from fakeapi.store.listing import listing
from fakeapi.store.store import Compacted
from fakeapi.store.views import status_event
from fakeapi.types.errors import Expired, ResourceVersionTooLarge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fakeapi.clock import Clock, Timer
    from fakeapi.store.store import Collection, Revision, Store
    from fakeapi.store.views import EventView

BOOKMARK_SECONDS: Final = 60.0
BOOKMARK_BEFORE_DEADLINE_SECONDS: Final = 2.0
#: The longest wait for a version that has not been reached.
PATIENCE_SECONDS: Final = 3.0
#: Bytes gathered for one write: efficient, but short enough for the event loop.
_CHUNK_BYTES: Final = 128 * 1024


class Watcher:
    """One client's watch; `serve` runs until it ends."""

    def __init__(
        self,
        store: Store,
        collection: Collection,
        view: EventView,
        options: ListOptions,
        clock: Clock,
    ) -> None:
        """Parse the starting point. Raises ApiError while a status code can still be sent."""
        self._store = store
        self._collection = collection
        self._view = view
        self._options = options
        self._clock = clock
        self._woken = asyncio.Event()
        self._timers: set[Timer] = set()
        self._ended = False
        self._bookmark_due = False
        self._after = parse_resource_version(options.resource_version, watch=True)
        wants = options.send_initial_events
        self._wants_state = self._after == 0 if wants is None else wants
        self._initial: collections.deque[Revision] = collections.deque()
        self._initial_version = 0  # of the bookmark that ends the initial events, if one is due
        self._position = collection.log.end

    @property
    def undelivered(self) -> int:
        """Return the number of unread log entries and of unwritten initial events."""
        return 0 if self._ended else self._waiting()

    def _waiting(self) -> int:
        return (
            self._collection.log.end
            - self._position
            + len(self._initial)
            + bool(self._initial_version)
            + self._bookmark_due
        )

    def send_bookmark(self) -> None:
        """Send a bookmark after everything before it, if the client allows bookmarks."""
        if self._options.allow_bookmarks and not self._ended:
            self._bookmark_due = True
            self._woken.set()

    def end(self) -> None:
        """End the stream after the changes that are already in the log."""
        self._ended = True
        self._woken.set()

    async def serve(
        self, write: Callable[[bytes], Awaitable[None]], timeout_seconds: float
    ) -> None:
        """Write events until the deadline, an error in the stream, or `end`."""
        self._collection.listeners[self] = self._woken.set
        try:
            self._schedule(timeout_seconds)
            if await self._start(write):
                await self._stream(write)
        finally:
            self._ended = True
            del self._collection.listeners[self]
            for timer in self._timers:
                timer.cancel()

    async def _stream(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        while True:
            try:
                chunk = self._next_chunk()
            except Compacted as gone:
                await write(_expired(gone))
                return
            if chunk:
                await write(chunk)
            elif self._ended:
                return
            else:
                self._woken.clear()
                await self._woken.wait()

    def _schedule(self, timeout_seconds: float) -> None:
        if timeout_seconds <= 0:
            self.end()
            return
        self._later(timeout_seconds, self.end)
        if self._options.allow_bookmarks:
            last = timeout_seconds - BOOKMARK_BEFORE_DEADLINE_SECONDS
            if last > 0:
                self._later(last, self.send_bookmark)
            self._later(BOOKMARK_SECONDS, self._periodic_bookmark)

    def _periodic_bookmark(self) -> None:
        self.send_bookmark()
        if not self._ended:
            self._later(BOOKMARK_SECONDS, self._periodic_bookmark)

    def _later(self, seconds: float, callback: Callable[[], None]) -> None:
        def happen() -> None:
            self._timers.discard(timer)
            callback()

        timer = self._clock.call_later(seconds, happen)
        self._timers.add(timer)

    async def _start(self, write: Callable[[bytes], Awaitable[None]]) -> bool:
        """Set the first position and queue the initial events; False if the stream is over."""
        log = self._collection.log
        if self._wants_state:
            is_reached = await wait_for_version(
                self._store, self._after, self._clock, given_up=lambda: self._ended
            )
            if not is_reached:
                error = ResourceVersionTooLarge(self._after, self._store.resource_version)
                await write(status_event(error.status()))
                return False
            self._queue_state()
            self._position = log.end
        elif self._after:
            try:
                self._position = log.position_after(self._after)
            except Compacted as gone:
                await write(_expired(gone))
                return False
        else:
            self._position = log.end
        return True

    def _queue_state(self) -> None:
        everything = ListOptions(selection=self._options.selection)
        self._initial.extend(listing(self._store, self._collection, everything).revisions)
        if self._options.allow_bookmarks:
            self._initial_version = self._store.resource_version

    def _next_chunk(self) -> bytes:
        """Return the next bytes to write, empty if there are none. Raises Compacted."""
        if not self._waiting():
            return b""
        parts: list[bytes] = []
        size = 0
        while self._initial and size < _CHUNK_BYTES:
            parts.append(self._view.added(self._initial.popleft()))
            size += len(parts[-1])
        if self._initial_version and not self._initial:
            parts.append(self._view.bookmark(self._initial_version, ends_initial_events=True))
            self._initial_version = 0
        log = self._collection.log
        if self._position < log.first:
            if parts:  # written before the error
                return b"".join(parts)
            raise Compacted(self._after, log.compacted_version)
        while self._position < log.end and size < _CHUNK_BYTES:
            change = log.at(self._position)
            self._position += 1
            if change.resource_version > self._after:
                parts.append(self._view.event(change, self._options.selection))
                size += len(parts[-1])
                self._after = change.resource_version
        if self._bookmark_due and self._position == log.end and not self._initial:
            self._bookmark_due = False
            version = self._store.resource_version
            if version >= self._after:
                parts.append(self._view.bookmark(version, ends_initial_events=False))
        return b"".join(parts)


def _expired(gone: Compacted) -> bytes:
    message = f"too old resource version: {gone.wanted} ({gone.oldest})"
    return status_event(Expired(message).status())


async def wait_for_version(
    store: Store, version: int, clock: Clock, given_up: Callable[[], bool] = lambda: False
) -> bool:
    """Wait until the store has reached a version. False after three seconds."""
    if version <= store.resource_version:
        return True
    woken = asyncio.Event()
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = True
        woken.set()

    timer = clock.call_later(PATIENCE_SECONDS, expire)
    store.listeners[woken] = woken.set
    try:
        while version > store.resource_version and not expired and not given_up():
            woken.clear()
            await woken.wait()
    finally:
        timer.cancel()
        del store.listeners[woken]
    return version <= store.resource_version
