"""`dynamicresources_test.go`."""

from typing import Any

import pytest

from scheduler.api.dynamic_resources import DeviceClass, ResourceClaim
from scheduler.plugins.dynamic_resources.dynamic_resources import DynamicResources
from scheduler.snapshot import PodInfo
from tests.plugins.devices import dynamic_resources
from tests.upstream.claim_stage import ClaimStage
from tests.upstream.loading import Case, api_object, cases, pod


def plugin_of(case: Case, *more: ResourceClaim) -> DynamicResources:
    claims = [api_object(ResourceClaim, value) for value in case.get("claims", ())]
    classes = [api_object(DeviceClass, value) for value in case.get("classes", ())]
    return dynamic_resources((*claims, *more), classes)


@pytest.mark.parametrize("case", cases("dynamic_resources", "points"))
async def test_each_extension_point_answers_as_upstreams(case: Case) -> None:
    await ClaimStage(case).run()


@pytest.mark.parametrize("case", cases("dynamic_resources", "hints"))
def test_the_hint_of_an_event_is_upstreams(case: Case) -> None:
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
