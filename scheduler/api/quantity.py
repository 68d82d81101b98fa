"""Resource quantities as exact integers.

A quantity (`100m`, `1.5Gi`, `2e3`) is read into a whole number of nano-units, the finest step the
Kubernetes API knows, so that sums are exact; only then is a sum rounded up to what the scheduler
counts in: thousandths of a core for cpu, whole units for everything else. Rounding each term first
would overcount, and floats would lose bytes.
Source: apimachinery `pkg/api/resource/quantity.go`.
"""

from __future__ import annotations

import functools
import re

__all__ = ["INT64_MAX", "QuantityError", "milli_value", "parse_quantity", "value"]

#: What Go's int64 can hold. Upstream caps there, and so do the columns.
INT64_MAX = 2**63 - 1

_NANO_DIGITS = 9
#: Beyond it every quantity is capped or rounded away, so no exponent may ask for more work.
_EXPONENT_MAX = 60
_BINARY_SUFFIXES = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL_SUFFIXES = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<suffix>Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?"
)


class QuantityError(ValueError):
    """A text that is no quantity."""


@functools.lru_cache(maxsize=16384)
def parse_quantity(text: str | int | float) -> int:
    """Read a quantity into nano-units, what is finer rounded up.

    Raises `QuantityError` with upstream's sentence if `text` is not a quantity.
    """
    match = _QUANTITY.fullmatch(str(text))
    if match is None or not (match["whole"] or match["fraction"]):
        raise QuantityError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    fraction = match["fraction"] or ""
    digits = int(match["whole"] + fraction or "0")
    suffix = match["suffix"] or ""
    if suffix in _BINARY_SUFFIXES:
        digits *= 1024 ** _BINARY_SUFFIXES[suffix]
        power = _NANO_DIGITS - len(fraction)
    else:
        exponent = int(match["exponent"]) if match["exponent"] else _DECIMAL_SUFFIXES[suffix]
        exponent = max(-_EXPONENT_MAX, min(exponent, _EXPONENT_MAX))
        power = _NANO_DIGITS - len(fraction) + exponent
    nanos = digits * 10**power if power >= 0 else _ceil_div(digits, 10**-power)
    return -nanos if match["sign"] == "-" else nanos


def milli_value(nanos: int) -> int:
    """Thousandths of a unit, rounded up, at most `INT64_MAX`: how cpu is counted."""
    return min(_ceil_div(nanos, 10**6), INT64_MAX)


def value(nanos: int) -> int:
    """Whole units, rounded up, at most `INT64_MAX`: how everything but cpu is counted."""
    return min(_ceil_div(nanos, 10**9), INT64_MAX)


def _ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
