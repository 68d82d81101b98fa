"""An event loop that detects when nothing is left to do but wait.

`QuietLoop.quiet()` returns when no task can run and no socket is ready for reading or writing:
every chain of tasks that wake one another, through memory or through loopback sockets, has ended.
Waiting for a timer (real or virtual) or for a thread does not count as work.

The loop polls its selector with a timeout of zero while callbacks are ready, and with a longer
timeout (or none) when it would have to wait. So the loop is quiet when a call that may wait finds
no socket ready. No task is woken for this; it costs one system call and changes nothing.

Sockets that are ready at the same moment are served in the order of registration. The kernel's own
order depends on real time and would make runs differ.
"""

from __future__ import annotations

import asyncio
import itertools
import selectors
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from selectors import SelectorKey

    from _typeshed import FileDescriptorLike

T = TypeVar("T")


class _QuietSelector(selectors.DefaultSelector):
    """Notifies waiters when it would have to wait, and keeps sockets in order."""

    def __init__(self) -> None:
        super().__init__()
        self.waiters: list[asyncio.Future[None]] = []
        self._turns = itertools.count()
        self._turn_of: dict[int, int] = {}

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: object = None
    ) -> SelectorKey:
        """Register a file; it is served after all registered before it."""
        key = super().register(fileobj, events, data)
        self._turn_of[key.fd] = next(self._turns)
        return key

    def unregister(self, fileobj: FileDescriptorLike) -> SelectorKey:
        key = super().unregister(fileobj)
        del self._turn_of[key.fd]
        return key

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Select like any selector, but do not block if a waiter needs the moment of idleness."""
        if not self.waiters or (timeout is not None and timeout <= 0):
            return self._in_order(super().select(timeout))
        ready = super().select(0)
        if not ready:
            waiters, self.waiters = self.waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        return self._in_order(ready)

    def _in_order(self, ready: list[tuple[SelectorKey, int]]) -> list[tuple[SelectorKey, int]]:
        if len(ready) > 1:
            ready.sort(key=lambda pair: self._turn_of[pair[0].fd])
        return ready


class QuietLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop with the method `quiet`."""

    def __init__(self) -> None:
        self._quiet_selector = _QuietSelector()
        super().__init__(self._quiet_selector)

    async def quiet(self) -> None:
        """Return once no task can run and no socket is ready."""
        waiter = self.create_future()
        self._quiet_selector.waiters.append(waiter)
        await waiter


def run_quietly(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a QuietLoop of its own; tasks that it leaves behind end with the loop."""
    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        return runner.run(work)
