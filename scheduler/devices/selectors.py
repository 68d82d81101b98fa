"""Selectors of devices: CEL expressions, compiled once and evaluated once per distinct device.

Source: `k8s.io/dynamic-resource-allocation/cel/compile.go`, v0.36.3.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from scheduler.cel import (
    CelError,
    CompileError,
    DefaultMap,
    Environment,
    StructType,
    compile_expression,
)
from scheduler.cel import types as cel_types
from scheduler.cel.types import Type, map_of
from scheduler.cel.values import Semver, parse_semver, quantity
from scheduler.lru_cache import LruCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.api.dynamic_resources import Device, DeviceAttribute, DeviceSelector
    from scheduler.cel import Program
    from scheduler.config import FeatureGates
    from scheduler.devices.pools import PoolDevice

#: The gate of attributes that are lists.
LIST_TYPE_ATTRIBUTES: Final = "DRAListTypeAttributes"

#: The number of verdicts that are kept: expressions times distinct devices.
_VERDICTS_MAX: Final = 100_000


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


class SelectorVerdicts:
    """The verdicts of expressions on devices, for all claims and nodes."""

    def __init__(self, gates: FeatureGates = frozenset()) -> None:
        has_lists = LIST_TYPE_ATTRIBUTES in gates
        self._attribute_type: Final = cel_types.DYN if has_lists else cel_types.ANY
        self._value_of: Final = list_or_scalar if has_lists else scalar
        self._verdicts: Final = LruCache[tuple[str, bytes], "bool | str"](_VERDICTS_MAX)

    def match(self, selectors: Iterable[DeviceSelector], device: PoolDevice) -> bool:
        """Return True if a device meets all selectors; raises `SelectorError`."""
        for number, selector in enumerate(selectors):
            assert selector.cel is not None, "the allocator has checked it"
            verdict = self._verdict(selector.cel.expression, device)
            if isinstance(verdict, str):
                raise SelectorError(f"selector #{number}: {verdict}")
            if not verdict:
                return False
        return True

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
            return f"CEL runtime error: {error}"


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
