"""Devices that stand for resources of their node: DynamicResources with its alpha gate.

The node has 4 CPUs, 8 GiB of memory and 1 GiB in huge pages. The tables follow upstream's
`nodeallocatabledynamicresources_test.go`, v1.36 and v1.37.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.api.core import (
    NodeAllocatableResourceClaimStatus,
    ObjectMeta,
    Pod,
    PodSchedulingGroup,
)
from scheduler.api.dynamic_resources import (
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from scheduler.api.pod_groups import PodGroup
from scheduler.config import SchedulerVersion, default_feature_gates
from scheduler.framework import CycleState
from scheduler.plugins.dynamic_resources.dynamic_resources import DynamicResources
from scheduler.plugins.dynamic_resources.state import STATE
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.plugins.devices import by_name, by_template, lister, make_claim, make_class, with_claims
from tests.plugins.running import UNRESOLVABLE, UNSCHEDULABLE, Verdict, verdict_of

V1_36, V1_37 = SchedulerVersion.V1_36, SchedulerVersion.V1_37
NODE = make_node(
    "n", allocatable={"cpu": "4", "memory": "8Gi", "hugepages-2Mi": "1Gi", "pods": "10"}
)
REQUEST = DeviceRequest("r", ExactDeviceRequest("class", allocation_mode="ExactCount", count=1))
ON_CPU = {"nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "2"}}}}


def device(name: str = "x", **fields: Any) -> Device:
    return msgspec.convert({"name": name, **fields}, Device)


def allocated(*results: Mapping[str, Any], users: Sequence[str] = ()) -> ResourceClaim:
    """A claim with devices of the node; by default the device `x`."""
    found = tuple(
        DeviceRequestAllocationResult("r", "d", "p", **{"device": "x", **result})
        for result in results or ({},)
    )
    claim = make_claim(allocation=AllocationResult(DeviceAllocationResult(found)))
    reserved = tuple(ResourceClaimConsumerReference("", "pods", uid, uid) for uid in users)
    return replace(claim, status=replace(claim.status, reserved_for=reserved))


def to_allocate() -> ResourceClaim:
    return replace(make_claim(), spec=ResourceClaimSpec(DeviceClaim((REQUEST,))))


def user_of_claim(
    *,
    names_claim: bool = True,
    limits: Mapping[str, str] = MappingProxyType({}),
    whole: Mapping[str, Any] | None = None,
) -> Pod:
    """A pod of one container that asks for a CPU, and names the claim.

    It also names an entry for which no claim is needed.
    """
    claims = [{"name": "devices"}] if names_claim else []
    requests = {"requests": {"cpu": "1"}, "limits": limits, "claims": [*claims, {"name": "none"}]}
    pod = make_pod(containers=[{"name": "c", "resources": requests}], resources=whole)
    return with_claims(by_name(), by_template(entry="none"), made={"none": None}, pod=pod)


def plugin_with(
    claim: ResourceClaim,
    *devices: Device,
    version: SchedulerVersion = V1_37,
    others: Sequence[Pod] = (),
    gates: Iterable[str] = (),
) -> DynamicResources:
    """The plugin in a cluster of the node, with the claim, the devices, and other pods."""
    spec = ResourceSliceSpec(
        "d", ResourcePool("p", resource_slice_count=1), node_name="n", devices=devices
    )
    group = PodGroup(ObjectMeta(name="g", namespace="default", uid="group-uid"))
    handle = FakeHandle(
        snapshot_of([NODE], others),
        listers={
            "resourceclaims": lister([claim]),
            "deviceclasses": lister([make_class()]),
            "resourceslices": lister([ResourceSlice(ObjectMeta(name="s"), spec)]),
            "devicetaintrules": lister([]),
            "podgroups": lister([group]),
        },
        feature_gates=default_feature_gates(version) | {"DRANodeAllocatableResources", *gates},
        version=version,
    )
    return cast(
        "DynamicResources", Registry([DynamicResources]).create("DynamicResources", None, handle)
    )


def verdict_on_node(plugin: DynamicResources, state: CycleState, pod: Pod) -> Verdict | None:
    info, nodes = PodInfo(pod), plugin.handle.snapshot.nodes
    assert plugin.pre_filter(state, info, nodes) is None
    rejections = plugin.filter_nodes(state, info, nodes)
    return verdict_of(rejections.status(0)) if rejections is not None else None


def filtered(
    claim: ResourceClaim, *devices: Device, pod: Pod | None = None, **cluster: Any
) -> tuple[Verdict | None, Sequence[NodeAllocatableResourceClaimStatus]]:
    """Return the verdict on the node, and what the claims of the pod take of it."""
    plugin, state = plugin_with(claim, *devices, **cluster), CycleState()
    verdict = verdict_on_node(plugin, state, pod if pod is not None else user_of_claim())
    return verdict, () if verdict is not None else state.read(STATE).claim_statuses("n")


def taken(**fields: Any) -> list[NodeAllocatableResourceClaimStatus]:
    """The status of the claim, which the container names."""
    status = {"resourceClaimName": "claim", "containers": ["c"], **fields}
    return [msgspec.convert(status, NodeAllocatableResourceClaimStatus)]


@pytest.mark.parametrize(
    ("fields", "consumed", "expected"),
    [
        ({}, None, []),
        (ON_CPU, None, taken(mapping=[{"name": "cpu", "quantity": "2"}])),
        (
            {"nodeAllocatableResources": {"cpu": {"mapping": {"capacityKey": "cores"}}}},
            {"cores": "3"},
            taken(mapping=[{"name": "cpu", "quantity": "3"}]),
        ),
        (
            {
                "nodeAllocatableResources": {
                    "cpu": {"mapping": {"capacityKey": "cores", "capacityMultiplier": "500m"}}
                }
            },
            {"cores": "3"},
            taken(mapping=[{"name": "cpu", "quantity": "1500m"}]),
        ),
        # The allocation has none of this capacity, or the mapping no amount.
        (
            {"nodeAllocatableResources": {"cpu": {"mapping": {"capacityKey": "cores"}}}},
            {"others": "3"},
            [],
        ),
        ({"nodeAllocatableResources": {"cpu": {"mapping": {}}}}, None, []),
        (
            {"nodeAllocatableResources": {"memory": {"overhead": {"perPod": "1Gi"}}}},
            None,
            taken(overhead=[{"name": "memory", "perPod": "1Gi"}]),
        ),
        (
            {"nodeAllocatableResources": {"memory": {"overhead": {"perContainer": "1Gi"}}}},
            None,
            taken(overhead=[{"name": "memory", "perContainer": "1Gi"}]),
        ),
    ],
)
def test_devices_of_v1_37_take_what_they_stand_for_and_cost(
    fields: dict[str, Any],
    consumed: dict[str, str] | None,
    expected: list[NodeAllocatableResourceClaimStatus],
) -> None:
    claim = allocated({"consumed_capacity": consumed})
    verdict, statuses = filtered(claim, device(**fields))
    assert verdict is None
    assert list(statuses) == expected


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ({"allocationMultiplier": "2"}, taken(resources={"cpu": "2"})),
        # Without a multiplier the device stands for nothing, but is noted.
        ({}, taken(resources={"cpu": "0"})),
    ],
)
def test_devices_of_v1_36_take_what_they_stand_for(
    mapping: dict[str, str], expected: list[NodeAllocatableResourceClaimStatus]
) -> None:
    on_cpu = device(nodeAllocatableResourceMappings={"cpu": mapping})
    assert filtered(to_allocate(), on_cpu, version=V1_36) == (None, tuple(expected))
    # Earlier allocations do not count. A share of another capacity does not count.
    assert filtered(allocated(), on_cpu, version=V1_36) == (None, ())
    by_cores = device(
        allowMultipleAllocations=True,
        capacity={"others": {"value": "4"}},
        nodeAllocatableResourceMappings={"cpu": {"capacityKey": "cores"}},
    )
    assert filtered(to_allocate(), by_cores, version=V1_36) == (None, ())
    # The node needs room for the pod nevertheless, whatever NodeResourcesFit does.
    other = make_pod("other", node_name="n", requests={"cpu": "3500m"})
    verdict, _ = filtered(to_allocate(), by_cores, version=V1_36, others=[other])
    assert verdict == (UNSCHEDULABLE, ("Insufficient cpu",))


@pytest.mark.parametrize(
    ("version", "claim", "fields", "reason"),
    [
        (
            V1_36,
            to_allocate(),
            {"nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "cores"}}},
            "claim default/claim, device x: ConsumedCapacity is nil, but Capacity key 'cores' is "
            "set in NodeAllocatableResourceMappings for resource cpu",
        ),
        (
            V1_37,
            allocated(),
            {"nodeAllocatableResources": {"cpu": {"mapping": {"capacityKey": "cores"}}}},
            "claim default/claim, device x: ConsumedCapacity is nil, but Capacity key 'cores' is "
            "set in NodeAllocatableResources for resource cpu",
        ),
        (
            V1_37,
            allocated({}, {"device": "gone"}),
            ON_CPU,
            "claim default/claim, device gone, driver d: device gone not found in pool p for "
            "driver d",
        ),
    ],
)
def test_devices_whose_amount_is_unknown_end_the_search(
    version: SchedulerVersion, claim: ResourceClaim, fields: dict[str, Any], reason: str
) -> None:
    verdict, _ = filtered(claim, device(**fields), version=version)
    assert verdict == ("Error", (reason,))


@pytest.mark.parametrize(
    ("resource", "amount", "verdict"),
    [
        ("cpu", "3", None),
        ("cpu", "3500m", (UNRESOLVABLE, ("Insufficient cpu",))),
        ("memory", "7Gi", (UNSCHEDULABLE, ("Insufficient memory",))),
        ("hugepages-2Mi", "1Gi", None),
        ("hugepages-2Mi", "2Gi", (UNRESOLVABLE, ("Insufficient hugepages-2Mi",))),
        # Other resources are not the node's own.
        ("vendor.io/fpga", "100", None),
    ],
)
def test_the_node_must_have_room_for_the_pod_and_its_devices(
    resource: str, amount: str, verdict: Verdict | None
) -> None:
    fields = {"nodeAllocatableResources": {resource: {"mapping": {"deviceMultiplier": amount}}}}
    other = make_pod("other", node_name="n", requests={"memory": "2Gi"})
    assert filtered(allocated(), device(**fields), others=[other])[0] == verdict


def test_a_claim_of_v1_36_must_be_named_by_a_container() -> None:
    on_cpu = device(nodeAllocatableResourceMappings={"cpu": {"allocationMultiplier": "2"}})
    pod = user_of_claim(names_claim=False)
    reason = (
        "claim claim: node-allocatable resource claim not referenced by any container within the "
        "pod"
    )
    verdict, _ = filtered(to_allocate(), on_cpu, pod=pod, version=V1_36)
    assert verdict == (UNRESOLVABLE, (reason,))
    verdict, _ = filtered(allocated(), device(**ON_CPU), pod=pod)
    assert verdict is None


@pytest.mark.parametrize(
    ("pod", "resource", "reason"),
    [
        (user_of_claim(whole={"requests": {"cpu": "3"}}), "cpu", ""),
        (
            user_of_claim(whole={"requests": {"cpu": "2"}}),
            "cpu",
            "pod level request for cpu is insufficient to cover the aggregated container and "
            "node-allocatable DRA requests",
        ),
        (user_of_claim(whole={"requests": {"cpu": "2"}}), "memory", ""),
    ],
)
def test_requests_of_the_whole_pod_must_cover_its_devices(
    pod: Pod, resource: str, reason: str
) -> None:
    fields = {"nodeAllocatableResources": {resource: {"mapping": {"deviceMultiplier": "2"}}}}
    expected = (UNRESOLVABLE, (reason,)) if reason else None
    assert filtered(allocated(), device(**fields), pod=pod)[0] == expected


@pytest.mark.parametrize(
    ("limits", "whole", "overhead", "reason"),
    [
        ({"memory": "1Gi"}, {"memory": "2Gi"}, {"memory": "512Mi"}, ""),
        (
            {"memory": "1536Mi"},
            {"memory": "2Gi"},
            {"memory": "1Gi"},
            "pod level limit for memory is insufficient to cover the limit and DRA overhead for "
            "container c",
        ),
        ({"memory": "4Gi"}, {"cpu": "4"}, {"memory": "1Gi"}, ""),
        ({"hugepages-2Mi": "256Mi"}, {"hugepages-2Mi": "1Gi"}, {"hugepages-2Mi": "512Mi"}, ""),
        (
            {"hugepages-2Mi": "768Mi"},
            {"hugepages-2Mi": "1Gi"},
            {"hugepages-2Mi": "512Mi"},
            "pod level limit for hugepages-2Mi is insufficient to cover the aggregated container "
            "and node-allocatable DRA limits",
        ),
    ],
)
def test_limits_of_the_whole_pod_must_cover_the_cost_of_its_devices(
    limits: dict[str, str], whole: dict[str, str], overhead: dict[str, str], reason: str
) -> None:
    costs = {name: {"overhead": {"perContainer": amount}} for name, amount in overhead.items()}
    pod = user_of_claim(limits=limits, whole={"limits": whole})
    expected = (UNRESOLVABLE, (reason,)) if reason else None
    assert filtered(allocated(), device(nodeAllocatableResources=costs), pod=pod)[0] == expected


NOT_SHARED = (
    "node allocatable resource claim claim has a mapped device and cannot be shared across pods"
)


@pytest.mark.parametrize(
    ("users", "fields", "reason"),
    [
        ((), ON_CPU, ""),
        ((make_pod().metadata.uid,), ON_CPU, ""),
        (("other",), ON_CPU, NOT_SHARED),
        # What a device costs can be paid by several pods.
        (
            ("other",),
            {"nodeAllocatableResources": {"memory": {"overhead": {"perPod": "1Gi"}}}},
            "",
        ),
    ],
)
def test_a_claim_of_v1_37_that_stands_for_resources_has_one_user(
    users: tuple[str, ...], fields: dict[str, Any], reason: str
) -> None:
    expected = (UNRESOLVABLE, (reason,)) if reason else None
    assert filtered(allocated(users=users), device(**fields))[0] == expected


@pytest.mark.parametrize(("group", "reason"), [("g", ""), ("other", NOT_SHARED)])
def test_a_claim_of_v1_37_that_is_reserved_for_a_group_is_for_its_members(
    group: str, reason: str
) -> None:
    user = ResourceClaimConsumerReference("scheduling.k8s.io", "podgroups", group, "group-uid")
    claim = allocated()
    claim = replace(claim, status=replace(claim.status, reserved_for=(user,)))
    pod = user_of_claim()
    pod = replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup("g")))
    verdict, _ = filtered(claim, device(**ON_CPU), pod=pod, gates=["DRAWorkloadResourceClaims"])
    assert verdict == ((UNRESOLVABLE, (reason,)) if reason else None)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (ON_CPU, NOT_SHARED),
        ({"nodeAllocatableResources": {"memory": {"overhead": {"perPod": "1Gi"}}}}, ""),
    ],
)
def test_members_of_a_group_do_not_share_a_claim_of_v1_37_that_stands_for_resources(
    fields: dict[str, Any], reason: str
) -> None:
    plugin, group = plugin_with(to_allocate(), device(**fields)), CycleState()
    states = [CycleState(), CycleState()]
    for state in states:
        state.pod_group_state = group
    first, second = user_of_claim(), user_of_claim()
    second = replace(second, metadata=replace(second.metadata, name="second", uid="second"))
    assert verdict_on_node(plugin, states[0], first) is None
    plugin.reserve(states[0], PodInfo(first), "n")
    expected = (UNRESOLVABLE, (reason,)) if reason else None
    assert verdict_on_node(plugin, states[1], second) == expected


@pytest.mark.parametrize(
    ("namespaces", "reason"),
    [
        (("elsewhere",), ""),
        (("default",), "node allocatable resource claim claim is already used by another pod"),
    ],
)
def test_a_claim_of_v1_36_that_stands_for_resources_has_one_user_on_a_node(
    namespaces: tuple[str, ...], reason: str
) -> None:
    others = []
    for number, namespace in enumerate(namespaces):
        pod = make_pod(f"other-{number}", namespace=namespace, node_name="n")
        status = replace(
            pod.status, node_allocatable_resource_claim_statuses=tuple(taken(resources={}))
        )
        others.append(replace(pod, status=status))
    on_cpu = device(nodeAllocatableResourceMappings={"cpu": {"allocationMultiplier": "1"}})
    expected = (UNRESOLVABLE, (reason,)) if reason else None
    assert filtered(allocated(), on_cpu, version=V1_36, others=others)[0] == expected
