"""Go's arithmetic, where Python's and numpy's differ and a score would show it.

Go divides integers toward zero, Python and numpy toward minus infinity; Go's `math.Round` rounds
halves away from zero, `round` and `np.rint` to the even neighbour. Scores use these functions and
nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.snapshot.columns import uniform, uniform_value

if TYPE_CHECKING:
    from scheduler.snapshot.columns import FloatArray, IntArray

MAX_NODE_SCORE: Final = 100
MIN_NODE_SCORE: Final = 0

#: Up to here a hundredfold count is exact as a float, and so is its truncated quotient.
_EXACT_PERCENT_MAX: Final = (2**53 - 2) // 100


def truncated_div(dividend: IntArray, divisor: IntArray | int) -> IntArray:
    """Integer division toward zero, element by element. The divisor must not be 0 anywhere."""
    quotient: IntArray = dividend // divisor
    if quotient.min(initial=0) >= 0:
        return quotient
    quotient += (quotient < 0) & (quotient * divisor != dividend)
    return quotient


def truncated_div_scalar(dividend: int, divisor: int) -> int:
    """Integer division toward zero."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def percent(part: IntArray, whole: IntArray, *, whole_max: int) -> FloatArray:
    """`100 * part / whole` in Go's int64, as float64 numbers without a fraction.

    `0 <= part <= whole <= whole_max` and `whole > 0` must hold everywhere. Float division takes a
    third of the time of integer division and, truncated, gives the same as long as `100 * whole`
    stays below 2**53: two such quotients on either side of an integer lie further apart than a
    float's rounding. Larger integers (nodes of 80 TiB) are divided, and wrap around where Go's do.
    """
    if whole_max > _EXACT_PERCENT_MAX:
        return truncated_div(part * 100, whole).astype(np.float64)
    quotient: FloatArray = part * 100 / whole
    np.trunc(quotient, out=quotient)
    return quotient


def round_half_away(values: FloatArray) -> IntArray:
    """`math.Round`: to the nearest integer, halves away from zero.

    Adding a half and truncating would be wrong just below a half; the fraction is exact.
    """
    whole = np.trunc(values)
    away = np.abs(values - whole) >= 0.5
    return (whole + np.copysign(away, values)).astype(np.int64)


def default_normalize_score(scores: IntArray, *, reverse: bool = False) -> IntArray:
    """Scale scores to 0..100 by the highest one; `reverse` turns low into high.

    Source: `pkg/scheduler/framework/plugins/helper/normalize_score.go`.
    """
    if (same := uniform_value(scores)) is not None:
        if reverse:
            same = np.int64(0 if same > 0 else MAX_NODE_SCORE)
        elif same > 0:
            same = np.int64(MAX_NODE_SCORE)
        return uniform(len(scores), same)
    highest = int(scores.max()) if len(scores) else 0
    if highest <= 0:
        return np.full(len(scores), MAX_NODE_SCORE, dtype=np.int64) if reverse else scores
    scaled = truncated_div(scores * MAX_NODE_SCORE, highest)
    return MAX_NODE_SCORE - scaled if reverse else scaled
