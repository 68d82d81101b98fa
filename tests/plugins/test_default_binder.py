"""DefaultBinder."""

import pytest

from scheduler.framework import CycleState
from scheduler.plugins.default_binder import DefaultBinder
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_pod


class Refused(Exception):
    pass


def binder(handle: FakeHandle) -> DefaultBinder:
    plugin = DefaultBinder()
    plugin.handle = handle
    return plugin


async def test_a_pod_is_bound_through_the_api() -> None:
    handle = FakeHandle()
    await binder(handle).bind(CycleState(), PodInfo(make_pod("p", namespace="ns")), "node-1")
    assert handle.api.bound == {"ns/p": "node-1"}


async def test_the_api_servers_refusal_is_passed_on() -> None:
    handle = FakeHandle()
    handle.api.failure = Refused()
    with pytest.raises(Refused):
        await binder(handle).bind(CycleState(), PodInfo(make_pod()), "node-1")
    assert handle.api.bound == {}
