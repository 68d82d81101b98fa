"""Computations with floats equal exact integers, up to the limit of their range."""

import math
from ctypes import c_int64
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.framework.arithmetic import percent, round_half_away, truncated_div

pytestmark = pytest.mark.slow

#: Where `percent` stops trusting floats.
BORDER = (2**53 - 2) // 100

wholes = st.one_of(
    st.integers(1, 1000),
    st.integers(1, BORDER),
    st.integers(BORDER - 1000, BORDER + 1000),
    st.integers(BORDER, 2**62),
)


def truncated(dividend: int, divisor: int) -> int:
    """Divide as Go does."""
    return math.trunc(Fraction(dividend, divisor))


@st.composite
def shares(draw: st.DrawFn) -> tuple[int, int]:
    """A part of a whole; often within a unit of a whole percentage."""
    whole = draw(wholes)
    near = draw(st.integers(0, 100)) * whole // 100 + draw(st.integers(-1, 1))
    part = draw(st.sampled_from((near, draw(st.integers(0, whole)))))
    return min(max(part, 0), whole), whole


@given(st.lists(shares(), min_size=1, max_size=8))
@example([(BORDER - 1, BORDER)])
@example([(BORDER, BORDER + 1)])
@example([(1, 3), (2**62, 2**62)])
def test_percentages_are_gos_integers(given_shares: list[tuple[int, int]]) -> None:
    parts, wholes = zip(*given_shares, strict=True)
    found = percent(
        np.array(parts, dtype=np.int64), np.array(wholes, dtype=np.int64), whole_max=max(wholes)
    )
    assert found.tolist() == [
        truncated(c_int64(100 * part).value, whole) for part, whole in given_shares
    ]


def test_the_border_is_no_wider_than_it_may_be() -> None:
    """Just inside the limit, the share closest below each whole percentage is cut down."""
    for percentage in range(1, 101):
        part = -(-percentage * BORDER // 100) - 1
        found = percent(np.array([part]), np.array([BORDER]), whole_max=BORDER)
        assert found.tolist() == [100 * part // BORDER]


@given(
    st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=5),
    st.integers(-(2**31), 2**31).filter(bool),
)
def test_division_is_towards_zero(dividends: list[int], divisor: int) -> None:
    found = truncated_div(np.array(dividends, dtype=np.int64), divisor)
    assert found.tolist() == [truncated(dividend, divisor) for dividend in dividends]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.49999999999999994, 0), (0.5, 1), (1.5, 2), (2.5, 3), (-0.5, -1), (-2.4, -2), (38.5, 39)],
)
def test_halves_are_rounded_away_from_zero(value: float, expected: int) -> None:
    assert round_half_away(np.array([value])).tolist() == [expected]
