"""Formats of strings and numbers in schemas of custom resources; unknown formats are ignored.

These formats of upstream are unknown here: bsonobjectid, creditcard, hexcolor, isbn, isbn10,
isbn13, rgbcolor, ssn. A definition with such a format gets the warning of an unknown format.

Source: kube-openapi pkg/validation/strfmt and apiextensions-apiserver
pkg/apiserver/validation/formats.go of v0.36.3.
"""

from __future__ import annotations

import base64
import datetime
import email.utils
import functools
import re
import urllib.parse
from typing import TYPE_CHECKING, Final

from fakeapi.cel import patterns
from fakeapi.types import names
from fakeapi.types.addresses import is_network, version_of
from fakeapi.types.durations import DURATION_SECONDS_MAX, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

_DATE_TIME: Final = patterns.go(
    "([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})"
)
#: Nothing is tried twice (`++`, and no start within a number), so a search takes linear time.
_WORDED_DURATION: Final = re.compile(r"(?<![0-9])([0-9]++)\s*+([a-zµ]++)")
_DURATION_LENGTH_MAX: Final = 1000
_NUMBER_DIGITS_MAX: Final = 18
#: Seconds of a unit, and its names; a word that begins with the last name has the unit, too.
_UNITS: Final[tuple[tuple[float, tuple[str, ...]], ...]] = (
    (1e-9, ("ns", "nano")), (1e-6, ("us", "µs", "micro")), (1e-3, ("ms", "milli")),
    (1, ("s", "sec")), (60, ("m", "min")), (3600, ("h", "hr", "hour")), (86400, ("d", "day")),
    (604800, ("w", "wk", "week")),
)  # fmt: skip
_LETTER: Final = r"[\pL\pN]"
_HEX: Final = "[0-9a-fA-F]"
_UUID: Final = f"{_HEX}{{8}}-?{_HEX}{{4}}-?%s{_HEX}{{3}}-?%s{_HEX}{{3}}-?{_HEX}{{12}}"
#: Of RFC 5321: a local part, at, and a domain.
_EMAIL_LENGTH_MAX: Final = 64 + 1 + 255
_HOSTNAME_LENGTH_MAX: Final = 255
_LABEL_LENGTH_MAX: Final = 63


def _matching(pattern: str) -> Callable[[str], bool]:
    compiled = functools.cache(patterns.go)  # by the first value: RE2 needs a tenth of a second
    return lambda value: bool(compiled(pattern).fullmatch(value))


def _is_date(value: str) -> bool:
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return False
    return len(value) == len("2006-01-02")


def _is_date_time(value: str) -> bool:
    date, separator, time = value.lower().partition("t")
    match = _DATE_TIME.fullmatch(time)
    if not separator or not _is_date(date) or match is None:
        return False
    return bool(match[1] <= "23" and match[2] <= "59" and match[3] <= "59")


def duration_seconds(value: str) -> float:
    """Parse a duration of Go's form, or of numbers and words (`3 weeks`). Raises ValueError."""
    if len(value) > _DURATION_LENGTH_MAX:
        raise ValueError("time: invalid duration: too long")
    try:
        return parse_duration(value)
    except ValueError:
        parts = [
            int(number) * seconds
            for number, word in _WORDED_DURATION.findall(value.lower())
            for seconds, names_of_unit in _UNITS
            if word in names_of_unit or word.startswith(names_of_unit[-1])
            if len(number) <= _NUMBER_DIGITS_MAX
        ]
        if not parts or sum(parts) > DURATION_SECONDS_MAX:
            raise
        return sum(parts)


def _is_duration(value: str) -> bool:
    try:
        duration_seconds(value)
    except ValueError:
        return False
    return True


def _is_email(value: str) -> bool:
    if len(value) > _EMAIL_LENGTH_MAX:  # Python's parser recurses and is quadratic
        return False
    _, address = email.utils.parseaddr(value)
    name, at, host = address.rpartition("@")
    return bool(at and name and host) and " " not in address


def _is_uri(value: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(value)
    except ValueError:
        return False
    has_space = any(character.isspace() for character in value)
    return not has_space and (bool(parts.scheme) or value.startswith("/"))


#: One label with at most one dash, or several labels, the last of letters only.
_is_host: Final = _matching(
    f"{_LETTER}(?:-?{_LETTER}{{0,62}})?"
    f"|(?:{_LETTER}(?:(?:{_LETTER}|-){{0,61}}{_LETTER})?\\.)+\\pL{{2,63}}"
)


def _is_hostname(value: str) -> bool:
    if len(value) > _HOSTNAME_LENGTH_MAX:
        return False
    return all(len(part) <= _LABEL_LENGTH_MAX for part in value.split(".")) and _is_host(value)


def _is_base64(value: str) -> bool:
    try:
        return bool(base64.b64decode(value, validate=True))
    except ValueError:
        return False


#: Checks of strings by the names of formats, without dashes.
_STRINGS: Final[dict[str, Callable[[str], bool]]] = {
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": lambda value: version_of(value) == 4,
    "ipv6": lambda value: version_of(value) == 6,
    "cidr": is_network,
    "mac": _matching(
        f"(?:{_HEX}{{2}}:){{5}}{_HEX}{{2}}|(?:{_HEX}{{2}}-){{5}}{_HEX}{{2}}"
        f"|(?:{_HEX}{{4}}\\.){{2}}{_HEX}{{4}}"
    ),
    "uuid": _matching(_UUID % (_HEX, _HEX)),
    "uuid3": _matching(_UUID % ("3", _HEX)),
    "uuid4": _matching(_UUID % ("4", "[89abAB]")),
    "uuid5": _matching(_UUID % ("5", "[89abAB]")),
    "byte": _is_base64,
    "password": lambda _: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": lambda value: not names.dns_label(value),
    "k8slongname": lambda value: not names.dns_subdomain(value),
}
_NUMBERS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


def is_known(format_name: str, type_name: str) -> bool:
    """True if the format is enforced for values of that type."""
    if type_name in ("", "string"):
        return format_name.replace("-", "") in _STRINGS
    return format_name in _NUMBERS.get(type_name, ())


def matches(format_name: str, value: str) -> bool:
    """True if the string has the format, or the format is not a format of strings."""
    check = _STRINGS.get(format_name.replace("-", ""))
    return check is None or check(value)
