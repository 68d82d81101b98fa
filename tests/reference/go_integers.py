"""Go's int64, for scores: division toward zero, overflow that wraps around."""

from __future__ import annotations


def int64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def divide(dividend: int, divisor: int) -> int:
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend >= 0) == (divisor >= 0) else -quotient


def default_normalize(scores: list[int], *, reverse: bool) -> list[int]:
    highest = max([0, *scores])
    if highest == 0:
        return [100] * len(scores) if reverse else scores
    scaled = [divide(100 * score, highest) for score in scores]
    return [100 - score for score in scaled] if reverse else scaled
