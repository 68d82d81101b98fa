"""Durations as kubectl shows them: two or three significant figures.

Source: apimachinery pkg/util/duration/duration.go, HumanDuration.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.times import epoch_seconds

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


def age(timestamp: object, now_seconds: float) -> str:
    """How long ago a timestamp was; `<unknown>` if there is none."""
    if not isinstance(timestamp, str) or not timestamp:
        return "<unknown>"
    try:
        return human_duration(now_seconds - epoch_seconds(timestamp))
    except ValueError:
        return "<invalid>"


def human_duration(seconds: float) -> str:
    """A duration in seconds as text; two seconds in the future are taken for a skewed clock."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(seconds: int, unit: int, mark: str, smaller: int, smaller_mark: str) -> str:
    rest = seconds % unit // smaller
    return f"{seconds // unit}{mark}" + (f"{rest}{smaller_mark}" if rest else "")
