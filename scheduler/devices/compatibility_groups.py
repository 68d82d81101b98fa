"""Groups of devices that may take counters of one set together.

All devices on a counter set must have a group in common. Devices without groups go only with others
without.
Source: `k8s.io/dynamic-resource-allocation/structured/internal/experimental/
compatibility_groups.go`, v0.37.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.devices.allocated import AllocatedState
    from scheduler.devices.pools import Pool, PoolDevice, PoolId


class Members(NamedTuple):
    """The devices on a counter set: their common groups, and True if none has any."""

    groups: frozenset[str]
    have_none: bool

    def with_device(self, groups: frozenset[str]) -> Members:
        """Return the members with one more device, which need not go with them."""
        return self._replace(groups=self.groups & groups) if groups else self


def _goes_with(members: Members | None, groups: frozenset[str]) -> bool:
    if members is None:
        return True
    return bool(members.groups & groups) if groups else members.have_none


def _added(members: Members | None, groups: frozenset[str]) -> Members:
    return Members(groups, not groups) if members is None else members.with_device(groups)


class CompatibilityGroups:
    """The members of the counter sets of all pools, in one search."""

    def __init__(self, state: AllocatedState) -> None:
        self._state: Final = state
        self._members: Final[dict[PoolId, dict[str, Members]]] = {}

    def add(self, pool: Pool, device: PoolDevice) -> Callable[[], None] | None:
        """Add a device; return how to undo it, None if it does not go with the members."""
        members = self._members.get(pool.id)
        if members is None:
            members = self._members[pool.id] = self._allocated(pool)
        changed = dict(members)
        for name, groups in _groups_of(device).items():
            if not _goes_with(members.get(name), groups):
                return None
            changed[name] = _added(members.get(name), groups)
        self._members[pool.id] = changed
        before = members

        def undo() -> None:
            self._members[pool.id] = before

        return undo

    def _allocated(self, pool: Pool) -> dict[str, Members]:
        members: dict[str, Members] = {}
        for device in (*pool.devices, *pool.unreachable):
            if self._state.is_allocated(device.id):
                for name, groups in _groups_of(device).items():
                    members[name] = _added(members.get(name), groups)
        return members


def _groups_of(device: PoolDevice) -> Mapping[str, frozenset[str]]:
    """Return the groups of a device by counter set."""
    return {
        consumption.counter_set: frozenset(consumption.compatibility_groups)
        for consumption in device.device.consumes_counters
    }
