"""Quantities: upstream's `TestQuantityParse` table and what follows from it for the scheduler."""

import pytest

from scheduler.api.quantity import (
    INT64_MAX,
    QuantityError,
    as_int64,
    milli_value,
    parse_quantity,
    quantity_text,
    value,
)

NANO = 1
UNIT = 10**9

EXACT = [
    # Nothing, in every suffix.
    *[(f"0{suffix}", 0) for suffix in ("", "n", "u", "m", "k", "Ki", "M", "Mi", "G", "Gi", "T")],
    # Powers of 1024.
    ("1Ki", 1024 * UNIT),
    ("7Mi", 7 * 1024**2 * UNIT),
    ("6Gi", 6 * 1024**3 * UNIT),
    ("100Ti", 100 * 1024**4 * UNIT),
    ("4Pi", 4 * 1024**5 * UNIT),
    ("3Ei", 3 * 1024**6 * UNIT),
    # Powers of ten.
    ("5n", 5 * NANO),
    ("4u", 4_000 * NANO),
    ("3m", 3_000_000 * NANO),
    ("9", 9 * UNIT),
    ("50k", 50 * 10**3 * UNIT),
    ("7M", 7 * 10**6 * UNIT),
    ("6G", 6 * 10**9 * UNIT),
    ("300T", 300 * 10**12 * UNIT),
    ("2P", 2 * 10**15 * UNIT),
    ("1E", 10**18 * UNIT),
    # Exponents: with a digit behind it, an E is no suffix.
    ("1E-3", 1_000_000 * NANO),
    ("1e3", 1000 * UNIT),
    ("1.3E+6", 1_300_000 * UNIT),
    ("1.53E12", 153 * 10**10 * UNIT),
    ("0.5e0", 500_000_000 * NANO),
    ("0.5e-2", 5_000_000 * NANO),
    # Fractions.
    ("0.0005k", 500_000_000 * NANO),
    ("0.50000", 500_000_000 * NANO),
    ("6.987654321G", 6_987_654_321 * UNIT),
    ("100.035Ki", 102_435_840_000_000 * NANO),
    ("0.5Mi", 524_288 * UNIT),
    ("0.025Ti", 27_487_790_694_400_000_000 * NANO),
    # Odd, and allowed.
    (".001", 1_000_000 * NANO),
    ("1.", UNIT),
    ("1.G", 10**9 * UNIT),
    ("00001", UNIT),
    ("+5", 5 * UNIT),
    ("-5", -5 * UNIT),
    ("-0", 0),
    (".", 0),
    ("m", 0),
    # JSON may hold bare numbers.
    (2, 2 * UNIT),
    (0.1, 100_000_000 * NANO),
    (1e16, 10**16 * UNIT),
    (1e-7, 100 * NANO),
]


@pytest.mark.parametrize(("text", "nanos"), EXACT, ids=str)
def test_a_quantity_is_read_exactly(text: str | float, nanos: int) -> None:
    assert parse_quantity(text) == nanos


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("3.001n", 4),
        ("1.1E-9", 2),
        ("0.0000000001", 1),
        ("0.9n", 1),
        ("0.00000012354", 124),
        ("0.000000000001Ki", 2),
        ("1e-100", 1),
        ("-1.5n", -2),
    ],
)
def test_parts_of_a_nano_unit_are_rounded_away_from_zero(text: str, nanos: int) -> None:
    assert parse_quantity(text) == nanos


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1.1.M", "1+1.0M", "0.1am", "aoeu", "0x10", "1_000", "٣", "1e3.5"]
)
def test_a_text_without_number_and_suffix_is_refused(text: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        parse_quantity(text)
    assert str(refusal.value) == (
        "quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


@pytest.mark.parametrize(
    "text", ["1i", ".5i", "-3.01i", "0.1mi", "1K", "1ki", "1Kii", "1Ki5", "1e", "-3.01e-", "1ee3"]
)
def test_an_unknown_suffix_is_refused(text: str) -> None:
    with pytest.raises(QuantityError, match=r"^unable to parse quantity's suffix$"):
        parse_quantity(text)


def test_an_exponent_must_fit_64_bits() -> None:
    assert parse_quantity(f"1e-{INT64_MAX}") == 1
    with pytest.raises(QuantityError, match=r"^unable to parse quantity's suffix$"):
        parse_quantity(f"1e{INT64_MAX + 1}")


@pytest.mark.parametrize(
    ("text", "milli", "whole"),
    [
        ("0", 0, 0),
        ("1m", 1, 1),
        ("100m", 100, 1),
        ("0.1m", 1, 1),
        ("1001m", 1001, 2),
        ("1500u", 2, 1),
        ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
        ("-1500u", -2, -1),
    ],
)
def test_counting_rounds_up(text: str, milli: int, whole: int) -> None:
    nanos = parse_quantity(text)
    assert (milli_value(nanos), value(nanos)) == (milli, whole)


def test_sums_are_rounded_once() -> None:
    tenth = parse_quantity("0.1m")
    assert milli_value(tenth * 10) == 1


@pytest.mark.parametrize("text", ["9Ei", "10E", "1e30", "9223372036854775808", "1e9999999"])
def test_a_quantity_beyond_64_bits_is_capped(text: str) -> None:
    assert value(parse_quantity(text)) == INT64_MAX
    assert milli_value(parse_quantity(text)) == INT64_MAX
    assert value(parse_quantity(f"-{text}")) == -INT64_MAX


def test_the_largest_number_is_not_capped() -> None:
    assert value(parse_quantity(str(INT64_MAX))) == INT64_MAX
    assert value(parse_quantity(str(INT64_MAX - 1))) == INT64_MAX - 1
    assert milli_value(parse_quantity(f"{INT64_MAX - 1}m")) == INT64_MAX - 1


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0.5", "500m"),
        ("1500m", "1500m"),
        ("2000", "2k"),
        ("1000n", "1u"),
        ("-2000M", "-2G"),
        ("1024Mi", "1Gi"),
        ("1.5Ki", "1536"),
        ("0.5Ki", "512"),
        ("2e3", "2e3"),
        ("1E4", "10e3"),
        ("2e0", "2e0"),
        (2048, "2048"),
    ],
)
def test_canonical_text(text: str | int, canonical: str) -> None:
    assert quantity_text(parse_quantity(text), text) == canonical


def test_text_with_a_binary_suffix() -> None:
    assert quantity_text(parse_quantity(4096), "Ki") == "4Ki"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("3", 3),
        (7, 7),
        ("2k", 2000),
        ("1.5k", 1500),
        ("1500m", None),
        ("999999999999999999", 999_999_999_999_999_999),
        # 19 digits, though an int64 could hold them; as a power of ten there are fewer digits.
        ("1000000000000000001", None),
        ("9223372036854775807", None),
        ("9E", 9 * 10**18),
        ("10E", None),
        ("1Gi", 2**30),
        ("99Ti", 99 * 2**40),
        ("100Ti", None),
        ("1Pi", None),
        ("1.5Gi", None),
    ],
)
def test_as_int64(text: str | int, expected: int | None) -> None:
    assert as_int64(text) == expected
