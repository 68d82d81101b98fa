"""Durations in Go's form (`1h15m`, `1.5s`, `-2ms`), and in kubectl's (`5d3h`).

Source: Go's time.ParseDuration; apimachinery pkg/util/duration/duration.go, HumanDuration.
"""

from __future__ import annotations

import math
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
#: The form of a duration below the first number: its unit, and perhaps a smaller one for the rest.
_FORMS: Final = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (math.inf, _YEAR, "y", 0, ""),
)
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
    whole = max(whole, 0)
    _, unit, mark, smaller, smaller_mark = next(form for form in _FORMS if whole < form[0])
    rest = whole % unit // smaller if smaller else 0
    return f"{whole // unit}{mark}" + (f"{rest}{smaller_mark}" if rest else "")
