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
)
from scheduler.devices.pools import PoolDevice, targets_node, targets_node_or_has_counters
from scheduler.devices.requests import AllocationError
from scheduler.devices.results import configuration_by_request, configuration_once
from scheduler.devices.selectors import LIST_TYPE_ATTRIBUTES, SelectorError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from scheduler.api.core import Node
    from scheduler.api.dynamic_resources import (
        AllocationResult,
        CapacityRequirements,
        CounterSet,
        DeviceAllocationConfiguration,
        DeviceAttribute,
        DeviceCapacity,
        ResourceClaim,
        ResourceSlice,
    )
    from scheduler.config import FeatureGates
    from scheduler.devices.allocated import AllocatedState
    from scheduler.devices.pools import DeviceId, Pool
    from scheduler.devices.requests import ClaimAllocation, Request
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
    #: With all these gates upstream does not take its `stable` allocator.
    status_gates: frozenset[str]
    #: True if the search for each device of a request begins at the first device of the node.
    starts_over: bool
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
    configuration: Callable[[ClaimAllocation], Sequence[DeviceAllocationConfiguration]]
    is_relevant: Callable[[Node, ResourceSlice], bool]
    #: False for slices that count for nothing.
    is_known: Callable[[ResourceSlice], bool]
    checks_groups: bool
    #: False for devices that a node cannot have because of its declared features.
    supports: Callable[[Node, ResourceSlice], bool]
    #: True if an allocated claim is only for nodes that declare optional operations.
    needs_declaration: Callable[[AllocationResult], bool]


def device_rules(gates: FeatureGates, version: SchedulerVersion) -> DeviceRules:
    """Return the rules of a version with these gates."""
    # Without shared devices the order of a request's devices decides nothing.
    starts_over = CONSUMABLE_CAPACITY in gates
    if version == SchedulerVersion.V1_34:
        return _RULES_OF_1_34._replace(starts_over=starts_over)
    if version == SchedulerVersion.V1_35:
        return _RULES_OF_1_35._replace(starts_over=starts_over)
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
        configuration=configuration_once,
        is_relevant=targets_node,
        is_known=_all if has_groups else _has_no_groups,
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


def _all(part: ResourceSlice) -> bool:
    return True


def _has_no_groups(part: ResourceSlice) -> bool:
    return not any(
        consumption.compatibility_groups
        for device in part.spec.devices
        for consumption in device.consumes_counters
    )


def _any_node(node: Node, part: ResourceSlice) -> bool:
    return True


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


_RULES_OF_1_36: Final = DeviceRules(
    match=MatchAttribute,
    distinct=DistinctAttribute,
    attribute=_own,
    check_derived=_nothing_to_check,
    check_request_limit=_nothing_to_check,
    check_claim_limit=_claim_limit_of_1_36,
    status_gates=BINDING_CONDITIONS,
    starts_over=False,
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
    configuration=configuration_by_request,
    is_relevant=targets_node_or_has_counters,
    is_known=_all,
    checks_groups=False,
    supports=_any_node,
    needs_declaration=_never,
)

_RULES_OF_1_35: Final = _RULES_OF_1_36._replace(
    consumes=lambda state, device: state.has_device(device),
    rolls_back=False,
)

_RULES_OF_1_34: Final = _RULES_OF_1_35._replace(
    status_gates=frozenset({"DRAResourceClaimDeviceStatus"}),
    counters_key=lambda pool, device: device.slice.metadata.name,
    counter_sets=lambda pool, device: device.slice.spec.shared_counters,
    has_shares=lambda state, device, chosen: False,
    compared=_device_of_slice,
)
