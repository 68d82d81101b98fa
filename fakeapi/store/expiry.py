"""Events end an hour after their last write, as the leases of etcd end them.

The event that was written last is the last that is due, so one timer, for the first, is enough.

Source: pkg/registry/core/event/storage/storage.go of v1.36.3.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
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
        #: The time at which each event is due, the next one first.
        self._due: OrderedDict[str, tuple[float, Revision]] = OrderedDict()
        self._timer: Timer | None = None
        self._is_running = False
        if ttl_seconds > 0:
            store.observers.append(self._changed)

    def start(self) -> None:
        """Begin to remove events. The age of a restored event is zero."""
        self._is_running = self._ttl_seconds > 0
        for revision in self._store.collection(EVENTS).revisions.values():
            if self._due.get(revision.key, (0.0, None))[1] is not revision:
                self._expect(revision)
        self._schedule()

    def stop(self) -> None:
        """Remove no more events."""
        self._is_running = False
        if self._timer is not None:
            self._timer.cancel()

    def _changed(self, collection: Collection, change: Change) -> None:
        if collection.resource != EVENTS:
            return
        if change.current is None:
            self._due.pop(change.key, None)
        else:
            self._expect(change.current)
            self._schedule()

    def _expect(self, revision: Revision) -> None:
        """Note the last write of an event at the end of the order."""
        self._due[revision.key] = (self._clock.now() + self._ttl_seconds, revision)
        self._due.move_to_end(revision.key)

    def _schedule(self) -> None:
        if self._timer is None and self._due and self._is_running:
            due, _ = next(iter(self._due.values()))
            seconds = max(due - self._clock.now(), _SWEEP_SECONDS)
            self._timer = self._clock.call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        revisions, now = self._store.collection(EVENTS).revisions, self._clock.now()
        over = itertools.takewhile(lambda each: each[0] <= now, self._due.values())
        for _, revision in list(over):
            del self._due[revision.key]
            if revisions.get(revision.key) is revision:
                self._store.remove(EVENTS, revision.key)
        self._schedule()
