"""The reasons why a node has no devices for a pod, for `kubesched-explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from scheduler.devices.allocator import Allocator
from scheduler.devices.capacity import CAPACITY_OF_1_36, fits
from scheduler.devices.pools import device_matches
from scheduler.devices.requests import alternatives_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduler.api.dynamic_resources import DeviceConstraint, DeviceTaint, ResourceClaim
    from scheduler.devices.manager import DraManager
    from scheduler.devices.pools import DeviceId, NodePools, PoolDevice
    from scheduler.devices.requests import Request

#: The most claims that are named as holders of devices.
_HOLDERS_MAX: Final = 5
_NANO: Final = 10**9


class _Devices(NamedTuple):
    """The devices of a node for one request, by the reason why they cannot be used."""

    matching: Sequence[PoolDevice]
    allocated: Sequence[PoolDevice]
    tainted: Sequence[PoolDevice]
    too_small: Sequence[PoolDevice]

    @property
    def free(self) -> int:
        return len(self.matching) - sum(map(len, self[1:]))


class MissingDevices:
    """Explains one node: the requests that failed, and the reasons."""

    def __init__(self, manager: DraManager, node_pools: NodePools) -> None:
        self._manager: Final = manager
        self._node_pools: Final = node_pools
        self._state: Final = manager.claims.allocated

    def reasons(self, claims: Sequence[ResourceClaim]) -> list[str]:
        """Return one line for each request, constraint or counter that is in the way."""
        texts = [*self._pools()]
        for claim in claims:
            for request in claim.spec.devices.requests:
                alternatives = alternatives_of(claim, request, self._manager.classes.named)
                lines = [self._shortage(each) for each in alternatives]
                if all(lines):
                    texts += filter(None, lines)
        return (
            texts
            or [*self._constraints(claims)]
            or [*self._counters()]
            or ["the requests together need more devices than are free"]
        )

    def _pools(self) -> Iterator[str]:
        for pool in self._node_pools.pools:
            if pool.is_incomplete:
                yield f"pool {pool.id} is being updated: not all its slices are there"
            elif pool.invalid_reason:
                yield f"pool {pool.id} is invalid: {pool.invalid_reason}"

    def _shortage(self, request: Request) -> str:
        """Return why a request fails on its own; empty if there are enough devices for it."""
        devices = self._devices(request)
        count = max(len(devices.matching), 1) if request.wants_all else request.spec.count
        if devices.free >= count:
            return ""
        wanted = "all devices" if request.wants_all else f"{count} of the devices"
        parts = [f"{len(devices.matching)} of {len(self._node_pools.devices)} match its selectors"]
        if devices.allocated:
            holders = self._holders({device.id for device in devices.allocated})
            parts.append(f"allocated {len(devices.allocated)} of these{holders}")
        if devices.tainted:
            taints = {
                f"{taint.key}={taint.value}:{taint.effect}"
                for device in devices.tainted
                for taint in self._untolerated(request, device)
            }
            parts.append(f"tainted {len(devices.tainted)} ({', '.join(sorted(taints))})")
        if devices.too_small:
            parts.append(f"without enough capacity {len(devices.too_small)}")
        where = f"claim {request.claim.key}, request {request.full_name}"
        class_name = request.device_class.metadata.name
        return f"{where} needs {wanted} of class {class_name}: {', '.join(parts)}"

    def _devices(self, request: Request) -> _Devices:
        matching = [
            device
            for _, device in self._node_pools.devices
            if request.selects(device, self._manager.verdicts)
            and device_matches(self._node_pools.node, device)
        ]
        allocated, tainted, too_small = [], [], []
        for device in matching:
            if not request.has_admin_access and self._state.has_device(device.id):
                allocated.append(device)
            elif any(self._untolerated(request, device)):
                tainted.append(device)
            # Amounts that 1.37 cannot represent have ended the attempt.
            elif not fits(
                request.spec.capacity,
                device.device.capacity,
                self._state.capacity(device.id),
                rules=CAPACITY_OF_1_36,
            ):
                too_small.append(device)
        return _Devices(matching, allocated, tainted, too_small)

    def _untolerated(self, request: Request, device: PoolDevice) -> Iterator[DeviceTaint]:
        keeping_away = filter(self._manager.rules.keeps_away, device.device.taints)
        return (taint for taint in keeping_away if not request.tolerates(taint))

    def _holders(self, devices: set[DeviceId]) -> str:
        """Return the claims that have these devices, ` (to ns/a, ns/b)`."""
        keys = [
            claim.key
            for claim in self._manager.claims.list()
            if claim.status.allocation is not None
            and any(
                (result.driver, result.pool, result.device) in devices
                for result in claim.status.allocation.devices.results
            )
        ]
        shown = ", ".join(keys[:_HOLDERS_MAX])
        more = f" and {len(keys) - _HOLDERS_MAX} more" if len(keys) > _HOLDERS_MAX else ""
        return f" (to {shown}{more})" if keys else ""

    def _constraints(self, claims: Sequence[ResourceClaim]) -> Iterator[str]:
        """Return the constraints without which all claims could be allocated."""
        for index, claim in enumerate(claims):
            constraints = claim.spec.devices.constraints
            for number, constraint in enumerate(constraints):
                others = constraints[:number] + constraints[number + 1 :]
                relaxed = [*claims]
                relaxed[index] = _with_constraints(claim, others)
                if self._is_possible(relaxed):
                    attribute = constraint.match_attribute or constraint.distinct_attribute
                    word = "equal" if constraint.match_attribute else "distinct"
                    requests = ", ".join(constraint.requests) or "all requests"
                    yield (
                        f"claim {claim.key}: no free devices have {word} values of {attribute} "
                        f"({requests})"
                    )

    def _is_possible(self, claims: Sequence[ResourceClaim]) -> bool:
        return self._allocator().allocate(claims, self._node_pools, 0, lambda: False) is not None

    def _allocator(self) -> Allocator:
        return Allocator(
            state=self._state,
            class_of=self._manager.classes.named,
            verdicts=self._manager.verdicts,
            gates=self._manager.gates,
            rules=self._manager.rules,
        )

    def _counters(self) -> Iterator[str]:
        """Return the counters that are left in each pool whose devices consume any."""
        allocator = self._allocator()
        for pool in self._node_pools.pools:
            devices = (*pool.devices, *pool.unreachable)
            by_key = {allocator.rules.counters_key(pool, device): device for device in devices}
            for device in by_key.values():
                for name, counters in allocator.counters(pool, device).items():
                    listed = ", ".join(f"{key} {left / _NANO:g}" for key, left in counters.items())
                    yield f"pool {pool.id}, counter set {name} has left: {listed}"


def _with_constraints(
    claim: ResourceClaim, constraints: tuple[DeviceConstraint, ...]
) -> ResourceClaim:
    devices = replace(claim.spec.devices, constraints=constraints)
    return replace(claim, spec=replace(claim.spec, devices=devices))
