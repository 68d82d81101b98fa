"""What an actor has to do: keys, each once, now or at a time, never two workers on one key."""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fakeapi.clock import Clock, Timer

_RETRY_SECONDS: Final = 0.005
_RETRY_SECONDS_MAX: Final = 1000.0


class WorkQueue:
    """Keys in order of arrival. Source: client-go util/workqueue of v0.36.3."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: collections.deque[str] = collections.deque()
        self._queued: set[str] = set()
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._timers: dict[str, tuple[float, Timer]] = {}
        self._failures: collections.Counter[str] = collections.Counter()
        self._arrived = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done before time passes or somebody adds a key."""
        return not self._queued and not self._busy

    def add(self, key: str) -> None:
        """Do that; once, however often it is asked for before it is begun."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.append(key)
            self._arrived.set()

    def add_after(self, key: str, seconds: float) -> None:
        """Do that after so long; of several times the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        when = self._clock.now() + seconds
        planned = self._timers.get(key)
        if planned is not None:
            if planned[0] <= when:
                return
            planned[1].cancel()
        self._timers[key] = (when, self._clock.call_later(seconds, lambda: self._due(key)))

    def retry(self, key: str) -> None:
        """Do that again after a failure, later after each."""
        delay = min(_RETRY_SECONDS * 2 ** min(self._failures[key], 30), _RETRY_SECONDS_MAX)
        self._failures[key] += 1
        self.add_after(key, delay)

    def succeeded(self, key: str) -> None:
        """Forget its failures."""
        self._failures.pop(key, None)

    async def take(self) -> str:
        """The next key; `done` says when it has been dealt with."""
        while not self._ready:
            self._arrived.clear()
            await self._arrived.wait()
        key = self._ready.popleft()
        self._queued.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: str) -> None:
        """The key has been dealt with; what was asked for meanwhile is queued now."""
        self._busy.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def close(self) -> None:
        """Cancel what is planned."""
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _due(self, key: str) -> None:
        del self._timers[key]
        self.add(key)
