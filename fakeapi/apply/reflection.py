"""Numbers of an applied object: upstream converts it by reflection, not from JSON.

A JSON decoder refuses an integer that its field cannot hold. Go's conversion drops the upper bits
without an error. Numbers outside of int64 are floats before that.

Source: fromUnstructured in apimachinery pkg/runtime/converter.go of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types import gotext
from fakeapi.types.schema import DecodeError, converter, fields_of, json_type

if TYPE_CHECKING:
    from fakeapi.types.objects import Json

_BITS: Final = {"int32": 32, "int64": 64, "int": 64}
_FROM_JSON: Final = frozenset({"bytes", "time", "microtime", "intorstring"})
_SCHEMA: Final = "apiextensions/v1.JSONSchemaProps"
_SCHEMAS: Final = frozenset({"schemaorbool", "schemaorarray", "schemaorstrings"})
_LOWEST: Final = -(2**63)


def narrowed(type_name: str, obj: Json) -> Json:
    """Return the object with integers as their fields hold them. Raises DecodeError."""
    fields = fields_of(type_name)
    return {
        name: _narrowed(fields[name].type, value) if name in fields else value
        for name, value in obj.items()
    }


def _narrowed(type_name: str, value: object) -> object:
    if type_name in _SCHEMAS and value is not None:
        return _narrowed_schema(type_name, value)
    if isinstance(value, dict):
        if type_name.startswith("{}"):
            return {name: _narrowed(type_name[2:], item) for name, item in value.items()}
        return narrowed(type_name, value)
    if isinstance(value, list) and type_name.startswith("[]"):
        return [_narrowed(type_name[2:], item) for item in value]
    if type_name in _FROM_JSON and value is not None:
        _check_json(type_name, value)
        return value
    bits = _BITS.get(type_name)
    if bits is None or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, float):
        if not value.is_integer():
            raise DecodeError(f"cannot convert float64 to {type_name}")
        # Go on amd64 converts a float that is too large to the lowest int64.
        value = int(value) if _LOWEST <= value < -_LOWEST else _LOWEST
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _narrowed_schema(type_name: str, value: object) -> object:
    """Return a schema of a CRD, or the value allowed in its place; None for other values."""
    if isinstance(value, dict):
        return narrowed(_SCHEMA, value)
    if type_name == "schemaorbool":
        if not isinstance(value, bool):
            raise DecodeError("boolean or JSON schema expected")
        return value
    if not isinstance(value, list):
        return None
    return [narrowed(_SCHEMA, item) if isinstance(item, dict) else item for item in value]


def _check_json(type_name: str, value: object) -> None:
    """Raise DecodeError for a value of a type that decodes itself from JSON."""
    if type_name == "bytes" and isinstance(value, str):
        try:
            converter(type_name)(value, [])
        except DecodeError as error:
            raise DecodeError(f"error decoding from json: {error}") from error
    if isinstance(value, str):
        return
    if type_name in ("time", "microtime"):
        raise DecodeError(json_type(value), "string")
    if type_name == "intorstring" and type(value) is not int:
        shown = f" {gotext.number(value)}" if isinstance(value, float) else ""
        raise DecodeError(f"{json_type(value)}{shown}", "int32")
    if isinstance(value, int) and not -(2**31) <= value < 2**31:
        raise DecodeError(f"number {value}", "int32")


def as_unstructured(obj: Json) -> Json:
    """Return the object as Go holds untyped JSON: a number is an int64 or a float64."""
    return {name: _as_unstructured(value) for name, value in obj.items()}


def _as_unstructured(value: object) -> object:
    if isinstance(value, dict):
        return as_unstructured(value)
    if isinstance(value, list):
        return [_as_unstructured(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and not _LOWEST <= value < -_LOWEST:
        return float(value)
    return value
