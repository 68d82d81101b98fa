"""Go's arithmetic against tables and against exact integers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.arithmetic import (
    default_normalize_score,
    percent,
    round_half_away,
    truncated_div,
    truncated_div_scalar,
)
from scheduler.snapshot.columns import uniform
from tests.thoroughness import examples

quick = settings(max_examples=examples(40))
INT = st.integers(-(2**62), 2**62)
NON_ZERO = INT.filter(bool)


@pytest.mark.parametrize(
    ("dividend", "divisor", "quotient"),
    [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (0, -5, 0), (-1, 100, 0), (-6, 3, -2)],
)
def test_division_goes_toward_zero(dividend: int, divisor: int, quotient: int) -> None:
    assert truncated_div_scalar(dividend, divisor) == quotient
    assert truncated_div(np.array([dividend]), divisor).tolist() == [quotient]
    assert truncated_div(np.array([dividend]), np.array([divisor])).tolist() == [quotient]


@quick
@given(INT, NON_ZERO)
def test_division_of_any_numbers_goes_toward_zero(dividend: int, divisor: int) -> None:
    expected = math.trunc(Fraction(dividend, divisor))
    quotients = truncated_div(np.array([dividend, 0]), np.array([divisor, 1]))
    assert quotients.tolist() == [expected, 0]
    assert quotients.dtype == np.int64
    assert truncated_div_scalar(dividend, divisor) == expected


@quick
@given(st.integers(1, 2**56), st.integers(0, 100), st.integers(-1, 1))
def test_percentages_equal_integer_division_near_whole_percentages(
    whole: int, percentage: int, off: int
) -> None:
    part = min(max(0, -(-percentage * whole // 100) + off), whole)
    assert percent(np.array([part]), np.array([whole]), whole_max=whole).tolist() == [
        100 * part // whole
    ]


@pytest.mark.parametrize("whole", [2**53 // 100 - 1, 2**53 // 100, 2**53 // 100 + 1, 2**56])
def test_percentages_are_exact_around_the_largest_whole_floats_are_used_for(whole: int) -> None:
    for percentage in range(101):
        turn = -(-percentage * whole // 100)
        parts = [part for part in (turn - 1, turn, turn + 1) if 0 <= part <= whole]
        expected = [100 * part // whole for part in parts]
        wholes = np.full(len(parts), whole)
        assert percent(np.array(parts), wholes, whole_max=whole).tolist() == expected


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (0.5, 1), (-0.5, -1), (1.5, 2), (2.5, 3), (-2.5, -3), (0.4, 0), (-0.4, 0), (2.0, 2),
        # Adding a half and truncating would give 1.
        (0.49999999999999994, 0), (-0.49999999999999994, 0),
        (4503599627370497.5, 4503599627370498), (9007199254740991.0, 9007199254740991),
    ],
)  # fmt: skip
def test_halves_are_rounded_away_from_zero(value: float, rounded: int) -> None:
    assert round_half_away(np.array([value])).tolist() == [rounded]


@quick
@given(st.floats(-1e15, 1e15))
def test_any_number_is_rounded_as_go_rounds(value: float) -> None:
    nearest = math.floor(abs(Fraction(value)) + Fraction(1, 2))
    rounded = round_half_away(np.array([value]))
    assert rounded.tolist() == [nearest if value >= 0 else -nearest]
    assert rounded.dtype == np.int64


@pytest.mark.parametrize("value", [-3, 0, 1, 250])
def test_scores_that_are_uniform_are_normalized_like_any_others(value: int) -> None:
    for reverse in (False, True):
        found = default_normalize_score(uniform(3, np.int64(value)), reverse=reverse)
        expected = default_normalize_score(np.full(3, value), reverse=reverse)
        assert found.tolist() == expected.tolist()
