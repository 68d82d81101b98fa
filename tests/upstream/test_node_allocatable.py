"""`nodeallocatabledynamicresources_test.go`: devices that stand for resources of their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.api.core import PodResourceClaim
from scheduler.api.dynamic_resources import (
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from scheduler.devices.manager import DraManager
from scheduler.devices.requests import AllocationError
from scheduler.plugins.dynamic_resources.node_allocatable import RULES_OF_1_36, NodeAllocatable
from scheduler.plugins.dynamic_resources.state import ClaimState, StateData
from scheduler.testing import FakeHandle
from tests.plugins.devices import lister
from tests.plugins.running import verdict_of
from tests.upstream.claim_stage import ClaimStage
from tests.upstream.loading import Case, Fields, api_object, cases, pod, snapshot, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.api.core import Pod

DRIVER: Final = "dra.example.com"
NAMESPACE: Final = "test-ns"
ONE_NODE: Final = np.ones(1, dtype=np.bool_)


def node_allocatable(waiting: Pod, claims: list[ClaimState], devices: Fields) -> NodeAllocatable:
    """The check of a pod with its claims. `devices` are the mappings of devices by name."""
    offered = tuple(
        api_object(Device, {"name": name, "nodeAllocatableResourceMappings": mappings})
        for name, mappings in devices.items()
    )
    spec = ResourceSliceSpec(DRIVER, ResourcePool("pool1"), devices=offered)
    listers = {"resourceclaims": lister(()), "resourceslices": lister([ResourceSlice(spec=spec)])}
    manager = DraManager(FakeHandle(listers=listers))
    return NodeAllocatable(
        RULES_OF_1_36, StateData(claims), waiting, manager, is_reserved=lambda claim: False
    )


def claim_with(name: str, devices: Sequence[Fields]) -> ClaimState:
    """A claim that has devices, and consumes some of their capacity."""
    results = (
        DeviceRequestAllocationResult(
            "", DRIVER, "pool1", each["device"], consumed_capacity=each.get("consumed")
        )
        for each in devices
    )
    metadata = {"name": name, "namespace": NAMESPACE, "uid": name}
    claim = api_object(ResourceClaim, {"metadata": metadata})
    return ClaimState(claim, pending=AllocationResult(DeviceAllocationResult(tuple(results))))


def pod_with_claims(case: Case) -> Pod:
    waiting = pod(case["pod"])
    entries = tuple(PodResourceClaim(name, resource_claim_name=name) for name in case["claims"])
    metadata = replace(waiting.metadata, namespace=NAMESPACE)
    return replace(waiting, metadata=metadata, spec=replace(waiting.spec, resource_claims=entries))


@pytest.mark.parametrize(
    "case",
    [
        *cases("dynamic_resources", "claim_statuses"),
        *cases("dynamic_resources", "room_for_devices"),
    ],
)
def test_what_claims_take_of_a_node(case: Case) -> None:
    claims = [claim_with(*entry) for entry in case["claims"].items()]
    check = node_allocatable(pod_with_claims(case), claims, case["devices"])
    nodes = snapshot(case).nodes
    if "error" in case.fields:
        with pytest.raises(AllocationError, match=case["error"]):
            check.check(nodes, ONE_NODE, [0], lambda position: None)
        return
    rejected, taken = check.check(nodes, ONE_NODE, [0], lambda position: None)
    assert verdict_of(rejected.get(0)) == verdict(case.get("rejected"))
    if "taken" in case.fields:
        expected = {"status": {"nodeAllocatableResourceClaimStatuses": case["taken"]}}
        statuses = pod(expected).status.node_allocatable_resource_claim_statuses
        assert tuple(taken.get(0, ())) == statuses


@pytest.mark.parametrize("case", cases("dynamic_resources", "covered_requests"))
def test_requests_of_the_whole_pod_cover_its_claims(case: Case) -> None:
    assert RULES_OF_1_36.uncovered(pod(case["pod"])) == case["uncovered"]


@pytest.mark.parametrize("case", cases("dynamic_resources", "claim_sharing"))
def test_a_claim_has_one_pod_of_a_node(case: Case) -> None:
    claim = ClaimState(api_object(ResourceClaim, case["claim"]))
    check = node_allocatable(pod(case["pod"]), [claim], {})
    rejected = check.shared_elsewhere(snapshot(case).nodes, ONE_NODE)
    assert verdict_of(rejected.get(0)) == verdict(case.get("rejected"))


@pytest.mark.parametrize("case", cases("dynamic_resources", "written_claim_statuses"))
async def test_what_claims_take_is_written_into_the_status_of_the_pod(case: Case) -> None:
    await ClaimStage(case).run()
