"""The devices that claims have: as written, and in flight.

Source: `pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go`, and `AllocatedState`
in `k8s.io/dynamic-resource-allocation/structured/schedulerapi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.api.quantity import parse_quantity
from scheduler.devices.pools import DeviceId, PoolId

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduler.api.dynamic_resources import AllocationResult


class Devices:
    """The devices that allocated claims have. As upstream a device is listed once.

    Without `has_shares` (the gate DRAConsumableCapacity) a share of a device is the whole device.
    """

    def __init__(self, *, has_shares: bool = True) -> None:
        self._has_shares: Final = has_shares
        self.ids: Final[set[DeviceId]] = set()
        #: By share: its device.
        self.shares: Final[dict[str, DeviceId]] = {}
        self.shared: Final[dict[DeviceId, int]] = {}
        self.capacity: Final[dict[DeviceId, dict[str, int]]] = {}
        #: The pools whose devices have changed; the reader clears it.
        self.changed: Final[set[PoolId]] = set()

    def add(self, allocation: AllocationResult) -> None:
        for id, share_id, consumed in _results(allocation):
            self.changed.add(PoolId(id.driver, id.pool))
            if share_id is None or not self._has_shares:
                self.ids.add(id)
                continue
            if share_id not in self.shares:
                self.shares[share_id] = id
                self.shared[id] = self.shared.get(id, 0) + 1
            if consumed is not None:
                amounts = self.capacity.setdefault(id, {})
                for name, nanos in consumed.items():
                    amounts[name] = amounts.get(name, 0) + nanos

    def remove(self, allocation: AllocationResult) -> None:
        for id, share_id, consumed in _results(allocation):
            self.changed.add(PoolId(id.driver, id.pool))
            if share_id is None or not self._has_shares:
                self.ids.discard(id)
                continue
            if self.shares.pop(share_id, None) is not None:
                self.shared[id] -= 1
                if not self.shared[id]:
                    del self.shared[id]
            amounts = self.capacity.get(id)
            if consumed is not None and amounts is not None:
                for name, nanos in consumed.items():
                    if name in amounts:
                        amounts[name] -= nanos
                if not any(amounts.values()):
                    del self.capacity[id]


def _results(
    allocation: AllocationResult,
) -> Iterator[tuple[DeviceId, str | None, Mapping[str, int] | None]]:
    """Return the devices of an allocation with shares; devices with admin access do not count."""
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        consumed = result.consumed_capacity
        amounts = (
            {name: parse_quantity(text) for name, text in consumed.items()}
            if consumed is not None
            else None
        )
        id = DeviceId(result.driver, result.pool, result.device)
        yield id, result.share_id, amounts


class AllocatedState:
    """The devices of all claims, claims in flight included; follows their changes."""

    def __init__(self, written: Devices, in_flight: Devices) -> None:
        self._written: Final = written
        self._in_flight: Final = in_flight

    def has_device(self, device: DeviceId) -> bool:
        """Return True if a claim has the whole device."""
        return device in self._written.ids or device in self._in_flight.ids

    def is_allocated(self, device: DeviceId) -> bool:
        """Return True if a claim has the device, or a share of it."""
        return self.has_device(device) or any(
            device in devices.shared or device in devices.capacity
            for devices in (self._written, self._in_flight)
        )

    def is_shared(self, device: DeviceId) -> bool:
        """Return True if a claim has a share of the device, with or without capacity."""
        return self.is_allocated(device) and not self.has_device(device)

    def capacity(self, device: DeviceId) -> Mapping[str, int]:
        """Return the amounts that the shares of a device take, in nano-units."""
        written, in_flight = (
            devices.capacity.get(device, {}) for devices in (self._written, self._in_flight)
        )
        if not in_flight:
            return written
        names = {*written, *in_flight}
        return {name: written.get(name, 0) + in_flight.get(name, 0) for name in names}

    def usage(self, devices: Sequence[DeviceId]) -> tuple[object, ...]:
        """Return the parts of these devices that are allocated, by position."""
        return tuple(
            (at, self.has_device(device), tuple(sorted(self.capacity(device).items())))
            for at, device in enumerate(devices)
            if self.is_allocated(device)
        )
