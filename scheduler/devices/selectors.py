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
from scheduler.cel.values import parse_semver, quantity
from scheduler.lru_cache import LruCache

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.api.dynamic_resources import Device, DeviceAttribute, DeviceSelector
    from scheduler.cel import Program
    from scheduler.devices.pools import PoolDevice

_DEVICE: Final = StructType(
    cel_types.Type("kubernetes.DRADevice"),
    {
        "driver": cel_types.STRING,
        "allowMultipleAllocations": cel_types.BOOL,
        "attributes": cel_types.map_of(
            cel_types.STRING, cel_types.map_of(cel_types.STRING, cel_types.ANY)
        ),
        "capacity": cel_types.map_of(
            cel_types.STRING, cel_types.map_of(cel_types.STRING, cel_types.QUANTITY)
        ),
    },
)
_ENVIRONMENT: Final = Environment({"device": _DEVICE.type}, {_DEVICE.type.name: _DEVICE})

#: The number of verdicts that are kept: expressions times distinct devices.
_VERDICTS_MAX: Final = 100_000


class SelectorError(Exception):
    """A selector cannot be evaluated. The text has no claim or class."""


@functools.lru_cache(maxsize=1024)
def _program(expression: str) -> Program | CompileError:
    try:
        return compile_expression(expression, _ENVIRONMENT)
    except CompileError as error:
        return error


class SelectorVerdicts:
    """The verdicts of expressions on devices, for all claims and nodes."""

    def __init__(self) -> None:
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
            verdict = _evaluated(expression, device.driver, device.device)
            self._verdicts.put(key, verdict)
        return verdict


def _evaluated(expression: str, driver: str, device: Device) -> bool | str:
    program = _program(expression)
    if isinstance(program, CompileError):
        return f"CEL compile error: {program}"
    try:
        return program.matches({"device": _as_cel(driver, device)})
    except CelError as error:
        return f"CEL runtime error: {error}"


def _as_cel(driver: str, device: Device) -> dict[str, object]:
    attributes, capacity = DefaultMap(), DefaultMap()
    for name, attribute in device.attributes.items():
        try:
            _put(attributes, name, driver, _attribute_value(attribute))
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


def _attribute_value(attribute: DeviceAttribute) -> object:
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    if attribute.version_value is None:
        raise CelError("unsupported attribute value")
    try:
        return parse_semver(attribute.version_value)
    except CelError as error:
        raise CelError(f"parse semantic version: {error}") from error
