"""Parse numbers and truth values as Go's package strconv does, with its error texts."""

from __future__ import annotations

import math
import re
import struct
from typing import TYPE_CHECKING, Final

from scheduler.api.field import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

_BOOLEANS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>(?:_?[0-9a-fA-F])+)|0[bB](?P<binary>(?:_?[01])+)"
    r"|0[oO]?(?P<octal>(?:_?[0-7])+)|(?P<decimal>0|[1-9](?:_?[0-9])*))"
)
_BASES: Final[Mapping[str, int]] = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
#: Digits of an integer that are read: Python refuses thousands, and 64 bits have fewer.
_DIGITS_MAX: Final = 70


def parse_bool(text: str) -> bool:
    """Parse a truth value. Raises ValueError."""
    if text not in _BOOLEANS:
        raise _invalid("ParseBool", text)
    return _BOOLEANS[text]


def go_bool(value: object) -> str:
    """Return a truth value as Go writes it."""
    return "true" if value else "false"


def go_integer(text: str) -> int | None:
    """Return the value of an integer literal of Go, with a sign if there is one; else None."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    base, digits = next((base, match[base]) for base in _BASES if match[base])
    plain = digits.replace("_", "").lstrip("0")[:_DIGITS_MAX]
    return int(f"{match['sign']}{plain or 0}", _BASES[base])


def parse_int(text: str, *, bits: int) -> int:
    """Parse a literal of a signed integer of `bits` bits. Raises ValueError."""
    number = go_integer(text)
    if number is None:
        raise _invalid("ParseInt", text)
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise _out_of_range("ParseInt", text)
    return number


def parse_float32(text: str) -> float:
    """Parse a number of 32 bits; return the shortest decimal number with that value.

    Raises ValueError.
    """
    try:
        if text != text.strip() or not text.isascii():
            raise ValueError
        exact = float(text)
        if math.isinf(exact) and "inf" not in text.lower():
            raise OverflowError
        number = struct.unpack("f", struct.pack("f", exact))[0]
    except OverflowError:
        raise _out_of_range("ParseFloat", text) from None
    except ValueError:
        raise _invalid("ParseFloat", text) from None
    shortened = (float(f"{number:.{digits}g}") for digits in range(1, 10))
    return next(
        (short for short in shortened if struct.pack("f", short) == struct.pack("f", number)),
        float(number),
    )


def _invalid(function: str, text: str) -> ValueError:
    return ValueError(f"strconv.{function}: parsing {quoted(text)}: invalid syntax")


def _out_of_range(function: str, text: str) -> ValueError:
    return ValueError(f"strconv.{function}: parsing {quoted(text)}: value out of range")
