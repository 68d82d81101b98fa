"""The rate limit and the growing pause, on clocks that tests hold."""

import asyncio
import random

import pytest

from scheduler.client.flow_control import Backoff, TokenBucket
from scheduler.testing import VirtualClock
from tests.client.objects import InstantClock


async def taken(bucket: TokenBucket, count: int) -> list[float]:
    return [await bucket.take() for _ in range(count)]


async def test_a_burst_passes_and_then_the_rate_holds() -> None:
    bucket = TokenBucket(qps=10, burst=3, clock=InstantClock())

    assert await taken(bucket, 6) == pytest.approx([0, 0, 0, 0.1, 0.1, 0.1])


async def test_the_bucket_fills_again_but_not_beyond_the_burst() -> None:
    clock = InstantClock()
    bucket = TokenBucket(qps=10, burst=3, clock=clock)
    await taken(bucket, 3)
    clock.time += 1000

    assert await taken(bucket, 4) == pytest.approx([0, 0, 0, 0.1], abs=1e-6)


async def test_a_negative_rate_is_no_limit() -> None:
    bucket = TokenBucket(qps=-1, burst=0, clock=InstantClock())

    assert await taken(bucket, 1000) == [0] * 1000


@pytest.mark.parametrize(("qps", "burst"), [(0, 10), (5, 0), (5, -1)])
def test_a_bucket_without_tokens_is_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="expected a positive qps with a positive burst"):
        TokenBucket(qps=qps, burst=burst, clock=InstantClock())


async def test_waiters_are_served_in_turn() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(qps=1, burst=1, clock=clock)
    order: list[int] = []

    async def wait(number: int) -> None:
        await bucket.take()
        order.append(number)

    waiting = [asyncio.create_task(wait(number)) for number in range(4)]
    await clock.advance(1.5)
    assert order == [0, 1]
    await clock.advance(2)
    assert order == [0, 1, 2, 3]
    await asyncio.gather(*waiting)


async def test_a_cancelled_waiter_returns_its_token() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(qps=1, burst=1, clock=clock)
    await bucket.take()
    impatient = asyncio.create_task(bucket.take())
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)
    patient = asyncio.create_task(bucket.take())
    await clock.advance(1)

    assert patient.done()


def test_pauses_double_up_to_the_cap() -> None:
    backoff = Backoff(clock=InstantClock(), rng=random.Random(1), jitter=0)

    assert [backoff.step() for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]


def test_jitter_makes_a_pause_up_to_twice_as_long() -> None:
    rng = random.Random(1)
    steps = [Backoff(clock=InstantClock(), rng=rng).step() for _ in range(200)]

    assert min(steps) >= 0.8
    assert max(steps) < 1.6
    assert max(steps) - min(steps) > 0.7


async def test_two_quiet_minutes_make_pauses_short_again() -> None:
    clock = InstantClock()
    backoff = Backoff(clock=clock, rng=random.Random(1), jitter=0)
    for _ in range(7):
        await backoff.pause()
    clock.time += 120
    assert backoff.step() == 30
    clock.time += 30 + 121

    assert backoff.step() == 0.8


async def test_failing_for_long_is_no_reason_to_hurry_again() -> None:
    backoff = Backoff(clock=InstantClock(), rng=random.Random(1), jitter=0)
    for _ in range(100):
        await backoff.pause()

    assert backoff.step() == 30
