"""Formats of strings and numbers in schemas of custom resources; unknown formats are ignored.

Source: kube-openapi pkg/validation/strfmt and apiextensions-apiserver
pkg/apiserver/validation/formats.go of v0.36.3.
"""

from __future__ import annotations

import base64
import datetime
import email.utils
import ipaddress
import re
import urllib.parse
from typing import TYPE_CHECKING, Final

from fakeapi.types import names
from fakeapi.types.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

_HEX: Final = "[0-9a-fA-F]"
_UUID: Final = f"{_HEX}{{8}}-?{_HEX}{{4}}-?%s{_HEX}{{3}}-?%s{_HEX}{{3}}-?{_HEX}{{12}}"
_DATE_TIME: Final = re.compile(
    r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"
)
_WORDED_DURATION: Final = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
#: Seconds of a unit, and its names; a word that begins with the last name has the unit, too.
_UNITS: Final[tuple[tuple[float, tuple[str, ...]], ...]] = (
    (1e-9, ("ns", "nano")), (1e-6, ("us", "µs", "micro")), (1e-3, ("ms", "milli")),
    (1, ("s", "sec")), (60, ("m", "min")), (3600, ("h", "hr", "hour")), (86400, ("d", "day")),
    (604800, ("w", "wk", "week")),
)  # fmt: skip
#: One label with at most one dash, or several labels, the last of letters only.
_HOST: Final = re.compile(
    r"[^\W_](?:-?[^\W_]{0,62})?|(?:[^\W_](?:(?:[^\W_]|-){0,61}[^\W_])?\.)+[^\W\d_]{2,63}"
)
_CARD: Final = re.compile(
    r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|(?:2131|1800|35\d{3})\d{11}"
)


def _matching(pattern: str) -> Callable[[str], bool]:
    match = re.compile(pattern, re.ASCII).fullmatch
    return lambda value: match(value) is not None


def _is_address(version: int) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        try:
            return ipaddress.ip_address(value).version == version
        except ValueError:
            return False

    return check


def _is_cidr(value: str) -> bool:
    try:
        ipaddress.ip_interface(value)
    except ValueError:
        return False
    return "/" in value


def _is_date(value: str) -> bool:
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return False
    return len(value) == len("2006-01-02")


def _is_date_time(value: str) -> bool:
    date, separator, time = value.lower().partition("t")
    found = _DATE_TIME.match(time)
    if not separator or not _is_date(date) or found is None:
        return False
    return found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def duration_seconds(value: str) -> float:
    """Parse a duration of Go's form, or of numbers and words (`3 weeks`). Raises ValueError."""
    try:
        return parse_duration(value)
    except ValueError:
        found = [
            int(number) * seconds
            for number, word in _WORDED_DURATION.findall(value.lower())
            for seconds, names_of_unit in _UNITS
            if word in names_of_unit or word.startswith(names_of_unit[-1])
        ]
        if not found:
            raise
        return sum(found)


def _is_duration(value: str) -> bool:
    try:
        duration_seconds(value)
    except ValueError:
        return False
    return True


def _is_email(value: str) -> bool:
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


def _is_hostname(value: str) -> bool:
    short_enough = len(value) <= 255 and all(len(part) <= 63 for part in value.split("."))
    return short_enough and _HOST.fullmatch(value) is not None


def _is_base64(value: str) -> bool:
    try:
        return bool(base64.b64decode(value, validate=True))
    except ValueError:
        return False


def _is_card(value: str) -> bool:
    digits = re.sub(r"\D", "", value)
    if not _CARD.fullmatch(digits):
        return False
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    total = sum(map(int, digits[-1::-2])) + sum(number // 10 + number % 10 for number in doubled)
    return total % 10 == 0


def _is_isbn10(value: str) -> bool:
    digits = re.sub(r"[\s-]", "", value)
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    numbers = [10 if digit == "X" else int(digit) for digit in digits]
    return sum(place * number for place, number in enumerate(numbers, 1)) % 11 == 0


def _is_isbn13(value: str) -> bool:
    digits = re.sub(r"[\s-]", "", value)
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10 == 0


#: Checks of strings by the names of formats, without dashes.
_STRINGS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matching(f"{_HEX}{{24}}"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_address(4),
    "ipv6": _is_address(6),
    "cidr": _is_cidr,
    "mac": _matching(
        f"(?:{_HEX}{{2}}([:-])(?:{_HEX}{{2}}\\1){{4}}{_HEX}{{2}})|(?:{_HEX}{{4}}\\.){{2}}{_HEX}{{4}}"
    ),
    "uuid": _matching(_UUID % (_HEX, _HEX)),
    "uuid3": _matching(_UUID % ("3", _HEX)),
    "uuid4": _matching(_UUID % ("4", "[89abAB]")),
    "uuid5": _matching(_UUID % ("5", "[89abAB]")),
    "isbn": lambda value: _is_isbn10(value) or _is_isbn13(value),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_card,
    "ssn": _matching(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matching(f"#?(?:{_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _matching(
        r"rgb\(\s*(?:(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*(?:,\s*(?!\))|(?=\)))){3}\)"
    ),
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
    """True if the string has the format, or the format is not one of strings."""
    check = _STRINGS.get(format_name.replace("-", ""))
    return check is None or check(value)
