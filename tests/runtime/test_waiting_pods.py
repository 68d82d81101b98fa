"""Pods that wait at Permit: allowed, rejected, or timed out, on a clock that the test moves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from scheduler.framework import Status, WaitingPod, unschedulable
from scheduler.framework.status import Code
from scheduler.metrics import SchedulerMetrics
from scheduler.runtime import WaitingPods
from scheduler.snapshot import PodInfo
from scheduler.testing import VirtualClock, make_pod

POD = PodInfo(make_pod(node_name="n"))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def pods(clock: VirtualClock) -> WaitingPods:
    return WaitingPods(clock, SchedulerMetrics())


@contextlib.asynccontextmanager
async def _held(
    pods: WaitingPods, **seconds: float
) -> AsyncIterator[tuple[WaitingPod, asyncio.Task[Status | None]]]:
    """The pod held by plugins for so many seconds each, and the task that waits for the outcome."""
    pods.add(POD, seconds)
    waiting = pods.get(POD.uid)
    assert waiting is not None
    outcome = asyncio.ensure_future(pods.wait_on_permit(POD.uid))
    await asyncio.sleep(0)
    yield waiting, outcome
    outcome.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await outcome


async def test_a_pod_that_no_plugin_holds_goes_on_at_once(pods: WaitingPods) -> None:
    assert await pods.wait_on_permit(POD.uid) is None
    assert pods.get(POD.uid) is None
    assert not pods.reject(POD.uid)


async def test_a_pod_goes_on_when_all_its_plugins_allow_it(pods: WaitingPods) -> None:
    async with _held(pods, A=10, B=10) as (waiting, outcome):
        assert waiting.pod is POD
        assert waiting.pending_plugins == ["A", "B"]
        waiting.allow("A")
        waiting.allow("A")
        waiting.allow("a stranger")
        await asyncio.sleep(0)
        assert waiting.pending_plugins == ["B"]
        assert not outcome.done()
        waiting.allow("B")
        assert await outcome is None
    assert len(pods) == 0


async def test_one_plugin_can_turn_a_pod_down(pods: WaitingPods, clock: VirtualClock) -> None:
    async with _held(pods, A=10, B=10) as (waiting, outcome):
        assert waiting.reject("B", "no room")
        assert await outcome == unschedulable("no room").with_plugin("B")
    assert len(pods) == 0
    await clock.advance(0)
    assert clock.next_wake_up is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (10, "rejected due to timeout after waiting 10s at plugin A"),
        (90, "rejected due to timeout after waiting 1m30s at plugin A"),
        (0.25, "rejected due to timeout after waiting 250ms at plugin A"),
        (900, "rejected due to timeout after waiting 15m0s at plugin A"),
    ],
)
async def test_a_pod_is_turned_down_when_a_plugins_time_is_up(
    pods: WaitingPods, clock: VirtualClock, seconds: float, text: str
) -> None:
    async with _held(pods, B=2 * seconds, A=seconds) as (waiting, outcome):
        await clock.advance(seconds * 0.75)
        assert not outcome.done()
        await clock.advance(seconds * 0.25)
        assert await outcome == unschedulable(text).with_plugin("A")
        assert not waiting.reject("B", "too late")


async def test_the_time_of_a_plugin_that_has_allowed_the_pod_no_longer_runs(
    pods: WaitingPods, clock: VirtualClock
) -> None:
    async with _held(pods, A=1, B=10) as (waiting, outcome):
        waiting.allow("A")
        await clock.advance(9)
        assert not outcome.done()
        waiting.allow("B")
        assert await outcome is None


async def test_the_first_decision_counts(pods: WaitingPods, clock: VirtualClock) -> None:
    async with _held(pods, A=1) as (waiting, outcome):
        waiting.allow("A")
        assert not waiting.reject("A", "too late")
        assert not waiting.preempt("A", "too late")
        await clock.advance(5)
        assert await outcome is None
    async with _held(pods, A=1) as (waiting, outcome):
        assert waiting.reject("A", "no")
        waiting.allow("A")
        assert not waiting.reject("A", "again")
        assert await outcome == unschedulable("no").with_plugin("A")


async def test_a_preempted_pod_failed_and_was_not_rejected(pods: WaitingPods) -> None:
    async with _held(pods, A=1) as (waiting, outcome):
        assert waiting.preempt("DefaultPreemption", "preempted")
        status = await outcome
        assert status == Status(
            Code.ERROR, "waiting on permit for pod: preempted", plugin="DefaultPreemption"
        )


async def test_a_pod_that_is_gone_is_turned_down(pods: WaitingPods) -> None:
    async with _held(pods, A=1) as (_, outcome):
        assert pods.reject(POD.uid)
        assert await outcome == unschedulable("removed")


async def test_a_decision_before_the_wait_counts(pods: WaitingPods) -> None:
    pods.add(POD, {"A": 1})
    waiting = pods.get(POD.uid)
    assert waiting is not None
    waiting.allow("A")
    assert await pods.wait_on_permit(POD.uid) is None


async def test_all_waiting_pods_can_be_iterated_and_allowed(pods: WaitingPods) -> None:
    others = [PodInfo(make_pod(name)) for name in "xyz"]
    for other in others:
        pods.add(other, {"A": 10})
    assert len(pods) == 3
    seen: list[str] = []

    def let_go(waiting: WaitingPod) -> None:
        seen.append(waiting.pod.name)
        waiting.allow("A")

    pods.iterate(let_go)
    assert seen == ["x", "y", "z"]
    outcomes = await asyncio.gather(*(pods.wait_on_permit(other.uid) for other in others))
    assert outcomes == [None, None, None]


async def test_a_binding_that_is_cancelled_holds_nothing(
    pods: WaitingPods, clock: VirtualClock
) -> None:
    async with _held(pods, A=10) as (_, outcome):
        outcome.cancel()
        with pytest.raises(asyncio.CancelledError):
            await outcome
        assert len(pods) == 0
        await asyncio.sleep(0)
        assert clock.next_wake_up is None


async def test_no_time_to_wait_is_no_time(pods: WaitingPods) -> None:
    async with _held(pods, A=0) as (_, outcome):
        status = await outcome
        assert status is not None
        assert status.message == "rejected due to timeout after waiting 0s at plugin A"
