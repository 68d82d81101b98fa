"""The system's clock, and the clock moved by hand."""

import asyncio

from fakeapi import ManualClock, SystemClock


def test_the_system_clock_never_decreases() -> None:
    clock = SystemClock()
    times = [clock.now() for _ in range(100)]
    assert times == sorted(times)
    assert times[0] > 1_700_000_000


async def test_the_system_clock_calls_back_unless_it_is_cancelled() -> None:
    clock = SystemClock()
    called = asyncio.Event()
    cancelled = clock.call_later(0, lambda: called.set())
    cancelled.cancel()
    await clock.sleep(0.001)
    assert not called.is_set()
    clock.call_later(0, called.set)
    await asyncio.wait_for(called.wait(), 5)


def test_a_manual_clock_stands_still() -> None:
    clock = ManualClock(start=5.0)
    assert (clock.now(), clock.now()) == (5.0, 5.0)


def test_callbacks_happen_in_order_at_their_time() -> None:
    clock = ManualClock(start=0.0)
    seen: list[tuple[str, float]] = []
    for name, seconds in (("late", 3.0), ("early", 1.0), ("same", 1.0)):
        clock.call_later(seconds, lambda name=name: seen.append((name, clock.now())))
    clock.call_later(2.0, lambda: seen.append(("never", 0.0))).cancel()
    clock.advance(2)
    assert seen == [("early", 1.0), ("same", 1.0)]
    clock.advance(2)
    assert (seen[-1], clock.now()) == (("late", 3.0), 4.0)


def test_a_callback_may_set_the_next_one() -> None:
    clock = ManualClock(start=0.0)
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(clock.now())
        clock.call_later(1, tick)

    clock.call_later(1, tick)
    clock.advance(3)
    assert ticks == [1.0, 2.0, 3.0]


async def test_sleepers_wake_when_the_clock_is_moved_that_far() -> None:
    clock = ManualClock()
    sleeper = asyncio.create_task(clock.sleep(10))
    await asyncio.sleep(0)
    clock.advance(9)
    await asyncio.sleep(0)
    assert not sleeper.done()
    clock.advance(1)
    await asyncio.wait_for(sleeper, 5)
