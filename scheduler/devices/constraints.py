"""Constraints on the devices of a claim together: equal or distinct values of an attribute.

Source: `k8s.io/dynamic-resource-allocation/structured/internal/incubating/{allocator_incubating,
constraint}.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scheduler.api.dynamic_resources import DeviceAttribute
    from scheduler.devices.pools import PoolDevice
    from scheduler.devices.requests import Request

    #: Finds the attribute of a device by name; derived ones are those of the request.
    Lookup: TypeAlias = Callable[[Request, PoolDevice, str], DeviceAttribute | None]


T = TypeVar("T")

#: A value with the name of its type, and the values of a list.
_Element: TypeAlias = tuple[str, object]
_Elements: TypeAlias = frozenset[_Element]


class Values(Protocol):
    """The values that the devices of a constraint have, and the condition on them."""

    def add(self, request: Request, device: PoolDevice, attribute: DeviceAttribute) -> bool:
        """Add a device's value; return False, and add nothing, if it violates the condition."""

    def remove(self, request: Request) -> None:
        """Undo the last `add` of the request."""


class Constraint:
    """A condition on an attribute, checked with every device that some requests of a claim get."""

    def __init__(
        self, requests: Collection[str], name: str, lookup: Lookup, values: Values
    ) -> None:
        self._requests: Final = requests
        self._name: Final = name
        self._lookup: Final = lookup
        self._values: Final = values

    def add(self, request: Request, device: PoolDevice) -> bool:
        """Add a device; return False, and leave all unchanged, if it violates the condition."""
        if not self._is_about(request):
            return True
        attribute = self._lookup(request, device, self._name)
        return attribute is not None and self._values.add(request, device, attribute)

    def remove(self, request: Request) -> None:
        """Undo the last `add` of the request."""
        if self._is_about(request):
            self._values.remove(request)

    def _is_about(self, request: Request) -> bool:
        requests = self._requests
        return not requests or request.base_name in requests or request.full_name in requests


def attribute_of(device: PoolDevice, name: str) -> DeviceAttribute | None:
    """Return a device's attribute by its full name, or by its name in the driver's domain."""
    attributes = device.device.attributes
    if name in attributes:
        return attributes[name]
    domain, slash, identifier = name.partition("/")
    return attributes.get(identifier) if slash and domain == device.driver else None


class _AddedValues(Generic[T]):
    """The values that the devices have added, in their order."""

    def __init__(self) -> None:
        self._added: Final[list[T]] = []

    def remove(self, request: Request) -> None:
        self._added.pop()


class EqualValues(_AddedValues["DeviceAttribute"]):
    """All devices have the same value."""

    def add(self, request: Request, device: PoolDevice, attribute: DeviceAttribute) -> bool:
        if self._added and (attribute != self._added[0] or _scalar(attribute) is None):
            return False
        self._added.append(attribute)
        return True


class LastValuesDistinct:
    """Each device has another value.

    As upstream, one value is kept for each request, the last one. With `compares_places` (v1.34)
    the places are compared where values are stored, so that only a device equals itself.
    """

    def __init__(self, *, compares_places: bool = False) -> None:
        self._compares_places: Final = compares_places
        self._values: Final[dict[str, object]] = {}
        self._count = 0

    def add(self, request: Request, device: PoolDevice, attribute: DeviceAttribute) -> bool:
        if self._count and self._values and _scalar(attribute) is None:
            return False
        compared: object = device.id if self._compares_places else attribute
        if self._count and compared in self._values.values():
            return False
        self._values[request.base_name] = compared
        self._count += 1
        return True

    def remove(self, request: Request) -> None:
        self._values.pop(request.base_name, None)
        self._count -= 1


class AllValuesDistinct(_AddedValues["DeviceAttribute"]):
    """Each device has another value than all other devices (v1.37)."""

    def add(self, request: Request, device: PoolDevice, attribute: DeviceAttribute) -> bool:
        if attribute in self._added or (self._added and _scalar(attribute) is None):
            return False
        self._added.append(attribute)
        return True


class CommonElement(_AddedValues[_Elements]):
    """The lists of all devices have an element in common; a scalar is a list of one.

    A device adds the elements that it has in common with all devices before it.
    """

    def add(self, request: Request, device: PoolDevice, attribute: DeviceAttribute) -> bool:
        elements = _elements(attribute)
        if self._added:
            elements &= self._added[-1]
        if elements:
            self._added.append(elements)
        return bool(elements)


class DisjointElements(_AddedValues[_Elements]):
    """No two devices have an element in common; a scalar is a list of one."""

    def add(self, request: Request, device: PoolDevice, attribute: DeviceAttribute) -> bool:
        elements = _elements(attribute)
        if not elements or any(elements & others for others in self._added):
            return False
        self._added.append(elements)
        return True


_TYPES: Final = ("int", "bool", "string", "version")


def _elements(attribute: DeviceAttribute) -> _Elements:
    """Return the elements of an attribute; none of an unknown type (`attributeAsSet`)."""
    for kind in _TYPES:
        if values := getattr(attribute, f"{kind}_values"):
            return frozenset((kind, value) for value in values)
    scalar = _scalar(attribute)
    return frozenset([scalar] if scalar is not None else ())


def _scalar(attribute: DeviceAttribute) -> _Element | None:
    """Return the value of an attribute that is no list; None of an unknown type."""
    for kind in _TYPES:
        if (value := getattr(attribute, f"{kind}_value")) is not None:
            return kind, value
    return None
