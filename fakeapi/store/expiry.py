"""Events end an hour after their last write, as the leases of etcd end them.

Each write of an event is queued with the time at which the event is due, so the queue is in order
of time, and one timer for its head is enough. An event that was written again has a later entry.

Source: pkg/registry/core/event/storage/storage.go of v1.36.3.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fakeapi.clock import Clock, Timer
    from fakeapi.store.store import Change, Collection, Revision, Store

EVENTS: Final = ("", "events")
#: Events that are due within this time are removed together.
_SWEEP_SECONDS: Final = 1.0


class EventExpiry:
    """Removes the events of one store after `ttl_seconds`; 0 keeps them."""

    def __init__(self, store: Store, clock: Clock, ttl_seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._ttl_seconds = ttl_seconds
        self._queue: collections.deque[tuple[float, Revision]] = collections.deque()
        self._timer: Timer | None = None
        self._is_running = False
        if ttl_seconds > 0:
            store.observers.append(self._changed)

    def start(self) -> None:
        """Begin to remove events. Events of a restored state count as written now."""
        queued = {id(revision) for _, revision in self._queue}
        self._is_running = self._ttl_seconds > 0
        for revision in self._store.collection(EVENTS).revisions.values():
            if id(revision) not in queued:
                self._queue.append((self._clock.now() + self._ttl_seconds, revision))
        self._schedule()

    def stop(self) -> None:
        """Remove no more events."""
        self._is_running = False
        if self._timer is not None:
            self._timer.cancel()

    def _changed(self, collection: Collection, change: Change) -> None:
        if collection.resource == EVENTS and change.current is not None:
            self._queue.append((self._clock.now() + self._ttl_seconds, change.current))
            self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and self._queue and self._is_running:
            seconds = max(self._queue[0][0] - self._clock.now(), _SWEEP_SECONDS)
            self._timer = self._clock.call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        revisions, now = self._store.collection(EVENTS).revisions, self._clock.now()
        while self._queue and self._queue[0][0] <= now:
            _, revision = self._queue.popleft()
            if revisions.get(revision.key) is revision:
                self._store.remove(EVENTS, revision.key)
        self._schedule()
