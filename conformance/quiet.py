"""An event loop that can tell when nothing is left to do but wait.

Whoever awaits `QuietLoop.quiet()` goes on once no task can run and no socket has anything to read
or write: every chain of tasks that wake one another, through memory or through loopback sockets,
has come to its end. What waits for a timer (real or virtual) or for a thread does not count as
something to do.

How it is known: the loop polls its selector without a timeout while callbacks are ready, and with
one (or none) when it would have to wait. So a call that may wait, and finds no socket ready, is the
moment. No task is woken on the way, so the answer costs one system call and disturbs nothing.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectors import SelectorKey

__all__ = ["QuietLoop"]


class _QuietSelector(selectors.DefaultSelector):
    """Tells waiters about the moment at which it would have to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waiters: list[asyncio.Future[None]] = []

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Like any selector, but does not wait if somebody waits for just that."""
        if not self.waiters or (timeout is not None and timeout <= 0):
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            waiters, self.waiters = self.waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        return ready


class QuietLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop with one more thing to wait for."""

    def __init__(self) -> None:
        self._quiet_selector = _QuietSelector()
        super().__init__(self._quiet_selector)

    async def quiet(self) -> None:
        """Return once no task can run and no socket is ready."""
        waiter = self.create_future()
        self._quiet_selector.waiters.append(waiter)
        await waiter
