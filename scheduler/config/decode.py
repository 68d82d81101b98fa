"""Decode JSON values into the types of the configuration as strictly as upstream's decoder.

All unknown fields are reported, not only the first. A wrong type is an error with the text of Go's
JSON decoder, whose path has no indexes of lists. `null` and a missing field both leave the default.
Nothing is converted: `"3"` is not a number, `1` is not true.
Source: `sigs.k8s.io/json` (`UnmarshalTypeError`), apimachinery `pkg/apis/meta/v1/duration.go`.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec import inspect

from scheduler.api.duration import Duration
from scheduler.api.field import FieldError, child_path
from scheduler.config.types import has_field
from scheduler.config.versions import DEFAULT_SCHEDULER_VERSION, SchedulerVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

S = TypeVar("S", bound=msgspec.Struct)

#: Types that upstream takes from another package than the configuration's own.
_PACKAGES: Final[Mapping[str, str]] = {
    "ClientConnectionConfiguration": "v1alpha1",
    "LeaderElectionConfiguration": "v1alpha1",
}
#: Fields of a struct that upstream embeds; its name is part of their path in errors.
_EMBEDDED: Final[Mapping[str, str]] = {
    "enableProfiling": "DebuggingConfiguration",
    "enableContentionProfiling": "DebuggingConfiguration",
}
_INDEX: Final = re.compile(r"\[[0-9]+\]")
_FLOAT32_MAX: Final = 3.4028235677973366e38
_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1


def decode(
    cls: type[S], value: object, version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION
) -> tuple[S, list[str]]:
    """Decode a JSON value into a struct; also return the paths of fields unknown to the version.

    Raises `ValueError` for the first value of a wrong type.
    """
    decoder = _Decoder(version)
    decoded = decoder.value(_type_info(cls), value, "")
    assert isinstance(decoded, cls)
    return decoded, decoder.unknown_fields


@functools.cache
def _type_info(cls: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(cls)


class _Decoder:
    """Decode one document and collect its unknown fields."""

    def __init__(self, version: SchedulerVersion) -> None:
        self._version: Final = version
        self.unknown_fields: list[str] = []

    def value(self, kind: inspect.Type, value: object, path: str, owner: str = "") -> object:
        """Return a value of this type; `null` in a list becomes the zero value.

        A field of a struct with `null` is left out before. `owner` is the name of the struct that
        has the field.
        """
        match kind:
            case inspect.UnionType():
                return self._optional(kind, value, path, owner)
            case inspect.StructType() if kind.cls is Duration:
                return _duration(value, path, owner)
            case inspect.StructType():
                return self._struct(kind, value, path, owner)
            case inspect.VarTupleType():
                return self._tuple(kind, value, path, owner)
            case inspect.DictType():
                return self._mapping(kind, value, path, owner)
            case inspect.CustomType():
                return value
        return _scalar(kind, value, path, owner)

    def _optional(self, kind: inspect.UnionType, value: object, path: str, owner: str) -> object:
        (inner,) = (item for item in kind.types if not isinstance(item, inspect.NoneType))
        return self.value(inner, value, path, owner)

    def _struct(self, kind: inspect.StructType, value: object, path: str, owner: str) -> object:
        if value is None:
            return kind.cls()
        if not isinstance(value, dict):
            raise _mismatch(kind, value, path, owner)
        fields = {
            field.encode_name: field
            for field in kind.fields
            if has_field(kind.cls, field.name, self._version)
        }
        arguments = {}
        for key, item in value.items():
            below = child_path(path, key)
            if key not in fields:
                self.unknown_fields.append(below)
            elif item is not None or _is_duration(fields[key].type):
                decoded = self.value(fields[key].type, item, below, kind.cls.__name__)
                arguments[fields[key].name] = decoded
        return kind.cls(**arguments)

    def _tuple(self, kind: inspect.VarTupleType, value: object, path: str, owner: str) -> object:
        if not isinstance(value, list):
            raise _mismatch(kind, value, path, owner)
        return tuple(
            self.value(kind.item_type, item, f"{path}[{index}]", owner)
            for index, item in enumerate(value)
        )

    def _mapping(self, kind: inspect.DictType, value: object, path: str, owner: str) -> object:
        if not isinstance(value, dict):
            raise _mismatch(kind, value, path, owner)
        return {
            key: self.value(kind.value_type, item, child_path(path, key), owner)
            for key, item in value.items()
        }


def _is_duration(kind: inspect.Type) -> bool:
    # Upstream decodes a duration of `null` as an empty string, which is an error.
    return isinstance(kind, inspect.StructType) and kind.cls is Duration


def _duration(value: object, path: str, owner: str) -> Duration:
    if value is not None and not isinstance(value, str):
        raise _mismatch(inspect.StrType(), value, path, owner)
    try:
        return Duration.parse(value or "")
    except ValueError as error:
        raise FieldError(path, str(error)) from error


def _scalar(kind: inspect.Type, value: object, path: str, owner: str) -> object:
    match kind:
        case inspect.StrType() if value is None or isinstance(value, str):
            return value or ""
        case inspect.BoolType() if value is None or isinstance(value, bool):
            return value or False
        case inspect.IntType() if value is None or _is_integer(kind, value):
            return value or 0
        case inspect.FloatType() if value is None or _is_float32(value):
            return value or 0.0
        case inspect.BytesType():
            return _bytes(value, path)
    raise _mismatch(kind, value, path, owner)


def _is_integer(kind: inspect.IntType, value: object) -> bool:
    # Integers of `scheduler.api` declare no range; those used here have 32 bits.
    lowest = _INT32_MIN if kind.ge is None else kind.ge
    highest = _INT32_MAX if kind.le is None else kind.le
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


def _is_float32(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) < _FLOAT32_MAX


def _bytes(value: object, path: str) -> bytes:
    try:
        if isinstance(value, str):
            return base64.b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
    except ValueError as error:
        # The value may be a private key: it is not shown.
        raise FieldError(path, "must be base64-encoded data") from error
    raise FieldError(path, "must be base64-encoded data")


def _mismatch(kind: inspect.Type, value: object, path: str, owner: str) -> ValueError:
    go_type, shown = _go_type(kind), json_kind(value)
    if shown == "number" and go_type.startswith(("int", "float")):
        # A number of a numeric type is out of range, or has a fraction.
        assert isinstance(value, int | float)
        shown = f"number {json.dumps(value)}"
    *above, name = _INDEX.sub("", path).split(".")
    if name in _EMBEDDED:
        above.append(_EMBEDDED[name])
    field = ".".join([owner, *above, name])
    return ValueError(
        f"json: cannot unmarshal {shown} into Go struct field {field} of type {go_type}"
    )


def json_kind(value: object) -> str:
    """Return the kind of a JSON value, as Go names it in errors."""
    match value:
        case dict():
            return "object"
        case list():
            return "array"
        case bool():
            return "bool"
        case str():
            return "string"
    return "number"


def _go_type(kind: inspect.Type) -> str:
    match kind:
        case inspect.StructType():
            name = kind.cls.__name__
            return f"{_PACKAGES.get(name, 'v1')}.{name}"
        case inspect.VarTupleType():
            return f"[]{_go_type(kind.item_type)}"
        case inspect.DictType():
            return f"map[string]{_go_type(kind.value_type)}"
        case inspect.StrType():
            return "string"
        case inspect.BoolType():
            return "bool"
        case inspect.FloatType():
            return "float32"
        case inspect.IntType():
            return "int64" if kind.le is not None and kind.le > _INT32_MAX else "int32"
    raise TypeError(f"there is no way to read a {kind!r}")
