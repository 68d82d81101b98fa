"""Selectors of devices: CEL expressions, compiled once and evaluated once per distinct device.

Source: `k8s.io/dynamic-resource-allocation/cel/compile.go`, v0.36.3.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

import msgspec

from scheduler.api.dynamic_resources import DeviceAttribute
from scheduler.cel import (
    CelError,
    CompileError,
    DefaultMap,
    Environment,
    StructType,
    compile_expression,
    compile_value,
)
from scheduler.cel import types as cel_types
from scheduler.cel.types import Type, map_of
from scheduler.cel.values import Semver, parse_semver, quantity
from scheduler.config.versions import SchedulerVersion
from scheduler.lru_cache import LruCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.api.dynamic_resources import Device, DeviceSelector
    from scheduler.cel import Program
    from scheduler.config import FeatureGates
    from scheduler.devices.pools import PoolDevice

T = TypeVar("T")

#: The gate of attributes that are lists.
LIST_TYPE_ATTRIBUTES: Final = "DRAListTypeAttributes"

#: The number of results that are kept: expressions times distinct devices.
_RESULTS_MAX: Final = 100_000

_NO_KEY: Final = "no such key:"
_ADVICE: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with "
    "has() for optional fields"
)


class SelectorError(Exception):
    """A selector cannot be evaluated. The text has no claim or class."""


@functools.cache
def _environment(attribute: Type) -> Environment:
    """Return the environment in which attributes have this type."""
    device = StructType(
        Type("kubernetes.DRADevice"),
        {
            "driver": cel_types.STRING,
            "allowMultipleAllocations": cel_types.BOOL,
            "attributes": map_of(cel_types.STRING, map_of(cel_types.STRING, attribute)),
            "capacity": map_of(cel_types.STRING, map_of(cel_types.STRING, cel_types.QUANTITY)),
        },
    )
    return Environment({"device": device.type}, {device.type.name: device})


@functools.lru_cache(maxsize=1024)
def _selector(expression: str, attribute: Type) -> Program:
    return compile_expression(expression, _environment(attribute), attribute)


@functools.lru_cache(maxsize=1024)
def _derivation(expression: str, attribute: Type) -> Program:
    return compile_value(expression, _environment(attribute))


class _Failure(NamedTuple):
    """Why an expression has no result for a device."""

    is_runtime: bool
    text: str


def _selector_error(number: int, failure: _Failure, device: PoolDevice) -> SelectorError:
    word = "runtime" if failure.is_runtime else "compile"
    return SelectorError(f"selector #{number}: CEL {word} error: {failure.text}")


def _selector_error_on_device(number: int, failure: _Failure, device: PoolDevice) -> SelectorError:
    """Return the error of v1.37, which names the device and has advice for missing keys."""
    if not failure.is_runtime:
        return _selector_error(number, failure, device)
    text = f"{failure.text}{_ADVICE * (_NO_KEY in failure.text)}"
    return SelectorError(f"selector #{number} on device {device.id}: CEL runtime error: {text}")


class _Results(Generic[T]):
    """The results of expressions on devices, each computed once per distinct device."""

    def __init__(self, compute: Callable[[str, PoolDevice], T]) -> None:
        self._compute: Final = compute
        self._known: Final = LruCache[tuple[str, bytes], "T | _Failure"](_RESULTS_MAX)

    def of(self, expression: str, device: PoolDevice) -> T | _Failure:
        key = (expression, device.content)
        result = self._known.touch(key)
        if result is None:
            try:
                result = self._compute(expression, device)
            except CompileError as error:
                result = _Failure(is_runtime=False, text=str(error))
            except CelError as error:
                result = _Failure(is_runtime=True, text=str(error))
            self._known.put(key, result)
        return result


class SelectorVerdicts:
    """The verdicts of expressions on devices, for all claims and nodes."""

    def __init__(self, gates: FeatureGates, version: SchedulerVersion) -> None:
        since_1_37 = version >= SchedulerVersion.V1_37
        has_lists = LIST_TYPE_ATTRIBUTES in gates or since_1_37
        self._error: Final = _selector_error_on_device if since_1_37 else _selector_error
        self._attribute: Final = cel_types.DYN if has_lists else cel_types.ANY
        self._value_of: Final = list_or_scalar if has_lists else scalar
        self._verdicts: Final = _Results(self._verdict)
        self._derived: Final = _Results(self._value)

    def match(self, selectors: Iterable[DeviceSelector], device: PoolDevice) -> bool:
        """Return True if a device meets all selectors; raises `SelectorError`."""
        for number, selector in enumerate(selectors):
            assert selector.cel is not None, "the allocator has checked it"
            verdict = self._verdicts.of(selector.cel.expression, device)
            if isinstance(verdict, _Failure):
                raise self._error(number, verdict, device)
            if not verdict:
                return False
        return True

    def derived(self, name: str, expression: str, device: PoolDevice) -> DeviceAttribute:
        """Return the value of an expression as an attribute; raises `SelectorError`."""
        value = self._derived.of(expression, device)
        if not isinstance(value, _Failure):
            return value
        if value.is_runtime:
            text = f"evaluate derived attribute {name} on device {device.id} failed: {value.text}"
            raise SelectorError(text)
        raise SelectorError(f"compile derived attribute {name} failed: {value.text}")

    def _verdict(self, expression: str, device: PoolDevice) -> bool:
        return _selector(expression, self._attribute).matches(self._variables(device))

    def _value(self, expression: str, device: PoolDevice) -> DeviceAttribute:
        program = _derivation(expression, self._attribute)
        return _as_attribute(program.value(self._variables(device)))

    def _variables(self, device: PoolDevice) -> dict[str, object]:
        return {"device": _as_cel(device.driver, device.device, self._value_of)}


def _as_cel(
    driver: str, device: Device, value_of: Callable[[DeviceAttribute], object]
) -> dict[str, object]:
    attributes, capacity = DefaultMap(), DefaultMap()
    for name, attribute in device.attributes.items():
        try:
            _put(attributes, name, driver, value_of(attribute))
        except CelError as error:
            raise CelError(f"attribute {name}: {error}") from error
    for name, offered in device.capacity.items():
        _put(capacity, name, driver, quantity(str(offered.value)))
    return {
        "driver": driver,
        "allowMultipleAllocations": bool(device.allow_multiple_allocations),
        "attributes": attributes,
        "capacity": capacity,
    }


def _put(by_domain: DefaultMap, name: str, driver: str, value: object) -> None:
    domain, slash, identifier = name.partition("/")
    if not slash:
        domain, identifier = driver, name
    inner = by_domain.setdefault(domain, {})
    assert isinstance(inner, dict)
    inner[identifier] = value


def _as_attribute(value: object) -> DeviceAttribute:
    """Return a value of CEL as an attribute; raises `CelError` (`valToDeviceAttribute`)."""
    is_list = isinstance(value, list)
    items = value if isinstance(value, list) else [value]
    if not items:
        return DeviceAttribute(string_values=())
    kind = type(items[0])
    if kind not in _FIELDS:
        what = "list element" if is_list else "CEL return"
        raise CelError(f"unsupported {what} type: {_go_type(items[0])}")
    for index, item in enumerate(items):
        if type(item) is not kind:
            word = "semver" if kind is Semver else _FIELDS[kind]
            raise CelError(
                f"expected list element at index {index} to be {word}, got {_go_type(item)}"
            )
    values = [str(item) if kind is Semver else item for item in items]
    fields = {f"{_FIELDS[kind]}s": values} if is_list else {_FIELDS[kind]: values[0]}
    return msgspec.convert(fields, DeviceAttribute)


def _go_type(value: object) -> str:
    """Return the name of Go's type of a value."""
    return _GO_TYPES.get(type(value).__name__, type(value).__name__)


#: The fields of attributes, by the type of the value.
_FIELDS: Final = {bool: "bool", int: "int", str: "string", Semver: "version"}
_GO_TYPES: Final = {
    "int": "int64",
    "UInt": "uint64",
    "float": "float64",
    "str": "string",
    "bytes": "[]uint8",
    "dict": "map[ref.Val]ref.Val",
    "list": "[]ref.Val",
    "Quantity": "*resource.Quantity",
    "Semver": "semver.Version",
    "NoneType": "structpb.NullValue",
}


def list_or_scalar(attribute: DeviceAttribute) -> object:
    """Return the value of an attribute for CEL; raises `CelError`."""
    for values in (attribute.int_values, attribute.bool_values, attribute.string_values):
        if values is not None:
            return list(values)
    if attribute.version_values is not None:
        return list(map(_version, attribute.version_values))
    return scalar(attribute)


def scalar(attribute: DeviceAttribute) -> object:
    """Return the value of an attribute that is no list for CEL; raises `CelError`."""
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    if attribute.version_value is None:
        raise CelError("unsupported attribute value")
    return _version(attribute.version_value)


def _version(text: str) -> Semver:
    try:
        return parse_semver(text)
    except CelError as error:
        raise CelError(f"parse semantic version: {error}") from error
