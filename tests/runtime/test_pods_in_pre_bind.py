"""Pods between Permit and Bind, which a preemption can still cancel."""

import asyncio

import pytest

from scheduler.framework import CycleState, Plugin, PreBindPreFlightResult, Status, unschedulable
from scheduler.framework.status import Code
from scheduler.runtime import PodsInPreBind
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod
from tests.runtime.profiles import framework_of, plugin


async def _after(seconds: float, status: Status | None) -> Status | None:
    await asyncio.sleep(seconds)
    return status


async def _stubborn() -> Status | None:
    """Ignores the cancellation and goes on."""
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        return None
    return None


@pytest.mark.parametrize("answer", [None, unschedulable("no")])
async def test_the_answer_of_the_plugins_is_returned_without_a_cancellation(
    answer: Status | None,
) -> None:
    pods = PodsInPreBind()
    assert await pods.run("uid", _after(0, answer)) is answer
    assert pods.get("uid") is None


@pytest.mark.parametrize("work", [_after, _stubborn])
async def test_a_cancelled_pod_fails_even_if_its_plugins_ignore_it(
    work: object,
) -> None:
    pods = PodsInPreBind()
    coroutine = _stubborn() if work is _stubborn else _after(10, None)
    running = asyncio.ensure_future(pods.run("uid", coroutine))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    pod = pods.get("uid")
    assert pod is not None
    assert pod.cancel_pod("preempted by X")
    assert pod.cancel_pod("preempted by Y")
    status = await running
    assert status is not None
    assert (status.code, status.message) == (Code.ERROR, "preempted by X")
    assert pods.get("uid") is None


async def test_a_pod_that_has_come_through_cannot_be_cancelled_any_more() -> None:
    pods = PodsInPreBind()
    running = asyncio.ensure_future(pods.run("uid", _after(0, None)))
    await asyncio.sleep(0)
    pod = pods.get("uid")
    assert pod is not None
    assert await running is None
    assert not pod.cancel_pod("too late")


async def test_a_shutdown_stops_the_plugins_and_is_a_shutdown_for_the_caller() -> None:
    pods = PodsInPreBind()
    stopped = asyncio.Event()

    async def work() -> Status | None:
        try:
            await asyncio.sleep(10)
        finally:
            stopped.set()
        return None

    running = asyncio.ensure_future(pods.run("uid", work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.sleep(0)
    assert stopped.is_set()


async def test_a_plugin_that_fails_is_not_a_preemption() -> None:
    async def fails() -> Status | None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await PodsInPreBind().run("uid", fails())


async def _for_ever(self: Plugin, *arguments: object) -> None:
    await asyncio.get_running_loop().create_future()


def _beside_others(self: Plugin, *arguments: object) -> PreBindPreFlightResult:
    return PreBindPreFlightResult(allow_parallel=True)


@pytest.mark.parametrize("count", [1, 2])
async def test_the_plugin_that_was_at_work_is_named_with_the_reason(count: int) -> None:
    workers = [
        plugin(f"Worker{n}", pre_bind=_for_ever, pre_bind_pre_flight=_beside_others)
        for n in range(count)
    ]
    binding, state, info = framework_of(*workers).binding, CycleState(), PodInfo(make_pod())
    pre_flight = binding.pre_bind_pre_flight(state, info, "node")
    assert [len(group) for group in pre_flight.groups] == [count]
    pods = PodsInPreBind()
    work = binding.pre_bind(pre_flight, state, info, "node")
    running = asyncio.ensure_future(pods.run("uid", work))
    for _ in range(5):
        await asyncio.sleep(0)
    pod = pods.get("uid")
    assert pod is not None
    assert pod.cancel_pod("preempted by X")
    status = await running
    assert status is not None
    assert status.message == 'running PreBind plugin "Worker0": preempted by X'
