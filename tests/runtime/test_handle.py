"""The handle of plugins: a record of parts that exist before the first plugin."""

import asyncio

import pytest

from scheduler.framework import Plugin
from scheduler.runtime.handle import run_in_parallel
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.testing import FakeHandle, make_pod
from scheduler.testing.doubles import FakeLister
from tests.runtime.profiles import framework_of


async def test_a_handle_gives_access_to_the_waiting_pods() -> None:
    handle = FakeHandle()
    pod = PodInfo(make_pod())
    handle.waiting_pods.add(pod, {"A": 1})
    waiting = handle.get_waiting_pod(pod.uid)
    assert waiting is not None
    seen = []
    handle.iterate_over_waiting_pods(seen.append)
    assert seen == [waiting]
    assert handle.reject_waiting_pod(pod.uid)
    assert not handle.reject_waiting_pod(pod.uid)
    assert not handle.reject_waiting_pod("unknown")


def test_a_plugin_can_use_every_part_of_its_handle_from_the_start() -> None:
    class Early(Plugin):
        def __init__(self) -> None:
            handle, pod = self.handle, PodInfo(make_pod("p"))
            assert handle.profile_name == "batch"
            assert isinstance(handle.snapshot, Snapshot)
            assert handle.now() == clock.now()
            assert not handle.nominator.nominated_nodes
            assert handle.lister("pods").get("p", "default") == make_pod("p")
            with pytest.raises(KeyError):
                handle.lister("nodes")
            handle.activate({"default/p": pod})
            handle.event_recorder.event(pod.pod, type="", reason="", action="", note="")
            assert handle.get_waiting_pod(pod.uid) is handle.get_pod_in_pre_bind(pod.uid) is None
            assert handle.api is fakes.api
            assert handle.metrics is fakes.metrics

    fakes = FakeHandle(profile_name="batch", listers={"pods": FakeLister([make_pod("p")])})
    clock = fakes.clock
    framework_of(Early, handle=fakes)
    assert list(fakes.activated) == ["default/p"]
    assert len(fakes.event_recorder.recorded) == 1


async def test_all_of_it_is_under_way_at_a_time() -> None:
    order: list[str] = []

    async def work(name: str) -> None:
        order.append(f"start {name}")
        await asyncio.sleep(0)
        order.append(f"end {name}")

    await run_in_parallel(work(name) for name in "ab")
    assert order == ["start a", "start b", "end a", "end b"]


async def test_the_first_failure_stops_the_rest_and_is_raised_as_it_is() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append("slow")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match=r"^broken$"):
        await run_in_parallel([slow(), fails(), slow()])
    assert ended == ["slow", "slow"]


async def test_nothing_to_do_takes_no_time() -> None:
    await run_in_parallel([])
