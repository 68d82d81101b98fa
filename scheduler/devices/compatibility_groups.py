"""Groups of devices that may take counters of one set together.

All devices on a counter set must have a group in common. Devices without groups go only with others
without.
Source: `k8s.io/dynamic-resource-allocation/structured/internal/experimental/
compatibility_groups.go`, v0.37.2.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.devices.allocated import AllocatedState
    from scheduler.devices.pools import Pool, PoolDevice, PoolId


#: The groups of a device, or those that all devices on a counter set have in common.
Groups: TypeAlias = frozenset[str]
#: Stands for no groups: it has nothing in common with any.
_NONE: Final = frozenset({""})


class CompatibilityGroups:
    """The common groups of the devices on the counter sets of all pools, in one search."""

    def __init__(self, state: AllocatedState) -> None:
        self._state: Final = state
        self._common: Final[dict[PoolId, Mapping[str, Groups]]] = {}

    def add(self, pool: Pool, device: PoolDevice) -> Callable[[], None] | None:
        """Add a device; return how to undo it, None if it does not go with the others."""
        before = self._common.get(pool.id)
        if before is None:
            before = self._common[pool.id] = self._of_allocated(pool)
        of_sets = _groups_of(device)
        if any(not before.get(name, groups) & groups for name, groups in of_sets.items()):
            return None
        self._common[pool.id] = _with_device(before, device)

        def undo() -> None:
            self._common[pool.id] = before

        return undo

    def _of_allocated(self, pool: Pool) -> Mapping[str, Groups]:
        devices = (*pool.devices, *pool.unreachable)
        allocated = (device for device in devices if self._state.is_allocated(device.id))
        return functools.reduce(_with_device, allocated, {})


def _with_device(common: Mapping[str, Groups], device: PoolDevice) -> Mapping[str, Groups]:
    """Return the common groups with one more device, also if it does not go with the others."""
    changed = dict(common)
    for name, groups in _groups_of(device).items():
        before = common.get(name, groups)
        changed[name] = before if _NONE in (before, groups) else before & groups
    return changed


def _groups_of(device: PoolDevice) -> Mapping[str, Groups]:
    """Return the groups of a device by counter set."""
    return {
        consumption.counter_set: frozenset(consumption.compatibility_groups) or _NONE
        for consumption in device.device.consumes_counters
    }
