"""An event loop that detects that nothing will happen until an object changes or time passes."""

import asyncio
from collections.abc import Callable
from contextvars import Context

from scheduler.testing import VirtualClock

#: Far more turns than anything sound takes between two moments of virtual time.
TURNS_MAX = 50_000


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts the callbacks that were ever scheduled."""

    scheduled = 0

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        self.scheduled += 1
        return super().call_soon(callback, *args, context=context)


async def turns(count: int) -> None:
    """Give all tasks a few turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def settle() -> None:
    """Return once everybody waits for time or for the caller.

    All that was ready before the caller's own turn comes again has run by then; if it has scheduled
    nothing new, nothing is left.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, CountingLoop)
    for _ in range(TURNS_MAX):
        before = loop.scheduled
        await asyncio.sleep(0)
        if loop.scheduled == before + 1:
            return
    raise AssertionError("it never becomes idle")


async def advance(clock: VirtualClock, seconds: float) -> None:
    """Let virtual time pass, from one wake-up to the next."""
    end = clock.now() + seconds
    await settle()
    while (due := clock.next_wake_up) is not None and due <= end:
        clock.advance_nowait(max(0.0, due - clock.now()))
        await settle()
    clock.advance_nowait(max(0.0, end - clock.now()))
    await settle()
