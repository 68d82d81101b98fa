"""Selectors of devices: CEL expressions, compiled once and evaluated once per distinct device.

Source: `k8s.io/dynamic-resource-allocation/cel/compile.go`, v0.36.3.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

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
from scheduler.config.versions import DEFAULT_SCHEDULER_VERSION, SchedulerVersion
from scheduler.lru_cache import LruCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.api.dynamic_resources import Device, DeviceSelector
    from scheduler.cel import Program
    from scheduler.config import FeatureGates
    from scheduler.devices.pools import PoolDevice

#: The gate of attributes that are lists.
LIST_TYPE_ATTRIBUTES: Final = "DRAListTypeAttributes"

#: The number of verdicts that are kept: expressions times distinct devices.
_VERDICTS_MAX: Final = 100_000


_RUNTIME_ERROR: Final = "CEL runtime error: "
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
def _program(expression: str, attribute: Type) -> Program | CompileError:
    try:
        return compile_expression(expression, _environment(attribute), attribute)
    except CompileError as error:
        return error


@functools.lru_cache(maxsize=1024)
def _value_program(expression: str, attribute: Type) -> Program | CompileError:
    try:
        return compile_value(expression, _environment(attribute))
    except CompileError as error:
        return error


def _without_device(number: int, problem: str, device: PoolDevice) -> str:
    return f"selector #{number}: {problem}"


def _with_device(number: int, problem: str, device: PoolDevice) -> str:
    """Return the text of v1.37, which names the device and has advice for missing keys."""
    if not problem.startswith(_RUNTIME_ERROR):
        return f"selector #{number}: {problem}"
    return f"selector #{number} on device {device.id}: {problem}{_ADVICE * (_NO_KEY in problem)}"


class SelectorVerdicts:
    """The verdicts of expressions on devices, for all claims and nodes."""

    def __init__(
        self,
        gates: FeatureGates = frozenset(),
        version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION,
    ) -> None:
        is_newer = version >= SchedulerVersion.V1_37
        has_lists = LIST_TYPE_ATTRIBUTES in gates or is_newer
        self._named: Final = _with_device if is_newer else _without_device
        self._derived: Final = LruCache[tuple[str, bytes], "DeviceAttribute | str"](_VERDICTS_MAX)
        self._attribute_type: Final = cel_types.DYN if has_lists else cel_types.ANY
        self._value_of: Final = list_or_scalar if has_lists else scalar
        self._verdicts: Final = LruCache[tuple[str, bytes], "bool | str"](_VERDICTS_MAX)

    def match(self, selectors: Iterable[DeviceSelector], device: PoolDevice) -> bool:
        """Return True if a device meets all selectors; raises `SelectorError`."""
        for number, selector in enumerate(selectors):
            assert selector.cel is not None, "the allocator has checked it"
            verdict = self._verdict(selector.cel.expression, device)
            if isinstance(verdict, str):
                raise SelectorError(self._named(number, verdict, device))
            if not verdict:
                return False
        return True

    def derived(self, name: str, expression: str, device: PoolDevice) -> DeviceAttribute:
        """Return the value of an expression as an attribute; raises `SelectorError`."""
        key = (expression, device.content)
        value = self._derived.touch(key)
        if value is None:
            value = self._value(expression, device)
            self._derived.put(key, value)
        if isinstance(value, str):
            raise SelectorError(value.format(name=name, device=device.id))
        return value

    def _value(self, expression: str, device: PoolDevice) -> DeviceAttribute | str:
        """Return the value of an expression, or the text of the error."""
        program = _value_program(expression, self._attribute_type)
        if isinstance(program, CompileError):
            text = str(program).replace("{", "{{").replace("}", "}}")
            return f"compile derived attribute {{name}} failed: {text}"
        try:
            return _as_attribute(
                program.value({"device": _as_cel(device.driver, device.device, self._value_of)})
            )
        except CelError as error:
            text = str(error).replace("{", "{{").replace("}", "}}")
            return f"evaluate derived attribute {{name}} on device {{device}} failed: {text}"

    def _verdict(self, expression: str, device: PoolDevice) -> bool | str:
        """Return the verdict on a device, or the text of the error."""
        key = (expression, device.content)
        verdict = self._verdicts.touch(key)
        if verdict is None:
            verdict = self._evaluated(expression, device)
            self._verdicts.put(key, verdict)
        return verdict

    def _evaluated(self, expression: str, device: PoolDevice) -> bool | str:
        program = _program(expression, self._attribute_type)
        if isinstance(program, CompileError):
            return f"CEL compile error: {program}"
        try:
            return program.matches(
                {"device": _as_cel(device.driver, device.device, self._value_of)}
            )
        except CelError as error:
            return f"{_RUNTIME_ERROR}{error}"


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
    if isinstance(value, list):
        return _as_list_attribute(value)
    for kind, field, convert in _FIELDS:
        if type(value) is kind:
            return msgspec.convert({field: convert(value)}, DeviceAttribute)
    raise CelError(f"unsupported CEL return type: {_go_type(value)}")


def _as_list_attribute(items: list[object]) -> DeviceAttribute:
    if not items:
        return DeviceAttribute(string_values=())
    for kind, field, convert in _FIELDS:
        if type(items[0]) is kind:
            for index, item in enumerate(items):
                if type(item) is not kind:
                    word = {"version": "semver"}.get(field, field)
                    raise CelError(
                        f"expected list element at index {index} to be {word}, got {_go_type(item)}"
                    )
            return msgspec.convert({f"{field}s": list(map(convert, items))}, DeviceAttribute)
    raise CelError(f"unsupported list element type: {_go_type(items[0])}")


def _go_type(value: object) -> str:
    """Return the name of Go's type of a value."""
    return _GO_TYPES.get(type(value).__name__, type(value).__name__)


#: The types of attributes: the class, the field, and its text or number.
_FIELDS: Final[tuple[tuple[type, str, Callable[[Any], Any]], ...]] = (
    (bool, "bool", bool),
    (int, "int", int),
    (str, "string", str),
    (Semver, "version", str),
)
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
