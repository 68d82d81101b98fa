"""Quantities: the canonical form is a fixed point, and means the same as what was written."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeapi.types.quantity import (
    NANO,
    QuantityError,
    canonical,
    canonical_resource,
    parse_nano,
    render,
)
from tests.thoroughness import examples


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        # Each was answered so by a real kube-apiserver, or is from quantity_test.go.
        ("0", "0"),
        ("0.5", "500m"),
        ("0.1", "100m"),
        ("1.5", "1500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("100", "100"),
        ("1000", "1k"),
        ("10000", "10k"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("1073741824", "1073741824"),
        ("1e3", "1e3"),
        ("100e3", "100e3"),
        ("12E", "12E"),
        ("-2", "-2"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("1Ki", "1Ki"),
        ("1.0Ki", "1Ki"),
        ("1025Mi", "1025Mi"),
        ("00", "0"),
        (".5", "500m"),
        ("5.", "5."),
    ],
)
def test_the_form_that_is_stored(written: str, stored: str) -> None:
    assert canonical(written) == stored


@pytest.mark.parametrize(("written", "stored"), [("1n", "1m"), ("0.0001", "1m"), ("1500u", "2m")])
def test_entries_of_resource_lists_are_rounded_up_to_thousandths(written: str, stored: str) -> None:
    assert canonical_resource(written) == stored


@pytest.mark.parametrize("written", ["", "abc", "1x", "1.2.3", "-", "1Zi", "1 Gi", "1ee3"])
def test_an_invalid_quantity_is_refused(written: str) -> None:
    with pytest.raises(QuantityError):
        canonical(written)


numbers = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "-"]),
    st.integers(0, 10**7),
    st.sampled_from(["", ".5", ".25", ".125", ".001"]),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E2"]),
)


@settings(max_examples=examples(30))
@given(numbers)
def test_the_canonical_form_is_a_fixed_point_of_the_same_value(written: str) -> None:
    stored = canonical(written)
    assert canonical(stored) == stored
    assert parse_nano(stored) == parse_nano(written)


@settings(max_examples=examples(30))
@given(st.integers(0, 10**12), st.sampled_from(["n", "u", "m", "", "k", "M", "Ki", "Mi"]))
def test_the_value_is_exact(number: int, suffix: str) -> None:
    factor = {
        "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
        "k": Fraction(1000), "M": Fraction(10**6), "Ki": Fraction(1024), "Mi": Fraction(1024**2),
    }[suffix]  # fmt: skip
    assert parse_nano(f"{number}{suffix}") == min(number * factor * NANO, (2**63 - 1) * NANO)


@settings(max_examples=examples(30))
@given(st.integers(-(10**20), 10**20), st.sampled_from(["decimal", "binary", "exponent"]))
def test_rendering_is_undone_by_parsing(nano: int, style: str) -> None:
    assert parse_nano(render(nano, style)) == nano
