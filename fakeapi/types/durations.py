"""Durations in Go's form (`1h15m`, `1.5s`, `-2ms`), and in kubectl's (`5d3h`).

Source: Go's time.ParseDuration; apimachinery pkg/util/duration/duration.go, HumanDuration.
"""

from __future__ import annotations

import re
from typing import Final

from fakeapi.types import gotext
from fakeapi.types.times import epoch_seconds

_UNITS_SECONDS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "\u00b5s": 1e-6,  # micro sign
    "\u03bcs": 1e-6,  # Greek letter mu
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY
#: Go counts nanoseconds in 64 bits.
DURATION_SECONDS_MAX: Final = 2**63 / 1e9
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([^\d.]*)", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration. Raises ValueError with the text of Go's `ParseDuration`."""
    rest, shown = text, gotext.quoted(text)
    sign = -1.0 if rest.startswith("-") else 1.0
    if rest[:1] in ("-", "+"):
        rest = rest[1:]
    if rest == "0":
        return 0.0
    if not rest:
        raise ValueError(f"time: invalid duration {shown}")
    seconds, position = 0.0, 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None:
            raise ValueError(f"time: invalid duration {shown}")
        number, unit = part.groups()
        if not unit:
            raise ValueError(f"time: missing unit in duration {shown}")
        if unit not in _UNITS_SECONDS:
            raise ValueError(f"time: unknown unit {gotext.quoted(unit)} in duration {shown}")
        seconds += float(number) * _UNITS_SECONDS[unit]
        if seconds > DURATION_SECONDS_MAX:
            raise ValueError(f"time: invalid duration {shown}")
        position = part.end()
    return sign * seconds


def age(timestamp: object, now_seconds: float) -> str:
    """Return the time since a timestamp, `<unknown>` if there is none."""
    if not isinstance(timestamp, str) or not timestamp:
        return "<unknown>"
    try:
        return human_duration(now_seconds - epoch_seconds(timestamp))
    except ValueError:
        return "<invalid>"


def human_duration(seconds: float) -> str:
    """Return a duration with two or three significant figures.

    Up to two seconds below zero are 0s: the clocks may differ.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two_units(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two_units(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two_units(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two_units(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two_units(seconds: int, unit: int, mark: str, smaller: int, smaller_mark: str) -> str:
    rest = seconds % unit // smaller
    return f"{seconds // unit}{mark}" + (f"{rest}{smaller_mark}" if rest else "")
