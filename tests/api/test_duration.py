import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import Duration


@pytest.mark.parametrize(
    ("text", "nanoseconds", "written"),
    [
        ("0", 0, "0s"),
        ("-0", 0, "0s"),
        ("15s", 15 * 10**9, "15s"),
        ("+15s", 15 * 10**9, "15s"),
        ("-15s", -15 * 10**9, "-15s"),
        ("1h30m", 5400 * 10**9, "1h30m0s"),
        ("90s", 90 * 10**9, "1m30s"),
        ("600s", 600 * 10**9, "10m0s"),
        ("1.5h", 5400 * 10**9, "1h30m0s"),
        (".5s", 5 * 10**8, "500ms"),
        ("1.s", 10**9, "1s"),
        ("1.001s", 1001 * 10**6, "1.001s"),
        ("1h1h", 7200 * 10**9, "2h0m0s"),
        ("1s1h", 3601 * 10**9, "1h0m1s"),
        ("100ms", 10**8, "100ms"),
        ("1us", 1000, "1\u00b5s"),
        ("1\u00b5s", 1000, "1\u00b5s"),
        ("1\u03bcs", 1000, "1\u00b5s"),
        ("1.5us", 1500, "1.5\u00b5s"),
        ("3ns", 3, "3ns"),
        ("0.0000000019s", 1, "1ns"),
        ("9223372036854775807ns", 2**63 - 1, "2562047h47m16.854775807s"),
        ("-9223372036854775808ns", -(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_durations_are_read_and_written_as_go_does(
    text: str, nanoseconds: int, written: str
) -> None:
    assert Duration.parse(text) == Duration(nanoseconds)
    assert str(Duration(nanoseconds)) == written


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("s", 'time: invalid duration "s"'),
        (".s", 'time: invalid duration ".s"'),
        ("abc", 'time: invalid duration "abc"'),
        (" 1s", 'time: invalid duration " 1s"'),
        ("1s-1s", 'time: unknown unit "s-" in duration "1s-1s"'),
        ("15", 'time: missing unit in duration "15"'),
        ("1..5s", 'time: missing unit in duration "1..5s"'),
        ("15x", 'time: unknown unit "x" in duration "15x"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1s ", 'time: unknown unit "s " in duration "1s "'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("2562048h", 'time: invalid duration "2562048h"'),
        ("1" * 5000 + "s", f'time: invalid duration "{"1" * 5000}s"'),
    ],
)
def test_an_invalid_duration_is_refused_with_the_text_of_go(text: str, error: str) -> None:
    with pytest.raises(ValueError, match="time: ") as caught:
        Duration.parse(text)
    assert str(caught.value) == error


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_duration_that_is_written_and_parsed_again_is_the_same(nanoseconds: int) -> None:
    assert Duration.parse(str(Duration(nanoseconds))) == Duration(nanoseconds)


def test_durations_compare_and_convert() -> None:
    assert Duration.parse("1m") > Duration.parse("59s")
    assert Duration.parse("1.5s").seconds == 1.5
    assert not Duration()
    assert Duration(1)
