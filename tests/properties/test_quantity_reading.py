"""Any quantity is the number it is written as, rounded once."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.quantity import INT64_MAX, milli_value, parse_quantity, value
from tests.thoroughness import examples

quick = settings(max_examples=examples(60))

SUFFIXES = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(1000), "Ki": Fraction(1024), "M": Fraction(10**6), "Mi": Fraction(1024**2),
    "G": Fraction(10**9), "Gi": Fraction(1024**3), "Ti": Fraction(1024**4), "e3": Fraction(1000),
    "E-2": Fraction(1, 100), "e+6": Fraction(10**6),
}  # fmt: skip


@pytest.mark.slow
@quick
@given(
    st.integers(0, 10**12),
    st.text("0123456789", max_size=12),
    st.sampled_from(sorted(SUFFIXES)),
)
def test_a_quantity_is_its_number_times_its_suffix(whole: int, decimals: str, suffix: str) -> None:
    text = f"{whole}.{decimals}{suffix}" if decimals else f"{whole}{suffix}"
    exact = (whole + Fraction(int(decimals or "0"), 10 ** len(decimals))) * SUFFIXES[suffix]
    nanos = math.ceil(exact * 10**9)
    assert parse_quantity(text) == parse_quantity(f"+{text}") == nanos
    assert parse_quantity(f"-{text}") == -nanos
    assert value(nanos) == min(math.ceil(Fraction(nanos, 10**9)), INT64_MAX)
    assert milli_value(nanos) == min(math.ceil(Fraction(nanos, 10**6)), INT64_MAX)
