"""Text from clients has bounds: numbers by their digits, caches by the length of their keys."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeapi.types.client_text import CACHED_LENGTH_MAX, cached, parse_int, shortened


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("0" * 1_000_000 + "7", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("9" * 1_000_000, None),
    ],
)
def test_a_signed_number_has_64_bits(text: str, number: int | None) -> None:
    assert parse_int(text, bits=64) == number


@pytest.mark.parametrize("text", ["", "+", "-", "--1", "1 ", " 1", "1_0", "²", "٣", "0x1", "1\n"])
def test_other_texts_are_no_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="invalid syntax"):
        parse_int(text, bits=64)


@pytest.mark.parametrize("text", ["+1", "-1", "-0"])
def test_an_unsigned_number_has_no_sign(text: str) -> None:
    with pytest.raises(ValueError, match="invalid syntax"):
        parse_int(text, bits=64, signed=False)


@settings(max_examples=100, deadline=None)
@given(st.integers(-(2**70), 2**70))
def test_every_number_is_read_or_too_large(number: int) -> None:
    fits = -(2**63) <= number < 2**63
    assert parse_int(str(number), bits=64) == (number if fits else None)


def test_results_for_long_texts_are_not_remembered() -> None:
    calls = []

    @cached(10)
    def length(text: str) -> int:
        calls.append(text)
        return len(text)

    short, long = "x" * CACHED_LENGTH_MAX, "x" * (CACHED_LENGTH_MAX + 1)
    for text in (short, short, long, long):
        assert length(text) == len(text)
    assert calls == [short, long, long]


def test_a_log_shows_the_beginning_of_a_long_text() -> None:
    assert shortened("x") == "x"
    assert shortened("x" * 2_000_000) == f"{'x' * 1024}... (2000000 characters)"
