from __future__ import annotations

import math

import pytest

from scheduler.config.yaml_scalars import float_text, needs_quotes, resolve_scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("Null", None), ("nULL", "nULL"),
        ("y", True), ("yes", True), ("On", True), ("TRUE", True), ("tRUE", "tRUE"),
        ("n", False), ("No", False), ("OFF", False), ("false", False),
        ("0", 0), ("-0", 0), ("+5", 5), ("1_000", 1000), ("_1", "_1"),
        ("010", 8), ("0o17", 15), ("0x1F", 31), ("-0b11", -3), ("08", 8), ("0b2", "0b2"),
        ("18446744073709551615", 2**64 - 1), ("18446744073709551616", 2.0**64),
        ("-9223372036854775808", -(2**63)), ("-9223372036854775809", -(2.0**63)),
        ("1e3", 1000), ("1.0", 1), (".5", 0.5), ("-1.5e3", -1500), ("1e400", "1e400"),
        ("1e", "1e"), ("-", "-"), (".", "."), ("1.2.3", "1.2.3"),
        ("2020-01-01", "2020-01-01"), ("12:30", "12:30"), ("<<", "<<"), ("a b", "a b"),
        (".inf", math.inf), ("-.INF", -math.inf),
    ],
)  # fmt: skip
def test_a_bare_word_means_what_it_means_to_go_yaml(
    text: str, value: str | int | float | bool | None
) -> None:
    resolved = resolve_scalar(text)
    assert resolved == value
    assert type(resolved) is type(value)


def test_what_is_not_a_number_is_a_float_all_the_same() -> None:
    assert math.isnan(float(resolve_scalar(".nan") or 0))


@pytest.mark.parametrize("text", ["", "y", "010", "null", "1e3", "12:30", "2020-01-01", ".5"])
def test_a_text_that_could_be_misread_needs_quotes(text: str) -> None:
    assert needs_quotes(text)


@pytest.mark.parametrize("text", ["a", "10m0s", "kube-system", "1.2.3", "*", "2020-01"])
def test_any_other_text_does_not(text: str) -> None:
    assert not needs_quotes(text)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (50.0, "50"), (0.5, "0.5"), (-0.0, "0"), (123456.5, "123456.5"),
        (1234567.5, "1.2345675e+06"), (0.0001, "0.0001"), (0.00001, "1e-05"),
        (-1234567.5, "-1.2345675e+06"), (1e22, "1e+22"), (1e18, "1000000000000000000"),
        (1.2345e22, "1.2345e+22"), (1e-7, "1e-07"), (1e-300, "1e-300"), (1.5e-7, "1.5e-07"),
    ],
)  # fmt: skip
def test_floats_are_written_as_go_yaml_does(number: float, text: str) -> None:
    assert float_text(number) == text
    assert resolve_scalar(text) == number
