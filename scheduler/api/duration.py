"""Durations in Go's notation: `15s`, `1h30m0s`, `1.5s`, `100ms`.

A duration is a whole number of nanoseconds, as in Go, so that it is written as it was read.
Source: Go `time/format.go` (`ParseDuration`), `time/time.go` (`String`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api.field import quoted
from scheduler.api.quantity import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

_MICROSECOND: Final = 1_000
#: Units in nanoseconds.
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
_HOUR: Final = 60 * MINUTE

_UNITS: Final[Mapping[str, int]] = {
    "ns": 1,
    "us": _MICROSECOND,
    "\u00b5s": _MICROSECOND,  # the micro sign
    "\u03bcs": _MICROSECOND,  # the Greek letter
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": _HOUR,
}

#: A number and its unit. Either may be missing, so that the error can name which.
_TERM: Final = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>[^0-9.]*)")

#: Go ignores the digits of a fraction after these.
_FRACTION_DIGITS_MAX: Final = 18


class Duration(msgspec.Struct, frozen=True, order=True):
    """A span of time in nanoseconds, possibly negative."""

    nanoseconds: int = 0

    @staticmethod
    def parse(text: str) -> Duration:
        """Parse numbers with units, one after another, or a bare `0`.

        Raises `ValueError` with Go's text.
        """
        digits = text[1:] if text[:1] in ("+", "-") else text
        if digits == "0":
            return Duration()
        if not digits:
            raise _invalid(text)
        total = position = 0
        while position < len(digits):
            term = _TERM.match(digits, position)
            if term is None or not (term["whole"] or term["fraction"]):
                raise _invalid(text)
            total += _nanoseconds(term, text)
            position = term.end()
        negative = text.startswith("-")
        if total > INT64_MAX + negative:
            raise _invalid(text)
        return Duration(-total if negative else total)

    @property
    def seconds(self) -> float:
        return self.nanoseconds / SECOND

    def __str__(self) -> str:
        sign = "-" if self.nanoseconds < 0 else ""
        return sign + _magnitude(abs(self.nanoseconds))

    def __bool__(self) -> bool:
        """True if it is not zero; zero means "not set" in a configuration file."""
        return self.nanoseconds != 0


def _nanoseconds(term: re.Match[str], text: str) -> int:
    unit = term["unit"]
    if not unit:
        raise ValueError(f"time: missing unit in duration {quoted(text)}")
    if unit not in _UNITS:
        raise ValueError(f"time: unknown unit {quoted(unit)} in duration {quoted(text)}")
    if len(term["whole"].lstrip("0")) > len(str(INT64_MAX)):
        raise _invalid(text)
    nanoseconds = int(term["whole"] or "0") * _UNITS[unit]
    if fraction := (term["fraction"] or "")[:_FRACTION_DIGITS_MAX]:
        # Go multiplies floats and truncates to nanoseconds; so the result is the same.
        nanoseconds += int(int(fraction) * (_UNITS[unit] / 10 ** len(fraction)))
    return nanoseconds


def _magnitude(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    if nanoseconds < SECOND:
        for unit, size in (("ns", 1), ("\u00b5s", _MICROSECOND), ("ms", MILLISECOND)):
            if nanoseconds < size * 1000:
                return _decimal(nanoseconds, size) + unit
    hours, rest = divmod(nanoseconds, _HOUR)
    minutes, rest = divmod(rest, MINUTE)
    seconds = _decimal(rest, SECOND) + "s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _decimal(nanoseconds: int, unit: int) -> str:
    whole, rest = divmod(nanoseconds, unit)
    if not rest:
        return str(whole)
    fraction = str(rest).zfill(len(str(unit)) - 1).rstrip("0")
    return f"{whole}.{fraction}"


def _invalid(text: str) -> ValueError:
    return ValueError(f"time: invalid duration {quoted(text)}")
