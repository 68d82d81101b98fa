"""Constraints on the devices of a claim together: equal or distinct values of an attribute.

Source: `k8s.io/dynamic-resource-allocation/structured/internal/incubating/{allocator_incubating,
constraint}.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from scheduler.api.dynamic_resources import DeviceAttribute
    from scheduler.devices.pools import PoolDevice


class Constraint(Protocol):
    """A condition that is checked with every device that is added."""

    def add(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        """Add a device; return False, and leave all unchanged, if it violates the condition."""
        ...

    def remove(self, request: str, subrequest: str) -> None:
        """Undo the last `add` of the request."""
        ...


def _applies(requests: Collection[str], request: str, subrequest: str) -> bool:
    return (
        not requests
        or request in requests
        or (bool(subrequest) and f"{request}/{subrequest}" in requests)
    )


def _attribute(device: PoolDevice, name: str) -> DeviceAttribute | None:
    """Return a device's attribute by its full name, or by its name in the driver's domain."""
    attributes = device.device.attributes
    if name in attributes:
        return attributes[name]
    domain, slash, identifier = name.partition("/")
    return attributes.get(identifier) if slash and domain == device.driver else None


class MatchAttribute:
    """All devices have the same value of the attribute."""

    def __init__(self, requests: Collection[str], name: str) -> None:
        self._requests: Final = requests
        self._name: Final = name
        self._value: DeviceAttribute | None = None
        self._count = 0

    def add(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        if not _applies(self._requests, request, subrequest):
            return True
        attribute = _attribute(device, self._name)
        if attribute is None:
            return False
        if not self._count:
            self._value = attribute
        elif attribute != self._value or not _has_value(attribute):
            return False
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if _applies(self._requests, request, subrequest):
            self._count -= 1


class DistinctAttribute:
    """Each device has another value of the attribute.

    As upstream, one value is kept for each request, the last one.
    """

    def __init__(self, requests: Collection[str], name: str) -> None:
        self._requests: Final = requests
        self._name: Final = name
        self._values: Final[dict[str, DeviceAttribute]] = {}
        self._count = 0

    def add(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        if not _applies(self._requests, request, subrequest):
            return True
        attribute = _attribute(device, self._name)
        if attribute is None:
            return False
        if self._count and self._values and not _has_value(attribute):
            return False
        if self._count and attribute in self._values.values():
            return False
        self._values[request] = attribute
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if _applies(self._requests, request, subrequest):
            self._values.pop(request, None)
            self._count -= 1


def _has_value(attribute: DeviceAttribute) -> bool:
    return any(
        value is not None
        for value in (
            attribute.int_value,
            attribute.bool_value,
            attribute.string_value,
            attribute.version_value,
        )
    )
