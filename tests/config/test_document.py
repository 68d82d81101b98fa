from __future__ import annotations

import math

import pytest

from scheduler.config.document import resolve_scalar


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
def test_a_plain_scalar_has_the_type_it_has_in_go_yaml(
    text: str, value: str | int | float | bool | None
) -> None:
    resolved = resolve_scalar(text)
    assert resolved == value
    assert type(resolved) is type(value)


def test_nan_is_a_float() -> None:
    assert math.isnan(float(resolve_scalar(".nan") or 0))
