"""Durations as Go writes them: `1h15m`, `1.5s`, `-2ms`."""

from __future__ import annotations

import re
from typing import Final

from fakeapi.types import gotext

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
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([^\d.]*)")


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
    seconds = 0.0
    while rest:
        part = _PART.match(rest)
        if part is None:
            raise ValueError(f"time: invalid duration {shown}")
        number, unit = part.groups()
        if not unit:
            raise ValueError(f"time: missing unit in duration {shown}")
        if unit not in _UNITS_SECONDS:
            raise ValueError(f"time: unknown unit {gotext.quoted(unit)} in duration {shown}")
        seconds += float(number) * _UNITS_SECONDS[unit]
        rest = rest[part.end() :]
    return sign * seconds
