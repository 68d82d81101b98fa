"""Resource quantities as exact integers.

A quantity (`100m`, `1.5Gi`, `2e3`) is parsed into a whole number of nano-units, the finest unit of
the Kubernetes API, so that sums are exact. A sum is then rounded up to the scheduler's units:
thousandths of a core for cpu, whole units for everything else. To round each term would overcount,
and floats would lose bytes.

One deliberate difference from upstream: a number above 64 bits counts as the largest one of 64
bits. Go's `Value` and `MilliValue` overflow, mostly to 0, so that a pod with a request of
`10E` of memory would fit everywhere.
Source: apimachinery `pkg/api/resource/quantity.go`, `suffix.go`.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The largest value of an int64 column.
INT64_MAX: Final = 2**63 - 1

_NANO_DIGITS: Final = 9
#: Numbers with more digits are no int64 upstream, even if their value would fit.
_INT64_DIGITS: Final = 18
#: Larger exponents make no difference, as the result is capped or rounded away.
_EXPONENT_MAX: Final = 60
_BINARY_SUFFIXES: Final[Mapping[str, int]] = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL_SUFFIXES: Final[Mapping[str, int]] = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
#: Number and suffix, as permissive as upstream's scanner: a number without digits is 0.
_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[eEinumkKMGTP]*[+-]?[0-9]*)"
)
_EXPONENT: Final = re.compile(r"[eE](?P<sign>[+-]?)0*(?P<digits>[0-9]{1,19})")


class QuantityError(ValueError):
    """The text is no quantity; the message is upstream's."""


@functools.lru_cache(maxsize=16384)
def parse_quantity(text: str | int | float) -> int:
    """Parse a quantity into nano-units; finer parts are rounded away from zero.

    Raises QuantityError.
    """
    match = _QUANTITY.fullmatch(str(text))
    if match is None or not match[0]:
        raise QuantityError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    fraction = match["fraction"] or ""
    digits = int(match["whole"] + fraction or "0")
    suffix = match["suffix"]
    power = _NANO_DIGITS - len(fraction)
    if suffix in _BINARY_SUFFIXES:
        digits *= 1024 ** _BINARY_SUFFIXES[suffix]
    else:
        power += _exponent(suffix)
    nanos: int = digits * 10**power if power >= 0 else -(-digits // 10**-power)
    return -nanos if match["sign"] == "-" else nanos


def _exponent(suffix: str) -> int:
    """Return the power of ten of a decimal suffix or an exponent, at most `_EXPONENT_MAX`."""
    if suffix in _DECIMAL_SUFFIXES:
        return _DECIMAL_SUFFIXES[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None or (exponent := int(match["digits"])) > INT64_MAX:
        raise QuantityError("unable to parse quantity's suffix")
    exponent = min(exponent, _EXPONENT_MAX)
    return -exponent if match["sign"] == "-" else exponent


def quantity_text(nanos: int, like: str | int | float) -> str:
    """Return the canonical text of an amount, with a suffix of the kind that `like` has.

    Source: `Quantity.CanonicalizeBytes`.
    """
    text = str(like)
    whole, rest = divmod(nanos, 10**_NANO_DIGITS)
    if text.endswith("i") and not rest and abs(whole) >= 1024:
        power = 0
        while whole % 1024 == 0 and power < len(_BINARY_SUFFIXES):
            whole, power = whole // 1024, power + 1
        return f"{whole}{list(_BINARY_SUFFIXES)[power - 1] if power else ''}"
    digits, exponent = nanos, -_NANO_DIGITS
    while digits and digits % 1000 == 0 and exponent < max(_DECIMAL_SUFFIXES.values()):
        digits, exponent = digits // 1000, exponent + 3
    if not digits:
        return "0"
    if text[-1:].isdigit() and "e" in text.lower():
        return f"{digits}e{exponent}"
    return str(digits) + next(s for s, power in _DECIMAL_SUFFIXES.items() if power == exponent)


def as_int64(text: str | int | float) -> int | None:
    """Return a whole number of at most 18 significant digits; None for all others.

    Raises QuantityError. Source: `Quantity.AsInt64`, and what `ParseQuantity` keeps as an int64.
    """
    nanos = parse_quantity(text)
    match = _QUANTITY.fullmatch(str(text))
    assert match is not None
    whole, fraction = match["whole"].lstrip("0"), (match["fraction"] or "").rstrip("0")
    spare = _INT64_DIGITS - len(whole + fraction)
    if (power := _BINARY_SUFFIXES.get(match["suffix"])) is not None:
        spare = -1 if fraction else spare - 4 - 3 * power
    number, rest = divmod(nanos, 10**_NANO_DIGITS)
    return number if spare >= 0 and not rest and abs(number) <= INT64_MAX else None


def milli_value(nanos: int) -> int:
    """Return thousandths of a unit, rounded away from zero and capped: the unit of cpu."""
    return in_units_of(10**6, nanos)


def value(nanos: int) -> int:
    """Return whole units, rounded away from zero and capped: the unit of all but cpu."""
    return in_units_of(10**9, nanos)


def in_units_of(size: int, nanos: int) -> int:
    """Return units of a size in nano-units, rounded away from zero and capped."""
    if nanos < 0:
        return -in_units_of(size, -nanos)
    return min(-(-nanos // size), INT64_MAX)
