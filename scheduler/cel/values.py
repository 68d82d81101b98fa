"""Values of CEL that Python has no type for, and the rules that hold for all values.

Numbers are `int`, `UInt` and `float`; lists are Python's, maps are dictionaries. Source: cel-go
`common/types`, v0.26; `k8s.io/apiserver/pkg/cel/{quantity,semver}.go`; `blang/semver/v4`.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from scheduler.api.quantity import parse_quantity
from scheduler.cel.errors import CelError, no_such_overload
from scheduler.cel.network import CIDR, IP
from scheduler.cel.syntax import UInt
from scheduler.cel.times import Duration, Timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

_NUMBERS: Final = (int, float)
_UINT64_MAX: Final = 2**64 - 1


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """`kubernetes.Quantity`: an exact amount in nano-units."""

    nanos: int


class DefaultMap(dict[str, object]):
    """A map in which the lookup of a missing key finds an empty map."""


class Optional(NamedTuple):
    """An optional value; empty unless `is_set`."""

    value: object = None
    is_set: bool = False


@functools.total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """`kubernetes.Semver`: a semantic version. Build metadata does not count in comparisons."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...] = ()
    build: tuple[str, ...] = ()

    @property
    def _rank(self) -> tuple[object, ...]:
        # A version without prerelease is greater than one with it, numbers are less than texts.
        ranks = tuple((isinstance(p, str), p) for p in self.prerelease)
        return self.major, self.minor, self.patch, not self.prerelease, ranks

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._rank == other._rank

    def __lt__(self, other: Semver) -> bool:
        return self._rank < other._rank

    def __str__(self) -> str:
        numbers = f"{self.major}.{self.minor}.{self.patch}"
        parts = [numbers, *([".".join(map(str, self.prerelease))] if self.prerelease else [])]
        return "-".join(parts) + (f"+{'.'.join(self.build)}" if self.build else "")


def parse_semver(text: str, normalize: bool = False) -> Semver:  # noqa: FBT001, FBT002
    """Parse a version; raises `CelError`. `normalize` accepts `v1.2` and leading zeros."""
    if normalize:
        text = _normalized(text)
    if not text:
        raise CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    rest, _, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    major, minor = _version_number("major", parts[0]), _version_number("minor", parts[1])
    patch_number = _version_number("patch", patch)
    identifiers = tuple(map(_prerelease, prerelease.split("."))) if dash else ()
    of_build = tuple(build.split(".")) if "+" in parts[2] else ()
    for identifier in of_build:
        if not identifier:
            raise CelError("Build meta data is empty")
        if not re.fullmatch(r"[0-9A-Za-z-]+", identifier):
            raise CelError(f'Invalid character(s) found in build meta data "{identifier}"')
    return Semver(major, minor, patch_number, identifiers, of_build)


def _normalized(text: str) -> str:
    parts = [re.sub(r"^0+(?=[0-9])", "", part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
        raise CelError("short version cannot contain PreRelease/Build meta data")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _version_number(name: str, text: str) -> int:
    if re.search(r"[^0-9]", text):
        raise CelError(f'Invalid character(s) found in {name} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise CelError(f'{name.title()} number must not contain leading zeroes "{text}"')
    if not text or int(text) > _UINT64_MAX:
        problem = "value out of range" if text else "invalid syntax"
        raise CelError(f'strconv.ParseUint: parsing "{text}": {problem}')
    return int(text)


def _prerelease(text: str) -> int | str:
    if not text:
        raise CelError("Prerelease is empty")
    if text.isdigit() and text.isascii():
        if len(text) > 1 and text[0] == "0":
            problem = "Numeric PreRelease version must not contain leading zeroes"
            raise CelError(f'{problem} "{text}"')
        return int(text)
    if not re.fullmatch(r"[0-9A-Za-z-]+", text):
        raise CelError(f'Invalid character(s) found in prerelease "{text}"')
    return text


def quantity(text: str) -> Quantity:
    """Parse a quantity; raises `QuantityError`."""
    return Quantity(parse_quantity(text))


def type_name(value: object) -> str:
    """Return the name of a value's type."""
    return next(name for kind, name in _NAMES if isinstance(value, kind))


_NAMES: Final = (
    (bool, "bool"), (UInt, "uint"), (int, "int"), (float, "double"), (str, "string"),
    (bytes, "bytes"), (type(None), "null_type"), (list, "list"), (dict, "map"),
    (Quantity, "kubernetes.Quantity"), (Semver, "kubernetes.Semver"), (Optional, "optional_type"),
    (Timestamp, "google.protobuf.Timestamp"), (Duration, "google.protobuf.Duration"),
    (IP, "net.IP"), (CIDR, "net.CIDR"),
)  # fmt: skip


#: The Python classes of CEL's types.
CLASSES: Final[Mapping[str, type]] = {name: kind for kind, name in _NAMES}


def is_number(value: object) -> bool:
    """Return True for numbers; in CEL a bool is none."""
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def equal(first: object, second: object) -> bool:
    """Return True if two values are equal; values of different types are not.

    Raises CelError if a value of Kubernetes' types is compared with one of another type.
    """
    if first is None or second is None:
        return first is second
    if is_number(first) and is_number(second):
        return first == second
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(equal, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(equal(first[k], second[k]) for k in first)
    if isinstance(first, (Quantity, Semver, IP, CIDR)) and type(first) is not type(second):
        raise no_such_overload()
    return type_name(first) == type_name(second) and first == second


def compare(first: object, second: object) -> int:
    """Return -1, 0 or 1; raises `CelError` for values that have no order."""
    if not (is_number(first) and is_number(second)):
        ordered = (bool, str, bytes, Quantity, Semver, Timestamp, Duration)
        if type(first) is not type(second) or not isinstance(first, ordered):
            raise no_such_overload()
    left, right = cast("int", first), cast("int", second)
    return (left > right) - (left < right)


def unsupported_key(key: object) -> CelError:
    """Return the error of a list or a map as the key of a map."""
    return CelError(f"unsupported key type: {type_name(key)}")


def find(mapping: dict[object, object], key: object) -> tuple[object, bool]:
    """Return the value under a key of a map, and True if there is one."""
    if isinstance(key, bool) or (isinstance(key, float) and not key.is_integer()):
        equal_key = next((k for k in mapping if k is key or equal(k, key)), None)
        return (mapping[equal_key], True) if equal_key is not None else (None, False)
    try:
        if key in mapping:
            return mapping[key], True
    except TypeError as error:
        raise unsupported_key(key) from error
    return ({}, True) if isinstance(mapping, DefaultMap) else (None, False)
