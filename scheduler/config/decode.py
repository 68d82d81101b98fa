"""Decode JSON values into the types of the configuration as strictly as upstream's decoder.

All unknown fields are reported, not only the first. A wrong type is an error that names the field
and the type expected. `null` and a missing field both leave the default. Nothing is converted:
`"3"` is not a number, `1` is not true.
Source: `sigs.k8s.io/json`, apimachinery `pkg/apis/meta/v1/duration.go`.
"""

from __future__ import annotations

import base64
import functools
import json
from typing import Final, TypeVar

import msgspec
from msgspec import inspect

from scheduler.api.field import FieldError, child_path
from scheduler.config.duration import Duration

S = TypeVar("S", bound=msgspec.Struct)

_FLOAT32_MAX: Final = 3.4028235677973366e38
_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1


def decode(cls: type[S], value: object) -> tuple[S, list[str]]:
    """Decode a JSON value into a struct; also return the paths of unknown fields.

    Raises `FieldError` for the first value of a wrong type.
    """
    decoder = _Decoder()
    decoded = decoder.value(_type_info(cls), value, "")
    assert isinstance(decoded, cls)
    return decoded, decoder.unknown_fields


@functools.cache
def _type_info(cls: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(cls)


class _Decoder:
    """Decode one document and collect its unknown fields."""

    def __init__(self) -> None:
        self.unknown_fields: list[str] = []

    def value(self, kind: inspect.Type, value: object, path: str) -> object:
        """Return a value of this type; `null` becomes its zero value."""
        match kind:
            case inspect.UnionType():
                return self._optional(kind, value, path)
            case inspect.StructType() if kind.cls is Duration:
                return _duration(value, path)
            case inspect.StructType():
                return self._struct(kind, value, path)
            case inspect.VarTupleType():
                return self._tuple(kind, value, path)
            case inspect.DictType():
                return self._mapping(kind, value, path)
            case inspect.CustomType():
                return value
        return _scalar(kind, value, path)

    def _optional(self, kind: inspect.UnionType, value: object, path: str) -> object:
        if value is None:
            return None
        (inner,) = (item for item in kind.types if not isinstance(item, inspect.NoneType))
        return self.value(inner, value, path)

    def _struct(self, kind: inspect.StructType, value: object, path: str) -> object:
        if value is None:
            return kind.cls()
        if not isinstance(value, dict):
            raise _mismatch(path, "a mapping", value)
        fields = {field.encode_name: field for field in kind.fields}
        arguments = {}
        for key, item in value.items():
            below = child_path(path, key)
            if key not in fields:
                self.unknown_fields.append(below)
            elif item is not None or _is_duration(fields[key].type):
                arguments[fields[key].name] = self.value(fields[key].type, item, below)
        return kind.cls(**arguments)

    def _tuple(self, kind: inspect.VarTupleType, value: object, path: str) -> object:
        if value is None:
            return ()
        if not isinstance(value, list):
            raise _mismatch(path, "a list", value)
        return tuple(
            self.value(kind.item_type, item, f"{path}[{index}]") for index, item in enumerate(value)
        )

    def _mapping(self, kind: inspect.DictType, value: object, path: str) -> object:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise _mismatch(path, "a mapping", value)
        return {
            key: self.value(kind.value_type, item, child_path(path, key))
            for key, item in value.items()
        }


def _is_duration(kind: inspect.Type) -> bool:
    # Upstream decodes a duration of `null` as an empty string, which is an error.
    return isinstance(kind, inspect.StructType) and kind.cls is Duration


def _duration(value: object, path: str) -> Duration:
    if value is not None and not isinstance(value, str):
        raise _mismatch(path, 'a duration such as "1h30m"', value)
    try:
        return Duration.parse(value or "")
    except ValueError as error:
        raise FieldError(path, str(error)) from error


def _scalar(kind: inspect.Type, value: object, path: str) -> object:
    match kind:
        case inspect.StrType():
            return _text(value, path)
        case inspect.BoolType():
            return _truth(value, path)
        case inspect.IntType():
            return _integer(kind, value, path)
        case inspect.FloatType():
            return _float(value, path)
        case inspect.BytesType():
            return _bytes(value, path)
    raise TypeError(f"{path}: no way to read a {kind!r}")


def _text(value: object, path: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _mismatch(path, "a string", value)
    return value


def _truth(value: object, path: str) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _mismatch(path, "true or false", value)
    return value


def _integer(kind: inspect.IntType, value: object, path: str) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise _mismatch(path, "an integer", value)
    # Integers of `scheduler.api` declare no range; those used here have 32 bits.
    lowest = _INT32_MIN if kind.ge is None else kind.ge
    highest = _INT32_MAX if kind.le is None else kind.le
    if not lowest <= value <= highest:
        raise _mismatch(path, f"an integer from {lowest} to {highest}", value)
    return value


def _float(value: object, path: str) -> float:
    if value is None:
        return 0.0
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _mismatch(path, "a number", value)
    if abs(value) >= _FLOAT32_MAX:
        raise _mismatch(path, "a number that fits 32 bits", value)
    return float(value)


def _bytes(value: object, path: str) -> bytes:
    if value is None:
        return b""
    try:
        if isinstance(value, str):
            return base64.b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
    except ValueError as error:
        # The value may be a private key: it is not shown.
        raise FieldError(path, "must be base64-encoded data") from error
    raise FieldError(path, "must be base64-encoded data")


def _mismatch(path: str, wanted: str, value: object) -> FieldError:
    match value:
        case dict():
            found = "a mapping"
        case list():
            found = "a list"
        case _:
            found = json.dumps(value, ensure_ascii=False)
    return FieldError(path, f"must be {wanted}, not {found}")
