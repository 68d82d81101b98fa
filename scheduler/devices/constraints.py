"""Constraints on the devices of a claim together: equal or distinct values of an attribute.

Source: `k8s.io/dynamic-resource-allocation/structured/internal/incubating/{allocator_incubating,
constraint}.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scheduler.api.dynamic_resources import DeviceAttribute
    from scheduler.devices.pools import PoolDevice
    from scheduler.devices.requests import Request

    #: Finds the attribute of a device by name; derived ones are those of the request.
    Lookup: TypeAlias = Callable[[Request, PoolDevice, str], DeviceAttribute | None]


class Constraint(Protocol):
    """A condition that is checked with every device that is added."""

    def add(self, request: Request, device: PoolDevice) -> bool:
        """Add a device; return False, and leave all unchanged, if it violates the condition."""

    def remove(self, request: Request) -> None:
        """Undo the last `add` of the request."""


def _applies(requests: Collection[str], request: Request) -> bool:
    return not requests or request.base_name in requests or request.full_name in requests


def attribute_of(device: PoolDevice, name: str) -> DeviceAttribute | None:
    """Return a device's attribute by its full name, or by its name in the driver's domain."""
    attributes = device.device.attributes
    if name in attributes:
        return attributes[name]
    domain, slash, identifier = name.partition("/")
    return attributes.get(identifier) if slash and domain == device.driver else None


class MatchAttribute:
    """All devices have the same value of the attribute."""

    def __init__(self, requests: Collection[str], name: str, lookup: Lookup) -> None:
        self._requests: Final = requests
        self._name: Final = name
        self._lookup: Final = lookup
        self._value: DeviceAttribute | None = None
        self._count = 0

    def add(self, request: Request, device: PoolDevice) -> bool:
        if not _applies(self._requests, request):
            return True
        attribute = self._lookup(request, device, self._name)
        if attribute is None:
            return False
        if not self._count:
            self._value = attribute
        elif attribute != self._value or not _has_value(attribute):
            return False
        self._count += 1
        return True

    def remove(self, request: Request) -> None:
        if _applies(self._requests, request):
            self._count -= 1


def _value_of(device: PoolDevice, attribute: DeviceAttribute) -> object:
    """Return the attribute itself."""
    return attribute


def place_of(device: PoolDevice, attribute: DeviceAttribute) -> object:
    """Return where the attribute's value is stored, so that only a device equals itself (v1.34)."""
    return device.id


class DistinctAttribute:
    """Each device has another value of the attribute.

    As upstream, one value is kept for each request, the last one.
    """

    def __init__(
        self,
        requests: Collection[str],
        name: str,
        lookup: Lookup,
        *,
        compared: Callable[[PoolDevice, DeviceAttribute], object] = _value_of,
    ) -> None:
        self._requests: Final = requests
        self._name: Final = name
        self._lookup: Final = lookup
        self._compared: Final = compared
        self._values: Final[dict[str, object]] = {}
        self._count = 0

    def add(self, request: Request, device: PoolDevice) -> bool:
        if not _applies(self._requests, request):
            return True
        attribute = self._lookup(request, device, self._name)
        if attribute is None:
            return False
        if self._count and self._values and not _has_value(attribute):
            return False
        compared = self._compared(device, attribute)
        if self._count and compared in self._values.values():
            return False
        self._values[request.base_name] = compared
        self._count += 1
        return True

    def remove(self, request: Request) -> None:
        if _applies(self._requests, request):
            self._values.pop(request.base_name, None)
            self._count -= 1


class PairwiseDistinctAttribute:
    """Each device has another value of the attribute than all other devices (v1.37)."""

    def __init__(self, requests: Collection[str], name: str, lookup: Lookup) -> None:
        self._requests: Final = requests
        self._name: Final = name
        self._lookup: Final = lookup
        self._values: Final[list[DeviceAttribute]] = []

    def add(self, request: Request, device: PoolDevice) -> bool:
        if not _applies(self._requests, request):
            return True
        attribute = self._lookup(request, device, self._name)
        if attribute is None or (self._values and not _has_value(attribute)):
            return False
        if attribute in self._values:
            return False
        self._values.append(attribute)
        return True

    def remove(self, request: Request) -> None:
        if _applies(self._requests, request):
            self._values.pop()


class CommonElement:
    """The lists of all devices have an element in common; a scalar is a list of one."""

    def __init__(self, requests: Collection[str], name: str, lookup: Lookup) -> None:
        self._requests: Final = requests
        self._name: Final = name
        self._lookup: Final = lookup
        #: The common elements after each device.
        self._common: Final[list[Elements]] = []

    def add(self, request: Request, device: PoolDevice) -> bool:
        if not _applies(self._requests, request):
            return True
        elements = _elements(self._lookup(request, device, self._name))
        if self._common:
            elements &= self._common[-1]
        if elements:
            self._common.append(elements)
        return bool(elements)

    def remove(self, request: Request) -> None:
        if _applies(self._requests, request):
            self._common.pop()


class DisjointElements:
    """No two devices have an element in common; a scalar is a list of one."""

    def __init__(self, requests: Collection[str], name: str, lookup: Lookup) -> None:
        self._requests: Final = requests
        self._name: Final = name
        self._lookup: Final = lookup
        self._of_devices: Final[list[Elements]] = []

    def add(self, request: Request, device: PoolDevice) -> bool:
        if not _applies(self._requests, request):
            return True
        elements = _elements(self._lookup(request, device, self._name))
        if not elements or any(elements & others for others in self._of_devices):
            return False
        self._of_devices.append(elements)
        return True

    def remove(self, request: Request) -> None:
        if _applies(self._requests, request):
            self._of_devices.pop()


#: Elements of a list, each with the name of its type.
Elements: TypeAlias = "frozenset[tuple[str, object]]"


def _elements(attribute: DeviceAttribute | None) -> Elements:
    """Return the elements of an attribute; none of an unknown type (`attributeAsSet`)."""
    if attribute is None:
        return frozenset()
    lists = {
        "int": attribute.int_values or (),
        "bool": attribute.bool_values or (),
        "string": attribute.string_values or (),
        "version": attribute.version_values or (),
    }
    for kind, values in lists.items():
        if values:
            return frozenset((kind, value) for value in values)
    scalars = {
        "int": attribute.int_value,
        "bool": attribute.bool_value,
        "string": attribute.string_value,
        "version": attribute.version_value,
    }
    found = ((kind, value) for kind, value in scalars.items() if value is not None)
    return frozenset([first] if (first := next(found, None)) is not None else ())


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
