"""The number of devices of a class on a node, for scores by extended resources.

As upstream, slices of all generations count, and `device.allowMultipleAllocations` is false.
Source: `calculateDRAResourceTotals` in
`pkg/scheduler/framework/plugins/noderesources/resource_allocation.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from scheduler.devices.pools import PoolDevice, PoolsError, node_matches
from scheduler.devices.selectors import SelectorError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduler.api.core import Node
    from scheduler.api.dynamic_resources import DeviceClass, ResourceSlice
    from scheduler.devices.allocated import AllocatedState
    from scheduler.devices.pools import Slices
    from scheduler.devices.selectors import SelectorVerdicts


class DeviceCount(NamedTuple):
    """The devices of a class on a node, and how many of them are allocated."""

    total: int = 0
    allocated: int = 0


def device_count(
    node: Node,
    device_class: DeviceClass,
    *,
    slices: Slices,
    state: AllocatedState,
    verdicts: SelectorVerdicts,
) -> DeviceCount:
    """Return the count of a node; 0 if a selector cannot be evaluated."""
    selectors = [selector for selector in device_class.spec.selectors if selector.cel is not None]
    total = allocated = 0
    try:
        for device in _devices(node, slices):
            if verdicts.match(selectors, _not_shared(device)):
                total += 1
                allocated += state.is_allocated(device.id)
    except (PoolsError, SelectorError):
        return DeviceCount()
    return DeviceCount(total, allocated)


def _devices(node: Node, slices: Slices) -> Iterator[PoolDevice]:
    """Return the devices that a node can reach."""
    for slice in slices.candidates(node.metadata.name):
        devices = slices.devices_of(slice)
        if slice.spec.per_device_node_selection:
            yield from (device for device in devices if _reaches_device(node, device))
        elif _reaches_slice(node, slice):
            yield from devices


def _reaches_device(node: Node, device: PoolDevice) -> bool:
    spec = device.device
    if spec.all_nodes or spec.node_name == node.metadata.name:
        return True
    return spec.node_selector is not None and node_matches(
        node, spec.node_name, all_nodes=False, selector=spec.node_selector
    )


def _reaches_slice(node: Node, slice: ResourceSlice) -> bool:
    spec = slice.spec
    if spec.all_nodes or spec.node_name == node.metadata.name:
        return True
    if spec.node_selector is not None:
        return node_matches(node, spec.node_name, all_nodes=False, selector=spec.node_selector)
    return not spec.node_name


def _not_shared(device: PoolDevice) -> PoolDevice:
    if not device.device.allow_multiple_allocations:
        return device
    return PoolDevice(device.slice, replace(device.device, allow_multiple_allocations=None))
