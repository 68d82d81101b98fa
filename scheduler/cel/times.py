"""Timestamps and durations of CEL. Functions that take a time zone are not built.

Source: cel-go `common/types/{timestamp,duration,overflow}.go`, v0.26; Go's `time.ParseDuration`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

from scheduler.api import duration
from scheduler.cel.errors import CelError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SECOND: Final = 10**9
_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d+))?(?:Z|([-+])(\d\d):(\d\d))", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: 0001-01-01T00:00:00Z and the second after 9999-12-31T23:59:59Z.
_FIRST_SECOND, _END_SECOND = -62135596800, 253402300800


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """`google.protobuf.Duration`."""

    nanos: int

    def __add__(self, other: Duration | Timestamp) -> Duration | Timestamp:
        if isinstance(other, Timestamp):
            return other + self
        return _duration(self.nanos + other.nanos)

    def __sub__(self, other: object) -> Duration:
        if not isinstance(other, Duration):
            return NotImplemented
        return _duration(self.nanos - other.nanos)

    def __str__(self) -> str:
        seconds = f"{self.nanos / _SECOND:.9f}".rstrip("0").rstrip(".")
        return f"{seconds}s"


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """`google.protobuf.Timestamp`: nanoseconds since 1970, shown with an offset from UTC."""

    nanos: int
    offset_minutes: int = field(default=0, compare=False)

    def __add__(self, other: object) -> Timestamp:
        if not isinstance(other, Duration):
            return NotImplemented
        return _timestamp(self.nanos + other.nanos, self.offset_minutes)

    def __sub__(self, other: Duration | Timestamp) -> Duration | Timestamp:
        if isinstance(other, Timestamp):
            return _duration(self.nanos - other.nanos)
        return _timestamp(self.nanos - other.nanos, self.offset_minutes)

    @property
    def in_utc(self) -> datetime:
        """The time to the second."""
        return _EPOCH + timedelta(seconds=self.nanos // _SECOND)

    def __str__(self) -> str:
        zone = timezone(timedelta(minutes=self.offset_minutes))
        text = self.in_utc.astimezone(zone).strftime("%H:%M:%S")
        date = self.in_utc.astimezone(zone).date().isoformat()
        fraction = f".{self.nanos % _SECOND:09}".rstrip("0").rstrip(".")
        offset = abs(self.offset_minutes)
        sign = "-" if self.offset_minutes < 0 else "+"
        shown = f"{sign}{offset // 60:02}:{offset % 60:02}" if offset else "Z"
        return f"{date}T{text}{fraction}{shown}"


def _duration(nanos: int) -> Duration:
    if not -(2**63) <= nanos < 2**63:
        raise CelError("integer overflow")
    return Duration(nanos)


def _timestamp(nanos: int, offset_minutes: int = 0) -> Timestamp:
    if not _FIRST_SECOND <= nanos // _SECOND < _END_SECOND:
        raise CelError("timestamp overflow")
    return Timestamp(nanos, offset_minutes)


def parse_duration(text: str) -> Duration:
    """Parse a duration as Go does; raises `CelError`."""
    try:
        return _duration(duration.Duration.parse(text).nanoseconds)
    except ValueError as error:
        message = "type conversion error from 'string' to 'google.protobuf.Duration'"
        raise CelError(message) from error


def parse_timestamp(text: str) -> Timestamp:
    """Parse a time in the format of RFC 3339; raises `CelError`."""
    match = _TIMESTAMP.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        seconds = (datetime.fromisoformat(f"{match[1]}+00:00") - _EPOCH).total_seconds()
    except ValueError as error:
        message = "type conversion error from 'string' to 'google.protobuf.Timestamp'"
        raise CelError(message) from error
    offset = int(match[4] or 0) * 60 + int(match[5] or 0)
    offset = -offset if match[3] == "-" else offset
    nanos = (int(seconds) - offset * 60) * _SECOND + int(f"{match[2] or '':0<9}"[:9])
    return _timestamp(nanos, offset)


def _to_timestamp(value: Timestamp | int | str) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    return parse_timestamp(value) if isinstance(value, str) else _timestamp(value * _SECOND)


def _to_duration(value: Duration | int | str) -> Duration:
    if isinstance(value, Duration):
        return value
    if isinstance(value, str):
        return parse_duration(value)
    # Declared, but not built in cel-go either.
    raise CelError("type conversion error from 'int' to 'google.protobuf.Duration'")


def to_int(value: Timestamp | Duration) -> int:
    """Return a timestamp in seconds since 1970, a duration in nanoseconds."""
    return value.nanos // _SECOND if isinstance(value, Timestamp) else value.nanos


#: By method: the part of a time in UTC.
_PARTS: Final[Mapping[str, Callable[[datetime], int]]] = {
    "getFullYear": lambda time: time.year,
    "getMonth": lambda time: time.month - 1,
    "getDate": lambda time: time.day,
    "getDayOfMonth": lambda time: time.day - 1,
    "getDayOfWeek": lambda time: time.isoweekday() % 7,
    "getDayOfYear": lambda time: time.timetuple().tm_yday - 1,
}
#: By method: the unit in nanoseconds, and how many of it make the next larger one.
_CLOCK: Final[Mapping[str, tuple[int, int]]] = {
    "getHours": (3600 * _SECOND, 24),
    "getMinutes": (60 * _SECOND, 60),
    "getSeconds": (_SECOND, 60),
    "getMilliseconds": (10**6, 1000),
}


def _part(of: Callable[[datetime], int]) -> Callable[[Timestamp], int]:
    return lambda time: of(time.in_utc)


def _clock(unit: int, count: int) -> Callable[[Timestamp | Duration], int]:
    def get(time: Timestamp | Duration) -> int:
        if isinstance(time, Timestamp):
            return time.nanos // unit % count
        return -(-time.nanos // unit) if time.nanos < 0 else time.nanos // unit

    return get


FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "timestamp": _to_timestamp,
    "duration": _to_duration,
    **{name: _part(of) for name, of in _PARTS.items()},
    **{name: _clock(*parts) for name, parts in _CLOCK.items()},
}
