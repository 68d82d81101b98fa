"""`dynamicresources_test.go`, as far as no device is allocated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scheduler.api.dynamic_resources import DeviceClass, ResourceClaim
from scheduler.framework import CycleState, NodeToStatus
from scheduler.snapshot import PodInfo
from tests.plugins.devices import dynamic_resources
from tests.plugins.running import rejected, verdict_of
from tests.upstream.loading import (
    Case,
    api_object,
    cases,
    pod,
    snapshot,
    verdict,
    verdicts,
)

if TYPE_CHECKING:
    from scheduler.plugins.dynamic_resources.dynamic_resources import DynamicResources

NO_STATUSES = NodeToStatus((), {})


def plugin_of(case: Case, *more: ResourceClaim) -> DynamicResources:
    claims = [api_object(ResourceClaim, value) for value in case.get("claims", ())]
    classes = [api_object(DeviceClass, value) for value in case.get("classes", ())]
    return dynamic_resources((*claims, *more), classes)


@pytest.mark.parametrize("case", cases("dynamic_resources", "points"))
async def test_points(case: Case) -> None:
    plugin, state, info = plugin_of(case), CycleState(), PodInfo(pod(case["pod"]))
    nodes = snapshot(case).nodes
    assert verdict_of(plugin.pre_enqueue(info)) == verdict(case.get("pre_enqueue"))
    if case.get("pre_enqueue"):
        return
    assert verdict_of(plugin.pre_filter(state, info, nodes)) == verdict(case.get("pre_filter"))
    assert rejected(plugin, info.pod, snapshot(case)) == verdicts(case.get("statuses", {}))
    if case.get("post_filter"):
        _, status = await plugin.post_filter(state, info, NO_STATUSES)
        assert verdict_of(status) == verdict(case["post_filter"])
    plugin.reserve(state, info, "worker")
    flight = plugin.pre_bind_pre_flight(state, info, "worker")
    assert flight == (True, case.get("pre_bind_skipped", False))
    await plugin.pre_bind(state, info, "worker")


@pytest.mark.parametrize("case", cases("dynamic_resources", "hints"))
def test_hints(case: Case) -> None:
    kind = case["kind"]
    read = _claim if kind == "ResourceClaim" else _pod
    old, new = read(case.get("old")), read(case["new"])
    # What the lister knows is what the event has brought.
    added = [new] if isinstance(new, ResourceClaim) and old is None else []
    plugin = plugin_of(case, *added)
    ask = (
        plugin.is_schedulable_after_claim_change
        if kind == "ResourceClaim"
        else plugin.is_schedulable_after_pod_change
    )
    waiting = PodInfo(pod(case["pod"]))
    if case["hint"] == "error":
        with pytest.raises(TypeError):
            ask(waiting, old, new)
        return
    assert str(ask(waiting, old, new)) == case["hint"]


def _claim(value: Any) -> object:
    return api_object(ResourceClaim, value) if isinstance(value, dict) else value


def _pod(value: Any) -> object:
    return pod(value) if isinstance(value, dict) else value
