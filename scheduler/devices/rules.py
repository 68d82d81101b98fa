"""The rules in the search for devices that differ between versions and feature gates.

`device_rules` chooses once, when the devices' manager is created; the search asks for no version.
Source: `k8s.io/dynamic-resource-allocation/structured/internal/{incubating,experimental}`, v0.34.4,
v0.35.4, v0.36.3 and v0.37.2.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.config.versions import SchedulerVersion
from scheduler.devices.allocated import AllocatedState
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
from scheduler.devices.pools import PoolDevice, PoolRules, Slices, attached_last, targets_node
from scheduler.devices.requests import AllocationError
from scheduler.devices.results import ResultRules, configuration_once
from scheduler.devices.selectors import LIST_TYPE_ATTRIBUTES, SelectorError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from scheduler.api.core import Node
    from scheduler.api.dynamic_resources import (
        CounterSet,
        DeviceAttribute,
        DeviceTaint,
        ResourceSlice,
    )
    from scheduler.config import FeatureGates
    from scheduler.devices.pools import DeviceId, Pool
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

#: With any of these gates 1.37 takes its `experimental` allocator.
_EXPERIMENTAL_GATES_OF_1_37: Final = frozenset(
    {COMPATIBILITY_GROUPS, DERIVED_ATTRIBUTES, LIST_TYPE_ATTRIBUTES, OPTIONAL_NODE_OPERATIONS}
)


def _always(*args: object) -> bool:
    return True


class DeviceRules(NamedTuple):
    """The rules of a version with its feature gates; the defaults are of 1.36."""

    #: The conditions on attributes that are to match, and on those that are to be distinct.
    match: Callable[[], Values] = EqualValues
    distinct: Callable[[], Values] = LastValuesDistinct
    #: Finds the attribute that a constraint names.
    attribute: Callable[[SelectorVerdicts, Request, PoolDevice, str], DeviceAttribute | None] = (
        lambda verdicts, request, device, name: attribute_of(device, name)
    )
    refuses_derived: bool = False
    #: True if the limit of a claim's devices is checked with each request, else with all of them.
    limits_requests: bool = False
    #: True if an alternative that asks for capacity without the gate is named, else its request.
    names_alternatives: bool = True
    #: With all the first or any of the second gates upstream does not take its `stable` allocator.
    status_gates: frozenset[str] = BINDING_CONDITIONS
    experimental_gates: frozenset[str] = frozenset()
    #: True if the search for each device of a request begins at the first device of the node.
    starts_over: bool = False
    #: True if a search that takes too long ends the attempt on all nodes.
    ends_at_timeout: bool = True
    #: The alternative whose selectors count for a request for all devices.
    selects_as: Callable[[Sequence[Request], Request], Request] = lambda _, request: request
    #: The alternative that gets the next device after one of a request for all devices.
    goes_on_as: Callable[[Sequence[Request], Request], Request] = lambda _, request: request
    #: True if a taint keeps away requests that do not tolerate it.
    keeps_away: Callable[[DeviceTaint], bool] = lambda taint: (
        taint.effect in ("NoExecute", "NoSchedule")
    )
    #: The key of the counters that are left for a device, and the sets of them. As upstream, pools
    #: of two drivers with one name have one key.
    counters_key: Callable[[Pool, PoolDevice], object] = lambda pool, device: pool.id.pool
    counter_sets: Callable[[Pool, PoolDevice], Iterable[CounterSet]] = lambda pool, device: (
        pool.counter_sets.values()
    )
    #: True if a device takes counters because of the claims that have it.
    consumes: Callable[[AllocatedState, DeviceId], bool] = AllocatedState.is_allocated
    #: True if a shared device has its counters already; with the devices chosen in this search.
    has_shares: Callable[[AllocatedState, DeviceId, Collection[DeviceId]], bool] = (
        lambda state, device, chosen: bool(state.capacity(device)) or device in chosen
    )
    #: False if devices that are refused, and shares that are given back, keep their counters.
    rolls_back: bool = True
    #: The device whose capacity is compared when a device is taken as n-th one of its request.
    compared: Callable[[PoolDevice, int], PoolDevice] = lambda device, number: device
    capacity: CapacityRules = CAPACITY_OF_1_36
    #: True if devices whose capacity is taken belong to a request for all devices.
    counts_full_devices: bool = False
    results: ResultRules = ResultRules()
    pools: PoolRules = PoolRules()
    #: False for slices that count for nothing.
    is_known: Callable[[ResourceSlice], bool] = _always
    checks_groups: bool = False
    #: False for devices that a node cannot have because of its declared features.
    supports: Callable[[Node, ResourceSlice], bool] = _always
    #: True if devices that skip operations are only for nodes that declare these optional.
    needs_declaration: bool = False


def device_rules(gates: FeatureGates, version: SchedulerVersion) -> DeviceRules:
    """Return the rules of a version with these gates."""
    rules = _rules_of(gates, version)
    has_counters = PARTITIONABLE_DEVICES in gates
    # Without shares, counters and distinct values the order of a request's devices decides nothing.
    starts_over = rules.starts_over and (has_counters or CONSUMABLE_CAPACITY in gates)
    pools = rules.pools._replace(checks_counters=has_counters)
    return rules._replace(pools=pools, starts_over=starts_over)


def _rules_of(gates: FeatureGates, version: SchedulerVersion) -> DeviceRules:
    if version == SchedulerVersion.V1_34:
        return _RULES_OF_1_34
    if version == SchedulerVersion.V1_35:
        results = ResultRules(repeats_tolerations=bool(gates & _FEATURES_OF_1_35))
        return _RULES_OF_1_35._replace(results=results)
    return DeviceRules() if version == SchedulerVersion.V1_36 else _rules_of_1_37(gates)


def _rules_of_1_37(gates: FeatureGates) -> DeviceRules:
    has_lists, has_groups = LIST_TYPE_ATTRIBUTES in gates, COMPATIBILITY_GROUPS in gates
    is_fractional, has_optional = FRACTIONAL_CAPACITY in gates, OPTIONAL_NODE_OPERATIONS in gates
    return DeviceRules(
        match=CommonElement if has_lists else EqualValues,
        distinct=DisjointElements if has_lists else AllValuesDistinct,
        attribute=_derived_or_own,
        refuses_derived=DERIVED_ATTRIBUTES not in gates,
        experimental_gates=_EXPERIMENTAL_GATES_OF_1_37,
        limits_requests=True,
        counters_key=lambda pool, device: pool.id,
        has_shares=lambda state, device, chosen: state.is_shared(device) or device in chosen,
        capacity=FRACTIONAL_CAPACITY_OF_1_37 if is_fractional else CAPACITY_OF_1_37,
        counts_full_devices=True,
        results=ResultRules(configuration_once),
        pools=PoolRules(is_relevant=targets_node),
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


def _first_of_two(alternatives: Sequence[Request], request: Request) -> Request:
    """Return the first of two alternatives if both are for all devices (up to v1.35)."""
    is_second = request in alternatives[1:2]
    return alternatives[0] if is_second and alternatives[0].wants_all else request


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
    return not part.spec.skip_node_operations or declares_operations_optional(node)


def declares_operations_optional(node: Node) -> bool:
    """Return True if a node can do without the operations that devices skip."""
    return OPTIONAL_NODE_OPERATIONS in node.status.declared_features


_RULES_OF_1_35: Final = DeviceRules(
    starts_over=True,
    ends_at_timeout=False,
    selects_as=_first_of_two,
    goes_on_as=lambda alternatives, _: alternatives[0],
    pools=PoolRules(order=attached_last),
    consumes=AllocatedState.has_device,
    rolls_back=False,
)

#: Without these gates 1.35 takes its oldest allocator, which repeats no tolerations.
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

_RULES_OF_1_34: Final = _RULES_OF_1_35._replace(
    distinct=functools.partial(LastValuesDistinct, compares_places=True),
    keeps_away=_always,
    results=ResultRules(repeats_tolerations=False),
    pools=PoolRules(targets_node, Slices.pool_on_node, attached_last),
    names_alternatives=False,
    status_gates=frozenset({"DRAResourceClaimDeviceStatus"}),
    counters_key=lambda pool, device: device.slice.metadata.name,
    counter_sets=lambda pool, device: device.slice.spec.shared_counters,
    has_shares=lambda state, device, chosen: False,
    compared=_device_of_slice,
)
