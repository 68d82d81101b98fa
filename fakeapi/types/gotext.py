"""Values as Go prints them in messages."""

from __future__ import annotations

import decimal
import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Floats from this power of ten on have an exponent.
_EXPONENT_FROM: Final = 6
_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n",
    "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


class _Letters(dict[int, str]):
    """Letters as %q prints them, by their codes; letters beyond ASCII are not kept."""

    def __missing__(self, code: int) -> str:
        return _quoted_letter(chr(code))


def quoted(value: str) -> str:
    """Return a string in quotes as %q prints it."""
    if value.isprintable():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return f'"{value.translate(_LETTERS)}"'


def _quoted_letter(letter: str) -> str:
    if letter in _ESCAPES or letter.isprintable():
        return _ESCAPES.get(letter, letter)
    code = ord(letter)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_LETTERS: Final = _Letters({code: _quoted_letter(chr(code)) for code in range(0x80)})


def plain(value: object) -> str:
    """Return a JSON value as %v prints it."""
    if isinstance(value, dict):
        pairs = (f"{plain(name)}:{plain(value[name])}" for name in sorted(value))
        return f"map[{' '.join(pairs)}]"
    if isinstance(value, list):
        return f"[{' '.join(plain(item) for item in value)}]"
    if isinstance(value, str):
        return str(value)  # a plain one, if it is of a kind of its own
    return _scalar(value)


def type_name(value: object) -> str:
    """Return the type of a JSON value as %T prints it."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    return "[]interface {}" if isinstance(value, list) else "map[string]interface {}"


def source(value: object) -> str:
    """Return a JSON value as %#v prints it: Go's source."""
    if isinstance(value, dict):
        pairs = (f"{quoted(str(name))}:{source(value[name])}" for name in sorted(value))
        return f"map[string]interface {{}}{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(source(item) for item in value)}}}"
    return quoted(value) if isinstance(value, str) else _scalar(value)


def _scalar(value: object) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number(value)
    return str(value)


def number(value: float) -> str:
    """Return a float as %v prints it: the fewest digits, an exponent from a million on."""
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    sign, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "a finite number has one"
    power = len(digits) + exponent - 1
    if -4 <= power < _EXPONENT_FROM:
        return f"{int(value)}" if exponent >= 0 else f"{value}"
    first, rest = str(digits[0]), "".join(map(str, digits[1:]))
    mantissa = f"{first}.{rest}" if rest else first
    return f"{'-' if sign else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02}"


def internal_package(group: str) -> str:
    """Return the name of the Go package of a group's internal types."""
    return "core" if group in ("", "events.k8s.io") else group.partition(".")[0]


def aggregated(errors: Iterable[str]) -> str:
    """Return Go's text of errors: a single error as it is, several in brackets, without repeats."""
    distinct = list(dict.fromkeys(errors))
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)
