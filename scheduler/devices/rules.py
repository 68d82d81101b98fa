"""The rules in the search for devices that differ between versions and feature gates.

`device_rules` chooses once, when the devices' manager is created; the search asks for no version.
Source: `k8s.io/dynamic-resource-allocation/structured/internal/{incubating,experimental}`, v0.34.4,
v0.35.4, v0.36.3 and v0.37.2.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from scheduler.api.dynamic_resources import ALLOCATION_RESULTS_MAX
from scheduler.config.versions import SchedulerVersion
from scheduler.devices import capacity
from scheduler.devices.constraints import (
    CommonElement,
    Constraint,
    DisjointElements,
    DistinctAttribute,
    MatchAttribute,
    PairwiseDistinctAttribute,
    attribute_of,
    place_of,
)
from scheduler.devices.pools import (
    PoolDevice,
    PoolRules,
    Slices,
    attached_last,
    by_name,
    targets_node,
    targets_node_or_has_counters,
)
from scheduler.devices.requests import AllocationError
from scheduler.devices.results import (
    ResultRules,
    all_tolerations,
    configuration_by_request,
    configuration_once,
    no_tolerations,
)
from scheduler.devices.selectors import LIST_TYPE_ATTRIBUTES, SelectorError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from scheduler.api.core import Node
    from scheduler.api.dynamic_resources import (
        AllocationResult,
        CapacityRequirements,
        CounterSet,
        DeviceAttribute,
        DeviceCapacity,
        DeviceRequest,
        DeviceSubRequest,
        DeviceTaint,
        ResourceClaim,
        ResourceSlice,
    )
    from scheduler.config import FeatureGates
    from scheduler.devices.allocated import AllocatedState
    from scheduler.devices.pools import DeviceId, NodePools, Pool
    from scheduler.devices.requests import Request
    from scheduler.devices.selectors import SelectorVerdicts
    from scheduler.snapshot.columns import BoolArray
    from scheduler.snapshot.nodes import Nodes

#: Both are needed for devices that are attached while a pod is bound.
BINDING_CONDITIONS: Final = frozenset(
    {"DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"}
)
COMPATIBILITY_GROUPS: Final = "DRADeviceCompatibilityGroups"
CONSUMABLE_CAPACITY: Final = "DRAConsumableCapacity"
DERIVED_ATTRIBUTES: Final = "DRADerivedAttributes"
FRACTIONAL_CAPACITY: Final = "DRAFractionalCapacityRange"
#: The gate, and the feature that nodes declare.
OPTIONAL_NODE_OPERATIONS: Final = "DRAOptionalNodeOperations"
PARTITIONABLE_DEVICES: Final = "DRAPartitionableDevices"

#: With any of these upstream takes its `experimental` allocator.
EXPERIMENTAL_GATES: Final = frozenset(
    {COMPATIBILITY_GROUPS, DERIVED_ATTRIBUTES, LIST_TYPE_ATTRIBUTES, OPTIONAL_NODE_OPERATIONS}
)

MakesConstraint: TypeAlias = "Callable[[Collection[str], str, Lookup], Constraint]"
Lookup: TypeAlias = "Callable[[Request, PoolDevice, str], DeviceAttribute | None]"


class DeviceRules(NamedTuple):
    """The rules of a version with its feature gates."""

    match: MakesConstraint
    distinct: MakesConstraint
    #: Finds the attribute that a constraint names.
    attribute: Callable[[SelectorVerdicts, Request, PoolDevice, str], DeviceAttribute | None]
    check_derived: Callable[[Request], None]
    #: Raise `AllocationError` for more devices than a claim can have.
    check_request_limit: Callable[[Request, int, int], None]
    check_claim_limit: Callable[[ResourceClaim, int], None]
    #: The words for an alternative that asks for capacity without the gate.
    named: Callable[[DeviceRequest, DeviceSubRequest], tuple[str, str]]
    #: With all these gates upstream does not take its `stable` allocator.
    status_gates: frozenset[str]
    #: True if the search for each device of a request begins at the first device of the node.
    starts_over: bool
    #: The number of devices that a search reaches, and the pool that then ends it for all nodes.
    reach: Callable[[NodePools], tuple[int, Pool | None]]
    #: True if a search that takes too long ends the attempt on all nodes.
    ends_at_timeout: bool
    #: The alternative whose selectors count for a request for all devices.
    selects_as: Callable[[Sequence[Request], Request], Request]
    #: The alternative that gets the next device after one of a request for all devices.
    goes_on_as: Callable[[Sequence[Request], Request], Request]
    #: True if a taint keeps away requests that do not tolerate it.
    keeps_away: Callable[[DeviceTaint], bool]
    #: The nodes that leave an extended resource of a class to devices.
    needs_devices: Callable[[Nodes, str], BoolArray]
    #: True if a claim for some extended resources is for those that the node has itself, too.
    claims_all_resources: bool
    #: What the counters left for a device are kept by.
    counters_key: Callable[[Pool, PoolDevice], object]
    counter_sets: Callable[[Pool, PoolDevice], Iterable[CounterSet]]
    #: True if a device takes counters because of the claims that have it.
    consumes: Callable[[AllocatedState, DeviceId], bool]
    #: True if a shared device has its counters already; with the devices chosen in this search.
    has_shares: Callable[[AllocatedState, DeviceId, Collection[DeviceId]], bool]
    #: False if devices that are refused, and shares that are given back, keep their counters.
    rolls_back: bool
    #: The device whose capacity is compared when a device is taken as n-th one of its request.
    compared: Callable[[PoolDevice, int], PoolDevice]
    fits: Callable[..., bool]
    consumed: Callable[
        [CapacityRequirements | None, Mapping[str, DeviceCapacity]], dict[str, capacity.Amount]
    ]
    #: True if devices whose capacity is taken belong to a request for all devices.
    counts_full_devices: bool
    results: ResultRules
    pools: PoolRules
    #: False for slices that count for nothing.
    is_known: Callable[[ResourceSlice], bool]
    checks_groups: bool
    #: False for devices that a node cannot have because of its declared features.
    supports: Callable[[Node, ResourceSlice], bool]
    #: True if an allocated claim is only for nodes that declare optional operations.
    needs_declaration: Callable[[AllocationResult], bool]


def device_rules(gates: FeatureGates, version: SchedulerVersion) -> DeviceRules:
    """Return the rules of a version with these gates."""
    # Without shares, counters and distinct values the order of a request's devices decides nothing.
    starts_over = CONSUMABLE_CAPACITY in gates or PARTITIONABLE_DEVICES in gates
    if version == SchedulerVersion.V1_34:
        return _RULES_OF_1_34._replace(starts_over=starts_over)
    if version == SchedulerVersion.V1_35:
        rules = _RULES_OF_1_35 if gates & _FEATURES_OF_1_35 else _OLDEST_RULES_OF_1_35
        return rules._replace(starts_over=starts_over)
    return _RULES_OF_1_36 if version == SchedulerVersion.V1_36 else _rules_of_1_37(gates)


def _rules_of_1_37(gates: FeatureGates) -> DeviceRules:
    has_lists, has_groups = LIST_TYPE_ATTRIBUTES in gates, COMPATIBILITY_GROUPS in gates
    is_fractional, is_derived = FRACTIONAL_CAPACITY in gates, DERIVED_ATTRIBUTES in gates
    skips = OPTIONAL_NODE_OPERATIONS in gates
    return _RULES_OF_1_36._replace(
        match=CommonElement if has_lists else MatchAttribute,
        distinct=DisjointElements if has_lists else PairwiseDistinctAttribute,
        attribute=_derived_or_own if is_derived else _own,
        check_derived=_nothing_to_check if is_derived else _refuse_derived,
        check_request_limit=_request_limit_of_1_37,
        check_claim_limit=_nothing_to_check,
        counters_key=lambda pool, device: pool.id,
        has_shares=lambda state, device, chosen: state.is_shared(device) or device in chosen,
        fits=functools.partial(capacity.fits_if_representable, is_fractional=is_fractional),
        consumed=functools.partial(capacity.consumed_in_steps, is_fractional=is_fractional),
        counts_full_devices=True,
        results=ResultRules(configuration_once, all_tolerations),
        pools=POOLS_OF_1_36._replace(is_relevant=targets_node),
        is_known=_always if has_groups else _has_no_groups,
        checks_groups=has_groups,
        supports=_declares_what_it_needs if skips else _needs_nothing,
        needs_declaration=_skips_operations,
    )


def _own(
    verdicts: SelectorVerdicts, request: Request, device: PoolDevice, name: str
) -> DeviceAttribute | None:
    return attribute_of(device, name)


def _derived_or_own(
    verdicts: SelectorVerdicts, request: Request, device: PoolDevice, name: str
) -> DeviceAttribute | None:
    """Return the value of the request's expression with this name, else the device's attribute."""
    found = [each for each in request.spec.derived_attributes if each.name == name]
    if not found:
        return attribute_of(device, name)
    try:
        return verdicts.derived(name, found[-1].expression, device)
    except SelectorError as error:
        raise AllocationError(str(error)) from error


def _refuse_derived(request: Request) -> None:
    if request.spec.derived_attributes:
        raise AllocationError(
            f"claim {request.claim.key}, request {request.name}: cannot handle request with "
            "derived attributes, the feature is disabled"
        )


def _nothing_to_check(*args: object) -> None:
    """Accept all."""


def _claim_limit_of_1_36(claim: ResourceClaim, count: int) -> None:
    if count > ALLOCATION_RESULTS_MAX:
        raise AllocationError(
            f"claim {claim.key}: number of requested devices {count} exceeds the claim limit "
            f"of {ALLOCATION_RESULTS_MAX}"
        )


def _request_limit_of_1_37(request: Request, count: int, before: int) -> None:
    if count > ALLOCATION_RESULTS_MAX - before:
        raise AllocationError(
            f"claim {request.claim.key}, request {request.base_name}: adding {count} devices "
            f"exceeds the claim limit of {ALLOCATION_RESULTS_MAX}, with {before} already "
            "accounted for"
        )


def _device_of_slice(device: PoolDevice, number: int) -> PoolDevice:
    """Return the device that is n-th one of the slice; else, where upstream panics, the device."""
    devices = device.slice.spec.devices
    return PoolDevice(device.slice, devices[number]) if number < len(devices) else device


def _all_pools(node_pools: NodePools) -> tuple[int, Pool | None]:
    return len(node_pools.devices), None


def _up_to_invalid_pool(node_pools: NodePools) -> tuple[int, Pool | None]:
    """Return the devices before the first invalid pool, which ends the search (v1.34)."""
    count = 0
    for pool in node_pools.pools:
        if pool.invalid_reason:
            return count, pool
        count += len(pool.devices)
    return count, None


def _itself(alternatives: Sequence[Request], request: Request) -> Request:
    return request


def _first(alternatives: Sequence[Request], request: Request) -> Request:
    return alternatives[0]


def _first_of_two(alternatives: Sequence[Request], request: Request) -> Request:
    """Return the first of two alternatives if both are for all devices (up to v1.35)."""
    is_second = request is alternatives[min(1, len(alternatives) - 1)]
    return alternatives[0] if is_second and alternatives[0].wants_all else request


def _has_known_effect(taint: DeviceTaint) -> bool:
    return taint.effect in ("NoExecute", "NoSchedule")


def _always(*args: object) -> bool:
    return True


def _without_any(nodes: Nodes, resource: str) -> BoolArray:
    without: BoolArray = nodes.allocatable(resource) == 0
    return without


def _without_entry(nodes: Nodes, resource: str) -> BoolArray:
    """Return the nodes whose resources do not list one, even with an amount of 0 (v1.34)."""
    return nodes.derive(names_offered).where(lambda names: names is None or resource not in names)


def names_offered(node: Node) -> frozenset[str]:
    """Return the names of the node's resources, including resources with an amount of 0."""
    return frozenset(node.status.allocatable)


def _has_no_groups(part: ResourceSlice) -> bool:
    return not any(
        consumption.compatibility_groups
        for device in part.spec.devices
        for consumption in device.consumes_counters
    )


def _needs_nothing(node: Node, part: ResourceSlice) -> bool:
    return not part.spec.skip_node_operations


def _declares_what_it_needs(node: Node, part: ResourceSlice) -> bool:
    """Return True unless devices skip operations of nodes and the node does not declare so."""
    return (
        not part.spec.skip_node_operations
        or OPTIONAL_NODE_OPERATIONS in node.status.declared_features
    )


def _skips_operations(allocation: AllocationResult) -> bool:
    return any(result.skip_node_operations for result in allocation.devices.results)


def _never(allocation: AllocationResult) -> bool:
    return False


POOLS_OF_1_36: Final = PoolRules(targets_node_or_has_counters, Slices.whole_pool, by_name)
_POOLS_OF_1_35: Final = POOLS_OF_1_36._replace(order=attached_last)
_POOLS_OF_1_34: Final = PoolRules(targets_node, Slices.pool_on_node, attached_last)

_RULES_OF_1_36: Final = DeviceRules(
    match=MatchAttribute,
    distinct=DistinctAttribute,
    attribute=_own,
    check_derived=_nothing_to_check,
    check_request_limit=_nothing_to_check,
    check_claim_limit=_claim_limit_of_1_36,
    named=lambda request, alternative: ("subrequest", alternative.name),
    status_gates=BINDING_CONDITIONS,
    starts_over=False,
    reach=_all_pools,
    ends_at_timeout=True,
    selects_as=_itself,
    goes_on_as=_itself,
    keeps_away=_has_known_effect,
    needs_devices=_without_any,
    claims_all_resources=False,
    # As upstream: pools of two drivers with one name are mixed.
    counters_key=lambda pool, device: pool.id.pool,
    counter_sets=lambda pool, device: pool.counter_sets.values(),
    consumes=lambda state, device: state.is_allocated(device),
    has_shares=lambda state, device, chosen: bool(state.capacity(device)) or device in chosen,
    rolls_back=True,
    compared=lambda device, number: device,
    fits=capacity.fits,
    consumed=capacity.consumed,
    counts_full_devices=False,
    results=ResultRules(configuration_by_request, all_tolerations),
    pools=POOLS_OF_1_36,
    is_known=_always,
    checks_groups=False,
    supports=_always,
    needs_declaration=_never,
)

_RULES_OF_1_35: Final = _RULES_OF_1_36._replace(
    ends_at_timeout=False,
    selects_as=_first_of_two,
    goes_on_as=_first,
    pools=_POOLS_OF_1_35,
    consumes=lambda state, device: state.has_device(device),
    rolls_back=False,
)

#: Without these gates 1.35 takes its oldest allocator.
_FEATURES_OF_1_35: Final = frozenset(
    {
        "DRAAdminAccess",
        "DRAPrioritizedList",
        "DRADeviceTaints",
        "DRADeviceBindingConditions",
        CONSUMABLE_CAPACITY,
        PARTITIONABLE_DEVICES,
    }
)
_OLDEST_RULES_OF_1_35: Final = _RULES_OF_1_35._replace(
    results=ResultRules(configuration_by_request, no_tolerations)
)

_RULES_OF_1_34: Final = _RULES_OF_1_35._replace(
    distinct=functools.partial(DistinctAttribute, compared=place_of),
    reach=_up_to_invalid_pool,
    keeps_away=_always,
    needs_devices=_without_entry,
    claims_all_resources=True,
    results=ResultRules(configuration_by_request, no_tolerations),
    pools=_POOLS_OF_1_34,
    named=lambda request, alternative: ("request", request.name),
    status_gates=frozenset({"DRAResourceClaimDeviceStatus"}),
    counters_key=lambda pool, device: device.slice.metadata.name,
    counter_sets=lambda pool, device: device.slice.spec.shared_counters,
    has_shares=lambda state, device, chosen: False,
    compared=_device_of_slice,
)
