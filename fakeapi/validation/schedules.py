"""When CronJobs are due: whether a schedule and a time zone can be read, with upstream's words.

    minute hour day-of-month month day-of-week      each: * ? N A-B */S N/S A-B/S, with commas
    @yearly @annually @monthly @weekly @daily @midnight @hourly
    @every 1h30m

Source: parser.go of github.com/robfig/cron v3.0.1 and pkg/apis/batch/validation of Kubernetes
v1.36.3.
"""

from __future__ import annotations

import dataclasses
import re
import zoneinfo
from pathlib import Path
from typing import Final

from fakeapi.types import gotext

__all__ = ["schedule_problem", "time_zone_problems"]


@dataclasses.dataclass(frozen=True, slots=True)
class _Bounds:
    """What numbers a field may have, and how some are called, from the least on."""

    least: int
    most: int
    names: tuple[str, ...] = ()


_MONTHS: Final = (
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
)  # fmt: skip
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final = (
    _Bounds(0, 59),
    _Bounds(0, 23),
    _Bounds(1, 31),
    _Bounds(1, 12, _MONTHS),
    _Bounds(0, 6, _DAYS),
)
_DESCRIPTORS: Final = (
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
)
_EVERY: Final = "@every "
_INT64: Final = 2**63
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TERM: Final = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?P<unit>[^0-9.]*)", re.ASCII)
_UNITS_NANOSECONDS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6,
    "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}", re.ASCII)


def schedule_problem(schedule: str) -> str | None:
    """Why a schedule that is not empty cannot be read, None if it can."""
    try:
        _check(schedule)
    except ValueError as error:
        return str(error)
    return None


def _check(schedule: str) -> None:
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, space, rest = schedule.partition(" ")
        if not space:  # here upstream's parser panics
            raise ValueError(
                "invalid schedule format: runtime error: slice bounds out of range [:-1]"
            )
        name = zone.partition("=")[2]
        if problem := _location_problem(name):
            raise ValueError(f"provided bad location {name}: {problem}")
        schedule = rest.strip()
    if schedule.startswith("@"):
        _check_descriptor(schedule)
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        shown = " ".join(fields)
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{shown}]")
    for field, bounds in zip(fields, _FIELDS, strict=True):
        for expression in filter(None, field.split(",")):
            _check_range(expression, bounds)


def _check_descriptor(descriptor: str) -> None:
    if descriptor.startswith(_EVERY):
        if problem := _duration_problem(descriptor.removeprefix(_EVERY)):
            raise ValueError(f"failed to parse duration {descriptor}: time: {problem}")
    elif descriptor not in _DESCRIPTORS:
        raise ValueError(f"unrecognized descriptor: {descriptor}")


def _check_range(expression: str, bounds: _Bounds) -> None:
    numbers, *steps = expression.split("/")
    ends = numbers.split("-")
    if ends[0] in ("*", "?"):
        first, last = bounds.least, bounds.most
    else:
        first = last = _number(ends[0], bounds)
        if len(ends) > 2:
            raise ValueError(f"too many hyphens: {expression}")
        if len(ends) == 2:
            last = _number(ends[1], bounds)
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {expression}")
    step = _integer(steps[0]) if steps else 1
    if steps and len(ends) == 1:
        last = bounds.most
    if first < bounds.least:
        why = f"beginning of range ({first}) below minimum ({bounds.least})"
    elif last > bounds.most:
        why = f"end of range ({last}) above maximum ({bounds.most})"
    elif first > last:
        why = f"beginning of range ({first}) beyond end of range ({last})"
    elif step == 0:
        why = "step of range should be a positive number"
    else:
        return
    raise ValueError(f"{why}: {expression}")


def _number(value: str, bounds: _Bounds) -> int:
    if value.lower() in bounds.names:
        return bounds.least + bounds.names.index(value.lower())
    return _integer(value)


def _integer(value: str) -> int:
    """A number that is not negative, as Go's Atoi reads it."""
    why = "invalid syntax"
    if _NUMBER.fullmatch(value):
        number = int(value) if len(value) < 100 else _INT64
        if 0 <= number < _INT64:
            return number
        if -_INT64 <= number < 0:
            raise ValueError(f"negative number ({number}) not allowed: {value}")
        why = "value out of range"
    told = f"strconv.Atoi: parsing {gotext.quoted(value)}: {why}"
    raise ValueError(f"failed to parse int from {value}: {told}")


def _duration_problem(value: str) -> str | None:
    """Why it is none of Go's durations, None if it is one."""
    shown, rest = gotext.quoted(value), value[1:] if value[:1] in ("+", "-") else value
    invalid = f"invalid duration {shown}"
    if rest == "0":
        return None
    total_nanoseconds = 0
    while rest or not value.strip("+-"):
        found = _TERM.match(rest)
        if found is None or not (found["whole"] or found["part"]) or len(found["whole"]) > 99:
            return invalid
        if not found["unit"]:
            return f"missing unit in duration {shown}"
        if found["unit"] not in _UNITS_NANOSECONDS:
            return f"unknown unit {gotext.quoted(found['unit'])} in duration {shown}"
        total_nanoseconds += int(found["whole"] or 0) * _UNITS_NANOSECONDS[found["unit"]]
        rest = rest[found.end() :]
    return None if total_nanoseconds < _INT64 else invalid


def _location_problem(name: str) -> str | None:
    """Why there is no such time zone, in the words of Go's time.LoadLocation; None if there is."""
    if name in ("", "UTC", "Local"):
        return None
    if ".." in name or name[0] in "/\\":
        return "time: invalid location name"
    try:
        zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        if any(Path(path, name).is_dir() for path in zoneinfo.TZPATH):
            return "is a directory"
        # Where nobody has a list of time zones, none can be called unknown.
        return f"unknown time zone {name}" if _has_zones() else None
    return None


def _has_zones() -> bool:
    try:
        zoneinfo.ZoneInfo("Etc/UTC")
    except (KeyError, OSError):
        return False
    return True


def time_zone_problems(name: str) -> list[str]:
    """What is wrong with a CronJob's timeZone."""
    if not name:
        return ["timeZone must be nil or non-empty string"]
    for part in name.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            return [f"unknown time zone {name}"]
    found = [_location_problem(name)]
    if name.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        found.insert(0, why)
    return [problem for problem in found if problem]
