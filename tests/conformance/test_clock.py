"""Virtual time: it stands still, goes from wake-up to wake-up, and lets everybody finish."""

import asyncio

import pytest

from conformance.clock import RealClock, VirtualClock, parse_duration
from conformance.errors import InputError


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_virtual_clock_stands_still() -> None:
    clock = VirtualClock(start_seconds=1000.0)
    await _turns()
    assert (clock.now(), clock.monotonic()) == (1000.0, 0.0)


async def test_sleeping_tasks_are_woken_at_their_time_and_in_order() -> None:
    clock, woken = VirtualClock(start_seconds=0.0), []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.now()))

    sleepers = [asyncio.ensure_future(sleep(seconds)) for seconds in (3.0, 1.0, 2.0)]
    await _turns()
    await clock.run_for(2.5, _turns)
    assert woken == [(1.0, 1.0), (2.0, 2.0)]
    assert clock.now() == 2.5
    await clock.run_for(1.0, _turns)
    assert woken[-1] == (3.0, 3.0)
    await asyncio.gather(*sleepers)


async def test_a_woken_task_runs_before_the_next_wake_up() -> None:
    clock, steps = VirtualClock(start_seconds=0.0), []

    async def tick() -> None:
        for _ in range(3):
            await clock.sleep(1.0)
            await asyncio.sleep(0)  # work that takes a turn of the loop
            steps.append(clock.now())

    task = asyncio.ensure_future(tick())
    await _turns()
    await clock.run_for(10.0, _turns)
    assert steps == [1.0, 2.0, 3.0]
    await task


async def test_a_cancelled_timer_is_nobodys_wake_up() -> None:
    clock = VirtualClock(start_seconds=0.0)
    called: list[str] = []
    clock.call_later(1.0, lambda: called.append("first")).cancel()
    clock.call_later(2.0, lambda: called.append("second"))
    sleeper = asyncio.ensure_future(clock.sleep(0.5))
    await _turns()
    sleeper.cancel()
    await _turns()
    assert clock.next_wake_up == 2.0
    clock.move_to(5.0)
    assert called == ["second"]
    assert clock.next_wake_up is None


async def test_a_callback_sees_the_time_it_was_meant_for() -> None:
    clock, seen = VirtualClock(start_seconds=0.0), []
    clock.call_later(1.0, lambda: seen.append(clock.now()))
    clock.move_to(7.0)
    assert (seen, clock.now()) == ([1.0], 7.0)


async def test_a_virtual_clock_never_goes_back() -> None:
    clock = VirtualClock(start_seconds=10.0)
    clock.move_to(5.0)
    assert clock.now() == 10.0


async def test_sleeping_for_no_time_needs_no_advance() -> None:
    await VirtualClock().sleep(0.0)


async def test_the_real_clock_moves_by_itself() -> None:
    clock = RealClock()
    before = clock.monotonic()
    called = asyncio.Event()
    clock.call_later(0.001, called.set)
    await clock.sleep(0.002)
    assert clock.monotonic() > before
    await called.wait()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1.5s", 1.5),
        ("250ms", 0.25),
        ("1m1s", 61.0),
    ],
)
def test_a_duration_is_a_number_with_a_unit_or_several(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "-5s", "5d", "1h-2m"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected a duration such as 90s"):
        parse_duration(text)
