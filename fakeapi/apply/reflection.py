"""What becomes of an applied object's numbers: upstream converts it by reflection, not from JSON.

Where a decoder of JSON refuses an integer that its field cannot hold, Go's conversion drops the
upper bits, and no error tells of it. Numbers that no int64 holds are floats before that.

Source: fromUnstructured in apimachinery pkg/runtime/converter.go of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..schema import DecodeError, fields_of

if TYPE_CHECKING:
    from ..objects import Json

__all__ = ["as_unstructured", "narrowed"]

_BITS: Final = {"int32": 32, "int64": 64, "int": 64}
_LOWEST: Final = -(2**63)


def narrowed(type_name: str, obj: Json) -> Json:
    """The object with each integer as its field holds it. Raises DecodeError for a fraction."""
    fields = fields_of(type_name)
    return {
        name: _narrowed(fields[name].type, value) if name in fields else value
        for name, value in obj.items()
    }


def _narrowed(type_name: str, value: object) -> object:
    if isinstance(value, dict):
        if type_name.startswith("{}"):
            return {name: _narrowed(type_name[2:], item) for name, item in value.items()}
        return narrowed(type_name, value)
    if isinstance(value, list) and type_name.startswith("[]"):
        return [_narrowed(type_name[2:], item) for item in value]
    bits = _BITS.get(type_name)
    if bits is None or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, float):
        if not value.is_integer():
            raise DecodeError(f"cannot convert float64 to {type_name}")
        # What a processor makes of a float that is too large for its widest integer.
        value = int(value) if _LOWEST <= value < -_LOWEST else _LOWEST
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def as_unstructured(obj: Json) -> Json:
    """The object as Go holds JSON whose types are not known: a number is an int64 or a float64."""
    return {name: _as_unstructured(value) for name, value in obj.items()}


def _as_unstructured(value: object) -> object:
    if isinstance(value, dict):
        return as_unstructured(value)
    if isinstance(value, list):
        return [_as_unstructured(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and not _LOWEST <= value < -_LOWEST:
        return float(value)
    return value
