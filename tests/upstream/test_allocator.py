"""The allocator's tables of `k8s.io/dynamic-resource-allocation`, through the Filter of claims.

Fields of gates that are off are dropped, as an informer drops them. Devices of a result are
compared in the order in which upstream's `incubating` allocator returns them. Slices that have one
name in upstream's table, which no server allows, have names of their own.
"""

import dataclasses
import re
from collections.abc import Iterator

import msgspec
import pytest

from scheduler.api.dynamic_resources import (
    AllocationResult,
    CapacityRequirements,
    CELDeviceSelector,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClass,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from scheduler.api.quantity import parse_quantity
from scheduler.assembly.gated_fields import transforms
from scheduler.config import DEFAULT_SCHEDULER_VERSION
from scheduler.devices.allocator import Allocator
from scheduler.devices.capacity import CAPACITY_OF_1_36, consumed, fits
from scheduler.devices.manager import DraManager
from scheduler.devices.pools import PoolDevice
from scheduler.devices.results import allocation_result
from scheduler.devices.selectors import LIST_TYPE_ATTRIBUTES, SelectorError, SelectorVerdicts
from scheduler.framework import Status
from scheduler.plugins.dynamic_resources.filtering import NodeFilter
from scheduler.plugins.dynamic_resources.state import ClaimState, StateData
from scheduler.testing import FakeHandle, make_pod
from tests.plugins.devices import lister
from tests.plugins.running import UNRESOLVABLE, verdict_of
from tests.upstream.loading import (
    Case,
    api_object,
    cases,
    feature_gates,
    snapshot,
    verdict,
    version_of,
)

TOPICS = (
    "admin_access",
    "alternatives",
    "attributes",
    "binding_conditions",
    "counters_of_1_34",
    "devices",
    "gates_off",
    "order",
    "partitions",
    "shared_devices",
    "taints",
)
SHARE_ID = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"


def holder(name: str, device: str, consumed: dict[str, str] | None = None) -> ResourceClaim:
    """A claim that has a device, or a share of it."""
    driver, pool, id = device.split("/")
    share_id = SHARE_ID if consumed is not None else None
    result = DeviceRequestAllocationResult(
        "r", driver, pool, id, share_id=share_id, consumed_capacity=consumed
    )
    allocation = AllocationResult(DeviceAllocationResult((result,)))
    claim = api_object(ResourceClaim, {"metadata": {"name": name, "uid": name}, "spec": {}})
    return msgspec.structs.replace(claim, status=ResourceClaimStatus(allocation=allocation))


def holders(case: Case) -> Iterator[ResourceClaim]:
    for number, device in enumerate(case.get("allocated", ())):
        yield holder(f"whole-{number}", device)
    for number, (device, amounts) in enumerate(case.get("consumed", {}).items()):
        yield holder(f"share-{number}", device, amounts)


def filtered(case: Case, *, expires: bool = False) -> tuple[Status | None, list[AllocationResult]]:
    """Return the status of the case's node, and the allocation of each claim on it."""
    classes = [api_object(DeviceClass, each) for each in case.get("classes", ())]
    gates = feature_gates(case)
    known = transforms(gates, version_of(case)).get("resourceslices", lambda each: each)
    slices = [known(api_object(ResourceSlice, each)) for each in case.get("slices", ())]
    handle = FakeHandle(
        listers={
            "resourceclaims": lister(holders(case)),
            "deviceclasses": lister(classes),
            "resourceslices": lister(slices),
            "devicetaintrules": lister(()),
        },
        feature_gates=gates,
        version=version_of(case),
    )
    manager = DraManager(handle)
    manager.refresh()
    claims = [api_object(ResourceClaim, each) for each in case.get("claims", ())]
    allocator = Allocator(
        state=manager.claims.allocated,
        class_of=manager.classes.named,
        verdicts=manager.verdicts,
        gates=manager.gates,
        rules=manager.rules,
    )
    data = StateData(list(map(ClaimState, claims)), allocator=allocator)
    times = iter(range(1_000_000))
    node_filter = NodeFilter(
        data,
        make_pod(),
        manager=manager,
        is_late=lambda claim: False,
        monotonic=lambda: float(next(times)) if expires else 0.0,
        timeout_seconds=0.5,
    )
    nodes = snapshot(case).nodes
    rejections = node_filter.run(nodes)
    if rejections is not None:
        return rejections.status(0), []
    found = data.node_allocation(nodes[0].name)
    if found is None:
        return None, []
    return None, [
        allocation_result(c, found.node_pools, manager.rules.results, lambda: SHARE_ID)
        for c in found.claims
    ]


@pytest.mark.parametrize("case", cases("allocator", "interrupt"))
def test_an_interrupted_allocation_ends_as_upstreams(case: Case) -> None:
    status, found = filtered(case, expires=case["expires"])
    assert status is not None
    assert verdict_of(status) == verdict(case["status"])
    assert found == []


@pytest.mark.parametrize("case", [case for topic in TOPICS for case in cases("allocator", topic)])
def test_the_same_devices_are_allocated(case: Case) -> None:
    status, found = filtered(case)
    if "error" in case.fields:
        assert status is not None
        assert case["error"] in status.message.replace("claim /", "claim ")
        return
    expected = [api_object(AllocationResult, result) for result in case["results"]]
    assert found == expected
    if not expected and case.get("claims"):
        assert status is not None
        assert verdict_of(status) == (UNRESOLVABLE, ("cannot allocate all claims",))


def without_newer_features(topic: str, description: str) -> Case:
    """A case of a topic with the gates off that make upstream take its `stable` allocator."""
    found = (case for each in cases("allocator", topic) for case in each.values)
    [case] = [case for case in found if case.description == description]
    off = {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}
    return dataclasses.replace(case, fields={**case.fields, "gates": off})


def test_the_stable_allocator_ignores_requests_of_capacity() -> None:
    case = without_newer_features("gates_off", "consumable capacity disabled feature")
    status, [found] = filtered(case)
    assert status is None
    assert [each.device for each in found.devices.results] == ["device-1"]


def test_the_stable_allocator_does_not_distinguish_attributes() -> None:
    case = without_newer_features(
        "attributes", "list attributes distinct constraint scalar string values all distinct"
    )
    status, _ = filtered(case)
    assert status is not None
    assert "constraint #0: empty constraint (unsupported constraint type?)" in status.message


@pytest.mark.parametrize("case", cases("allocator", "consumable_capacity"))
def test_consumable_capacity(case: Case) -> None:
    offered = {name: api_object(DeviceCapacity, each) for name, each in case["offered"].items()}
    requirements = CapacityRequirements(case.get("requests", {}))
    if "fits" in case.fields:
        assert fits(requirements, offered, rules=CAPACITY_OF_1_36) is case["fits"]
        return
    amounts = consumed(requirements, offered, CAPACITY_OF_1_36)
    taken = {name: each.nanos for name, each in amounts.items()}
    assert taken == {name: parse_quantity(text) for name, text in case["consumed"].items()}


@pytest.mark.parametrize("case", cases("allocator", "selectors"))
def test_selectors_choose_upstreams_devices(case: Case) -> None:
    attributes = case.get("attributes", {})
    if "attributes_count" in case.fields:
        attributes = {f"a-{i}": {"string": "abc"} for i in range(case["attributes_count"])}
    device = Device(
        "device",
        attributes={n: api_object(DeviceAttribute, each) for n, each in attributes.items()},
        capacity={name: DeviceCapacity(text) for name, text in case.get("capacity", {}).items()},
        allow_multiple_allocations=case.get("allow_multiple_allocations"),
    )
    spec = ResourceSliceSpec(case.get("driver", ""), ResourcePool("pool"), devices=(device,))
    selector = DeviceSelector(CELDeviceSelector(case["expression"]))

    verdicts = SelectorVerdicts(
        frozenset({LIST_TYPE_ATTRIBUTES} if case.get("lists") else ()), DEFAULT_SCHEDULER_VERSION
    )

    def match() -> bool:
        return verdicts.match([selector], PoolDevice(ResourceSlice(spec=spec), device))

    if "error" in case.fields:
        with pytest.raises(SelectorError, match=re.escape(case["error"])):
            match()
    else:
        assert match() is case["matches"]


@pytest.mark.parametrize("case", cases("allocator", "tolerations"))
def test_taints_are_tolerated_as_upstreams(case: Case) -> None:
    toleration = api_object(DeviceToleration, case["toleration"])
    assert toleration.tolerates(api_object(DeviceTaint, case["taint"])) is case["tolerated"]
