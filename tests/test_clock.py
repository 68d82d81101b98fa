"""The wait for work on an injected clock."""

import asyncio

import pytest

from scheduler.clock import wait_for
from scheduler.testing import VirtualClock


async def test_work_that_ends_in_time_returns_its_result() -> None:
    clock = VirtualClock()

    async def work() -> str:
        await clock.sleep(4)
        return "done"

    waiting = asyncio.create_task(wait_for(work(), 5, clock))
    await clock.advance(4)

    assert await waiting == "done"
    assert clock.next_wake_up is None, "the alarm is cancelled"


async def test_work_that_takes_too_long_is_cancelled() -> None:
    clock, is_cancelled = VirtualClock(), False

    async def work() -> None:
        nonlocal is_cancelled
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            is_cancelled = True
            raise

    waiting = asyncio.create_task(wait_for(work(), 5, clock))
    await clock.advance(4.9)
    assert not waiting.done()
    await clock.advance(0.1)

    with pytest.raises(TimeoutError):
        await waiting
    assert is_cancelled


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise LookupError("bug")

    with pytest.raises(LookupError, match="bug"):
        await wait_for(work(), 5, VirtualClock())


async def test_a_cancelled_wait_cancels_its_work() -> None:
    clock = VirtualClock()
    waiting = asyncio.create_task(wait_for(clock.sleep(3), 5, clock))
    await clock.advance(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert clock.next_wake_up is None
