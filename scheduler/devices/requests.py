"""The requests of claims in the form that the allocator works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from scheduler.api.dynamic_resources import ExactDeviceRequest
from scheduler.devices.selectors import SelectorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scheduler.api.dynamic_resources import (
        DeviceClass,
        DeviceRequest,
        DeviceSubRequest,
        DeviceTaint,
        ResourceClaim,
    )
    from scheduler.devices.capacity import Amount
    from scheduler.devices.pools import PoolDevice
    from scheduler.devices.selectors import SelectorVerdicts


class AllocationError(Exception):
    """The claims or classes of a pod are wrong; the search for nodes ends. Upstream's text."""


@dataclass(slots=True, eq=False)
class Request:
    """A request, or one of its alternatives (`parent` is then the name of the request)."""

    claim: ResourceClaim
    name: str
    parent: str
    spec: ExactDeviceRequest | DeviceSubRequest
    device_class: DeviceClass
    #: By device: True if the selectors of the class and the request match.
    _verdicts: dict[PoolDevice, bool] = field(default_factory=dict)

    @property
    def base_name(self) -> str:
        """The name of the request to which constraints refer."""
        return self.parent or self.name

    @property
    def full_name(self) -> str:
        """`request`, or `request/subrequest`."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def wants_all(self) -> bool:
        return self.spec.allocation_mode == "All"

    @property
    def has_admin_access(self) -> bool:
        return isinstance(self.spec, ExactDeviceRequest) and bool(self.spec.admin_access)

    def selects(self, device: PoolDevice, verdicts: SelectorVerdicts) -> bool:
        """Return True if all selectors match; raises `AllocationError`."""
        verdict = self._verdicts.get(device)
        if verdict is None:
            verdict = self._verdicts[device] = self._is_selected(device, verdicts)
        return verdict

    def _is_selected(self, device: PoolDevice, verdicts: SelectorVerdicts) -> bool:
        owner = f"class {self.device_class.metadata.name}"
        try:
            if not verdicts.match(self.device_class.spec.selectors, device):
                return False
            owner = f"claim {self.claim.key}"
            return verdicts.match(self.spec.selectors, device)
        except SelectorError as error:
            raise AllocationError(f"{owner}: {error}") from error

    def tolerates(self, taint: DeviceTaint) -> bool:
        return any(toleration.tolerates(taint) for toleration in self.spec.tolerations)


class ChosenDevice(NamedTuple):
    """A device for a request, by its position in the pools of the node.

    `consumed` are the amounts that a share takes; None for a device that is not shared.
    """

    request: Request
    position: int
    consumed: Mapping[str, Amount] | None


class ClaimAllocation(NamedTuple):
    """The devices of a claim, and the chosen alternative of each request."""

    claim: ResourceClaim
    devices: Sequence[ChosenDevice]
    requests: Sequence[Request]


def alternatives_of(
    claim: ResourceClaim, request: DeviceRequest, class_of: Callable[[str], DeviceClass | None]
) -> Iterator[Request]:
    """Yield the alternatives of a request, each when it is checked; raises `AllocationError`."""
    for sub in request.first_available:
        yield _checked(claim, sub.name, request.name, sub, class_of)
    if not request.first_available:
        exactly = request.exactly if request.exactly is not None else ExactDeviceRequest()
        yield _checked(claim, request.name, "", exactly, class_of)


def refuse_capacity(
    claim: ResourceClaim, request: DeviceRequest, *, names_alternatives: bool
) -> None:
    """Raise `AllocationError` if a request or an alternative wants capacity."""
    whole = f"request {request.name}"
    wishes = [
        (f"subrequest {sub.name}" if names_alternatives else whole, sub.capacity)
        for sub in request.first_available
    ]
    if request.exactly is not None:
        wishes.append((whole, request.exactly.capacity))
    for name, capacity in wishes:
        if capacity is not None:
            raise AllocationError(
                f"claim {claim.key}, {name}: has capacity requests, but the "
                "DRAConsumableCapacity feature is disabled"
            )


def _checked(
    claim: ResourceClaim,
    name: str,
    parent: str,
    spec: ExactDeviceRequest | DeviceSubRequest,
    class_of: Callable[[str], DeviceClass | None],
) -> Request:
    """Return a request; raises `AllocationError` (the first half of `validateDeviceRequest`)."""
    where = f"claim {claim.key}, request {name}"
    for number, selector in enumerate(spec.selectors):
        if selector.cel is None:
            text = f"selector #{number}: CEL expression empty (unsupported selector type?)"
            raise AllocationError(f"{where}, {text}")
    class_name = spec.device_class_name
    if not class_name:
        text = "missing device class name (unsupported request type?)"
        raise AllocationError(f"{where}: {text}")
    device_class = class_of(class_name)
    if device_class is None:
        raise AllocationError(
            f"{where}: could not retrieve device class {class_name}: "
            f'deviceclass.resource.k8s.io "{class_name}" not found'
        )
    for number, selector in enumerate(device_class.spec.selectors):
        if selector.cel is None:
            text = f"selector #{number}: CEL expression empty (unsupported selector type?)"
            raise AllocationError(f"class {class_name}: {text}")
    if spec.allocation_mode not in ("ExactCount", "All"):
        raise AllocationError(f"{where}: unsupported count mode {spec.allocation_mode}")
    return Request(claim, name, parent, spec, device_class)
