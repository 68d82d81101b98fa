"""sprig's functions, with the time and the chance of the server; and which of them are not here."""

from __future__ import annotations

import datetime
import re
import string
import uuid
from typing import TYPE_CHECKING, Final

from fakeapi.actors.templates.functions import Function, FunctionError, function
from fakeapi.actors.templates.sprig_text import TEXT_FUNCTIONS
from fakeapi.actors.templates.sprig_values import VALUE_FUNCTIONS, integer_of
from fakeapi.types.durations import parse_duration

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from fakeapi.clock import Clock

__all__ = ["NOT_OFFERED", "sprig_functions"]

_KEYS: Final = "keys and certificates are not made here"
_OUTSIDE: Final = "templates do not look outside the cluster"
#: Functions of sprig that templates here cannot use, and why.
NOT_OFFERED: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "bcrypt", "buildCustomCert", "decryptAES", "derivePassword", "encryptAES", "genCA",
            "genCAWithKey", "genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey",
            "genSignedCert", "genSignedCertWithKey", "htpasswd", "randBytes",
        ),
        _KEYS,
    ),
    **dict.fromkeys(("env", "expandenv", "getHostByName"), _OUTSIDE),
    **dict.fromkeys(
        ("abbrevboth", "durationRound", "semver", "semverCompare", "shuffle", "urlJoin",
         "urlParse", "wrap", "wrapWith", "toDate", "mustToDate"),
        "it is not implemented",
    ),
}  # fmt: skip
_LAYOUT: Final = re.compile(
    r"January|Jan|Monday|Mon|MST|2006|-07:00|-0700|-07|Z07:00|Z0700|01|02|03|04|05|06|15|PM|pm"
    r"|_2|[.,]0+|[.,]9+|1|2|3|4|5"
)
_FORMATS: Final = {
    "January": "%B", "Jan": "%b", "Monday": "%A", "Mon": "%a", "2006": "%Y", "01": "%m",
    "02": "%d", "03": "%I", "04": "%M", "05": "%S", "06": "%y", "15": "%H", "PM": "%p",
}  # fmt: skip
_ZONES: Final = {"MST": "UTC", "-07:00": "+00:00", "-0700": "+0000", "-07": "+00"}


class _Time(datetime.datetime):
    """A time.Time, always in UTC."""

    def __str__(self) -> str:
        return f"{_formatted('2006-01-02 15:04:05.999999', self)} +0000 UTC"


def _formatted(layout: str, when: datetime.datetime) -> str:
    """A time as Go's layouts have it."""

    def part(found: re.Match[str]) -> str:
        token = found[0]
        if token in _FORMATS:
            return when.strftime(_FORMATS[token])
        if token in _ZONES:
            return _ZONES[token]
        if token[0] in ".,":
            digits = f"{when.microsecond:06}000"[: len(token) - 1]
            kept = digits if token[1] == "0" else digits.rstrip("0")
            return token[0] + kept if kept else ""
        if token == "pm":
            return when.strftime("%p").lower()
        if token == "_2":
            return f"{when.day:2}"
        plain = {"1": when.month, "2": when.day, "3": when.hour % 12 or 12, "4": when.minute}
        return "Z" if token[0] == "Z" else str(plain.get(token, when.second))

    return _LAYOUT.sub(part, layout)


def sprig_functions(clock: Clock, chance: random.Random) -> dict[str, Function]:
    """All of sprig's functions that are here, on that clock and with that chance."""
    functions = {**TEXT_FUNCTIONS, **VALUE_FUNCTIONS, **_dates(clock), **_random(chance)}
    return {name: function(name, call) for name, call in functions.items()}


def _dates(clock: Clock) -> dict[str, Callable[..., object]]:
    def now() -> object:
        return _Time.fromtimestamp(clock.now(), datetime.UTC)

    def moment(value: object) -> datetime.datetime:
        if isinstance(value, int) and not isinstance(value, bool):
            return _Time.fromtimestamp(value, datetime.UTC)
        return value if isinstance(value, _Time) else _Time.fromtimestamp(clock.now(), datetime.UTC)

    def date(layout: str, value: object) -> str:
        return _formatted(layout, moment(value))

    def date_in_zone(layout: str, value: object, zone: str) -> str:
        if zone not in ("", "UTC", "Local"):
            raise FunctionError(f"{zone}: every time here is in UTC")
        return _formatted(layout, moment(value))

    def html_date(value: object) -> str:
        return _formatted("2006-01-02", moment(value))

    def date_modify(change: str, value: object) -> object:
        seconds = duration_seconds(change)
        when = moment(value)
        return when if seconds is None else when + datetime.timedelta(seconds=seconds)

    def unix_epoch(value: object) -> str:
        return str(int(moment(value).timestamp()))

    def ago(value: object) -> str:
        return duration_text(round(clock.now() - moment(value).timestamp()))

    def duration(seconds: object) -> str:
        return duration_text(integer_of(seconds))

    return {
        "ago": ago, "date": date, "dateInZone": date_in_zone, "date_in_zone": date_in_zone,
        "dateModify": date_modify, "date_modify": date_modify, "duration": duration,
        "htmlDate": html_date, "mustDateModify": date_modify, "must_date_modify": date_modify,
        "now": now, "unixEpoch": unix_epoch,
    }  # fmt: skip


def _random(chance: random.Random) -> dict[str, Callable[..., object]]:
    def of(letters: str) -> Callable[[int], str]:
        def chosen(count: int) -> str:
            return "".join(chance.choice(letters) for _ in range(min(count, 10_000)))

        return chosen

    def integer(low: int, high: int) -> int:
        if high <= low:
            raise FunctionError("invalid argument to Intn")
        return chance.randrange(low, high)

    def uuid_text() -> str:
        return str(uuid.UUID(int=chance.getrandbits(128), version=4))

    return {
        "randAlpha": of(string.ascii_letters),
        "randAlphaNum": of(string.ascii_letters + string.digits),
        "randAscii": of("".join(map(chr, range(32, 127)))),
        "randInt": integer,
        "randNumeric": of(string.digits),
        "uuidv4": uuid_text,
    }


def duration_seconds(text: str) -> float | None:
    """Return the seconds of a duration; None if Go's `ParseDuration` refuses it."""
    try:
        return parse_duration(text)
    except ValueError:
        return None


def duration_text(seconds: int) -> str:
    """Whole seconds as Go shows a time.Duration."""
    hours, rest = divmod(abs(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    shown = f"{hours}h" if hours else ""
    shown += f"{minutes}m" if hours or minutes else ""
    return f"{'-' if seconds < 0 else ''}{shown}{rest}s"
