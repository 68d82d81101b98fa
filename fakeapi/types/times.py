"""Timestamps as the API writes them: RFC 3339 in UTC, to the second or to the microsecond."""

from __future__ import annotations

import datetime
import functools
import math
import re

_CANONICAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").fullmatch
_CANONICAL_MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z").fullmatch
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII
).fullmatch
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_LAYOUT_MICRO = "2006-01-02T15:04:05.000000Z07:00"


def timestamp(epoch_seconds: float) -> str:
    """Return a metav1.Time in whole seconds, rounded down, for a time in epoch seconds."""
    return _stamp(int(epoch_seconds))


def micro_timestamp(epoch_seconds: float) -> str:
    """Return a metav1.MicroTime for a time in epoch seconds."""
    whole = math.floor(epoch_seconds)
    return f"{timestamp(whole)[:-1]}.{int((epoch_seconds - whole) * 1_000_000):06}Z"


@functools.lru_cache(maxsize=256)  # many writes happen in the same second
def _stamp(seconds: int) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch_seconds(value: str) -> float:
    """Return the time of a stored timestamp in epoch seconds."""
    return datetime.datetime.fromisoformat(value).timestamp()


def canonical_time(value: str) -> str:
    """Return a metav1.Time in its canonical form. Raises ValueError with Go's text."""
    if _CANONICAL(value):
        _moment(value, value, _LAYOUT)
        return value
    match = _RFC3339(value)
    if match is None:
        raise ValueError(f'parsing time "{value}" as "{_LAYOUT}": cannot parse "{value}" as "2006"')
    moment = _moment(f"{match[1]}{match[3]}", value, _LAYOUT)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def canonical_micro_time(value: str) -> str:
    """Return a metav1.MicroTime in its canonical form, with six digits of a second as upstream."""
    if _CANONICAL_MICRO(value):
        _moment(value, value, _LAYOUT_MICRO)
        return value
    match = _RFC3339(value)
    if match is None or len(match[2] or "") != 6:
        raise ValueError(
            f'parsing time "{value}" as "{_LAYOUT_MICRO}": cannot parse "{value[19:]}" as ".000000"'
        )
    moment = _moment(f"{match[1]}.{match[2]}{match[3]}", value, _LAYOUT_MICRO)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(iso: str, value: str, layout: str) -> datetime.datetime:
    """Return the moment of a timestamp of the right form. Raises ValueError with Go's text."""
    try:
        return datetime.datetime.fromisoformat(iso).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise ValueError(f'parsing time "{value}": out of range for layout "{layout}"') from None
