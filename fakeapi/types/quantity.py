"""Resource quantities: exact values and the canonical form that the server stores.

Values are integers of nano-units, so that 100m, 0.1 and 1e-1 are the same integer.
Mirrors k8s.io/apimachinery pkg/api/resource (ParseQuantity, CanonicalizeBytes, RoundUp) of v0.36.3.
"""

from __future__ import annotations

import re
from typing import Final, Self

from fakeapi.types.client_text import cached

NANO: Final = 10**9
_MILLI: Final = 10**6
#: Nothing is given back (`*+`): a long text takes linear time.
_FORM = re.compile(r"([+-]?)(\d*+)(?:\.(\d*+))?+([eEinumkKMGTP]*+[-+]?\d*+)", re.ASCII).fullmatch
_EXPONENT = re.compile(r"[eE]([-+]?\d+)").fullmatch
_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
#: The limit of digits, which upstream does not have: it hangs at 1e999999999.
_DIGITS_MAX: Final = 1000
_NUMBER_MESSAGE: Final = "unable to parse numeric part of quantity"
_BINARY_MAX: Final = (2**63 - 1) * NANO

FORMAT_MESSAGE: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class QuantityError(ValueError):
    """The text is not a quantity; the message is upstream's."""


@cached(8192)
def parse_nano(value: str) -> int:
    """Return the quantity in nano-units, rounded up. Raises QuantityError."""
    return _parse(value)[0]


class Amount(int):
    """A quantity in nano-units with the style of its text."""

    style: str

    def __new__(cls, nano: int, style: str = "decimal") -> Self:
        """Make an amount; the style is decimal, binary or exponent."""
        made = super().__new__(cls, nano)
        made.style = style
        return made

    def plus(self, other: int) -> Amount:
        """Return the sum, in the style of the first non-zero one."""
        style = other.style if not self and isinstance(other, Amount) else self.style
        return Amount(int(self) + other, style)

    def minus(self, other: int) -> Amount:
        """Return the difference, in the style of the first non-zero one."""
        return self.plus(Amount(-other, other.style if isinstance(other, Amount) else self.style))

    def shown(self) -> str:
        """Return the canonical text."""
        return render(self, self.style)


@cached(8192)
def parse_amount(value: str) -> Amount:
    """Return the quantity with its style. Raises QuantityError."""
    nano, style, _ = _parse(value)
    return Amount(nano, style)


@cached(8192)
def canonical(value: str) -> str:
    """Return the form in which the server stores a quantity. Raises QuantityError."""
    nano, style, kept = _parse(value)
    return value if kept else render(nano, style)


@cached(8192)
def canonical_resource(value: str) -> str:
    """Return `canonical` for entries of resource lists, which are rounded up to thousandths.

    Source: SetDefaults_ResourceList in pkg/apis/core/v1/defaults.go.
    """
    nano, style, kept = _parse(value)
    if nano % _MILLI == 0:
        return value if kept else render(nano, style)
    return render(-(-nano // _MILLI) * _MILLI, style)


def render(nano: int, style: str = "decimal") -> str:
    """Return nano-units as canonical text; the style is decimal, binary or exponent."""
    if nano == 0:
        return "0"
    if style == "binary" and abs(nano) >= 1024 * NANO and nano % NANO == 0:
        number, power = nano // NANO, 0
        while power < 6 and number % 1024 == 0:
            number, power = number // 1024, power + 1
        return f"{number}{_BINARY_SUFFIX[power]}"
    number, exponent = nano, -9
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    while exponent % 3 or (style != "exponent" and exponent > 18):
        number, exponent = number * 10, exponent - 1
    if style == "exponent":
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIX[exponent]}"


def _parse(value: str) -> tuple[int, str, bool]:
    """Return the nano-units, the style, and True if the canonical text is the given one."""
    match = _FORM(value)
    if match is None or not value:
        raise QuantityError(FORMAT_MESSAGE)
    sign, digits, fraction, suffix = match[1], match[2].lstrip("0"), match[3] or "", match[4]
    if not match[2] and not fraction and not suffix:
        raise QuantityError(FORMAT_MESSAGE)
    if len(digits) + len(fraction) > _DIGITS_MAX:
        raise QuantityError(_NUMBER_MESSAGE)
    digits = digits or "0"
    number = int(digits + fraction or "0")
    if suffix in _BINARY:
        power = _BINARY[suffix]
        nano = _scaled(number * 1024**power, -len(fraction))
        style = "binary"
        kept = not fraction and number % 8 != 0
        nano = min(nano, _BINARY_MAX)
        if nano < NANO:
            style, kept = "decimal", False
    else:
        exponent, style = _decimal_exponent(suffix)
        scale = exponent - len(fraction)
        nano = _scaled(number, scale)
        shifted = digits + fraction
        kept = scale >= -9 and scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
        kept = kept and len(shifted) <= 18
    return (-nano if sign == "-" else nano), style, kept and nano != 0


def _decimal_exponent(suffix: str) -> tuple[int, str]:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], "decimal"
    exponent = _EXPONENT(suffix)
    if exponent is None:
        raise QuantityError("unable to parse quantity's suffix")
    if len(exponent[1]) > _DIGITS_MAX or abs(int(exponent[1])) > _DIGITS_MAX:
        raise QuantityError(_NUMBER_MESSAGE)
    power = int(exponent[1])
    return power, "exponent"


def _scaled(number: int, power: int) -> int:
    """Return number * 10**power in nano-units, rounded up so that a tiny request is not zero."""
    power += 9
    return int(number * 10**power) if power >= 0 else -(-number // 10**-power)
