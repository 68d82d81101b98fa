"""What a bare word in YAML means: a number, a truth value, nothing, or text.

Upstream reads YAML 1.1 through go-yaml, whose dialect is its own: `yes`, `on` and `y` are true,
`010` is eight, `0o17` and `1e3` are numbers, dates and `1:30` are text. PyYAML answers differently
in half of these, so a file could mean one thing there and another here; hence this table.
Source: go-yaml v2 `resolve.go`, `encode.go`.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES"), True),
    **dict.fromkeys(("true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO"), False),
    **dict.fromkeys(("false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_INFINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NOT_A_NUMBER: Final = re.compile(r"\.(nan|NaN|NAN)")
_FIRST_OF_NUMBER: Final = frozenset("+-.0123456789")
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)"
    r"|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES: Final = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
#: An integer longer than this fits no 64 bits, and is read as a float.
_INTEGER_LENGTH_MAX: Final = 70
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
#: Base 60 is text here, but written in quotes for the sake of readers that think otherwise.
_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
#: What looks like a date is text as well, in quotes for the same reason.
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?")

_UINT64_MAX: Final = 2**64 - 1
_INT64_MIN: Final = -(2**63)
#: From here on a float is no integer, whatever its fraction.
_WHOLE_FLOAT_MAX: Final = 2.0**63
#: The powers of ten at which Go's format `g` needs no exponent.
_PLAIN_EXPONENTS: Final = range(-4, 6)


def resolve_scalar(text: str) -> str | int | float | bool | None:
    """The value of a plain (unquoted) scalar. A float without a fraction comes back as an integer.

    Infinities and NaN come back as floats; JSON has no place for them.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _FIRST_OF_NUMBER:
        return text
    if _INFINITE.fullmatch(text) or _NOT_A_NUMBER.fullmatch(text):
        return float(text.replace(".", ""))
    plain = text if text.startswith(".") else text.replace("_", "")
    if (integer := _integer(plain)) is not None:
        return integer
    if not _FLOAT.fullmatch(plain):
        return text
    number = float(plain)
    if math.isinf(number):
        return text
    return int(number) if _is_whole(number) else number


def needs_quotes(text: str) -> bool:
    """Whether a text, written bare, would be read as something else by some YAML reader."""
    if not isinstance(resolve_scalar(text), str):
        return True
    return _BASE_60.fullmatch(text) is not None or _DATE.fullmatch(text) is not None


def float_text(number: float) -> str:
    """A float as Go writes it in YAML: the shortest text that reads back the same."""
    if _is_whole(number):
        return str(int(number))
    exact = Decimal(repr(number))
    exponent = exact.adjusted()
    if exponent in _PLAIN_EXPONENTS:
        return format(exact, "f")
    digits = "".join(map(str, exact.normalize().as_tuple().digits))
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{'-' if number < 0 else ''}{digits[0]}{fraction}e{exponent:+03d}"


def _is_whole(number: float) -> bool:
    return number.is_integer() and abs(number) < _WHOLE_FLOAT_MAX


def _integer(text: str) -> int | None:
    match = _INTEGER.fullmatch(text)
    if match is None or len(text) > _INTEGER_LENGTH_MAX:
        return None
    kind = match.lastgroup
    assert kind is not None
    number = int(match["sign"] + match[kind], _BASES[kind])
    return number if _INT64_MIN <= number <= _UINT64_MAX else None
