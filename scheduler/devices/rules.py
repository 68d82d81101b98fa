"""The rules in the search for devices that differ between versions and feature gates.

`device_rules` chooses once, when the devices' manager is created; the search asks for no version.
Source: `k8s.io/dynamic-resource-allocation/structured/internal/{incubating,experimental}`, v0.34.4,
v0.35.4, v0.36.3 and v0.37.2.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.config.versions import SchedulerVersion
from scheduler.devices.capacity import (
    CAPACITY_OF_1_36,
    CAPACITY_OF_1_37,
    FRACTIONAL_CAPACITY_OF_1_37,
    CapacityRules,
)
from scheduler.devices.constraints import (
    AllValuesDistinct,
    CommonElement,
    DisjointElements,
    EqualValues,
    LastValuesDistinct,
    Values,
    attribute_of,
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
from scheduler.devices.results import ResultRules, configuration_by_request, configuration_once
from scheduler.devices.selectors import LIST_TYPE_ATTRIBUTES, SelectorError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from scheduler.api.core import Node
    from scheduler.api.dynamic_resources import (
        CounterSet,
        DeviceAttribute,
        DeviceRequest,
        DeviceSubRequest,
        DeviceTaint,
        ResourceSlice,
    )
    from scheduler.config import FeatureGates
    from scheduler.devices.allocated import AllocatedState
    from scheduler.devices.pools import DeviceId, NodePools, Pool
    from scheduler.devices.requests import Request
    from scheduler.devices.selectors import SelectorVerdicts

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


class DeviceRules(NamedTuple):
    """The rules of a version with its feature gates."""

    #: The conditions on attributes that are to match, and on those that are to be distinct.
    match: Callable[[], Values]
    distinct: Callable[[], Values]
    #: Finds the attribute that a constraint names.
    attribute: Callable[[SelectorVerdicts, Request, PoolDevice, str], DeviceAttribute | None]
    refuses_derived: bool
    #: True if the limit of a claim's devices is checked with each request, else with all of them.
    limits_requests: bool
    #: The words for an alternative that asks for capacity without the gate.
    named: Callable[[DeviceRequest, DeviceSubRequest], tuple[str, str]]
    #: With all the first or any of the second gates upstream does not take its `stable` allocator.
    status_gates: frozenset[str]
    experimental_gates: frozenset[str]
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
    capacity: CapacityRules
    #: True if devices whose capacity is taken belong to a request for all devices.
    counts_full_devices: bool
    results: ResultRules
    pools: PoolRules
    #: False for slices that count for nothing.
    is_known: Callable[[ResourceSlice], bool]
    checks_groups: bool
    #: False for devices that a node cannot have because of its declared features.
    supports: Callable[[Node, ResourceSlice], bool]
    #: True if devices that skip operations are only for nodes that declare these optional.
    needs_declaration: bool


def device_rules(gates: FeatureGates, version: SchedulerVersion) -> DeviceRules:
    """Return the rules of a version with these gates."""
    rules = _rules_of(gates, version)
    pools = rules.pools._replace(checks_counters=PARTITIONABLE_DEVICES in gates)
    return rules._replace(pools=pools)


def _rules_of(gates: FeatureGates, version: SchedulerVersion) -> DeviceRules:
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
    has_optional = OPTIONAL_NODE_OPERATIONS in gates
    return _RULES_OF_1_36._replace(
        match=CommonElement if has_lists else EqualValues,
        distinct=DisjointElements if has_lists else AllValuesDistinct,
        attribute=_derived_or_own,
        refuses_derived=not is_derived,
        experimental_gates=_EXPERIMENTAL_GATES_OF_1_37,
        limits_requests=True,
        counters_key=lambda pool, device: pool.id,
        has_shares=lambda state, device, chosen: state.is_shared(device) or device in chosen,
        capacity=FRACTIONAL_CAPACITY_OF_1_37 if is_fractional else CAPACITY_OF_1_37,
        counts_full_devices=True,
        results=ResultRules(configuration_once, repeats_tolerations=True),
        pools=POOLS_OF_1_36._replace(is_relevant=targets_node),
        is_known=_always if has_groups else _has_no_groups,
        checks_groups=has_groups,
        supports=_declares_what_it_needs if has_optional else _needs_nothing,
        needs_declaration=True,
    )


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


def _device_of_slice(device: PoolDevice, number: int) -> PoolDevice:
    """Return the device that is n-th one of the slice; else, where upstream panics, the device."""
    devices = device.slice.spec.devices
    return PoolDevice(device.slice, devices[number]) if number < len(devices) else device


def _up_to_invalid_pool(node_pools: NodePools) -> tuple[int, Pool | None]:
    """Return the devices before the first invalid pool, which ends the search (v1.34)."""
    count = 0
    for pool in node_pools.pools:
        if pool.invalid_reason:
            return count, pool
        count += len(pool.devices)
    return count, None


def _first_of_two(alternatives: Sequence[Request], request: Request) -> Request:
    """Return the first of two alternatives if both are for all devices (up to v1.35)."""
    is_second = request is alternatives[min(1, len(alternatives) - 1)]
    return alternatives[0] if is_second and alternatives[0].wants_all else request


def _always(*args: object) -> bool:
    return True


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


POOLS_OF_1_36: Final = PoolRules(targets_node_or_has_counters, Slices.whole_pool, by_name)

_EXPERIMENTAL_GATES_OF_1_37: Final = frozenset(
    {COMPATIBILITY_GROUPS, DERIVED_ATTRIBUTES, LIST_TYPE_ATTRIBUTES, OPTIONAL_NODE_OPERATIONS}
)

_RULES_OF_1_36: Final = DeviceRules(
    match=EqualValues,
    distinct=LastValuesDistinct,
    attribute=lambda verdicts, request, device, name: attribute_of(device, name),
    refuses_derived=False,
    limits_requests=False,
    named=lambda request, alternative: ("subrequest", alternative.name),
    status_gates=BINDING_CONDITIONS,
    experimental_gates=frozenset(),
    starts_over=False,
    reach=lambda node_pools: (len(node_pools.devices), None),
    ends_at_timeout=True,
    selects_as=lambda alternatives, request: request,
    goes_on_as=lambda alternatives, request: request,
    keeps_away=lambda taint: taint.effect in ("NoExecute", "NoSchedule"),
    # As upstream: pools of two drivers with one name are mixed.
    counters_key=lambda pool, device: pool.id.pool,
    counter_sets=lambda pool, device: pool.counter_sets.values(),
    consumes=lambda state, device: state.is_allocated(device),
    has_shares=lambda state, device, chosen: bool(state.capacity(device)) or device in chosen,
    rolls_back=True,
    compared=lambda device, number: device,
    capacity=CAPACITY_OF_1_36,
    counts_full_devices=False,
    results=ResultRules(configuration_by_request, repeats_tolerations=True),
    pools=POOLS_OF_1_36,
    is_known=_always,
    checks_groups=False,
    supports=_always,
    needs_declaration=False,
)

_RULES_OF_1_35: Final = _RULES_OF_1_36._replace(
    ends_at_timeout=False,
    selects_as=_first_of_two,
    goes_on_as=lambda alternatives, request: alternatives[0],
    pools=POOLS_OF_1_36._replace(order=attached_last),
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
    results=ResultRules(configuration_by_request, repeats_tolerations=False)
)

_RULES_OF_1_34: Final = _RULES_OF_1_35._replace(
    distinct=functools.partial(LastValuesDistinct, compares_places=True),
    reach=_up_to_invalid_pool,
    keeps_away=_always,
    results=_OLDEST_RULES_OF_1_35.results,
    pools=PoolRules(targets_node, Slices.pool_on_node, attached_last),
    named=lambda request, alternative: ("request", request.name),
    status_gates=frozenset({"DRAResourceClaimDeviceStatus"}),
    counters_key=lambda pool, device: device.slice.metadata.name,
    counter_sets=lambda pool, device: device.slice.spec.shared_counters,
    has_shares=lambda state, device, chosen: False,
    compared=_device_of_slice,
)
