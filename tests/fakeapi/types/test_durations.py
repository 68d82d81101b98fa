"""Durations as kubectl shows them."""

import pytest

from fakeapi.types.durations import age, human_duration

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2.5, "<invalid>"), (-1.5, "0s"), (-0.5, "0s"), (0, "0s"), (1.9, "1s"), (119, "119s"),
        (2 * MINUTE, "2m"), (2 * MINUTE + 1, "2m1s"), (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE + 5, "10m"), (3 * HOUR - 1, "179m"), (3 * HOUR, "3h"),
        (3 * HOUR + MINUTE, "3h1m"), (8 * HOUR - 1, "7h59m"), (8 * HOUR, "8h"),
        (48 * HOUR - 1, "47h"), (2 * DAY, "2d"), (2 * DAY + HOUR, "2d1h"), (8 * DAY - 1, "7d23h"),
        (8 * DAY, "8d"), (2 * YEAR - 1, "729d"), (2 * YEAR, "2y"), (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR - 1, "7y364d"), (8 * YEAR, "8y"), (20 * YEAR + DAY, "20y"),
    ],
)  # fmt: skip
def test_two_or_three_significant_figures(seconds: float, shown: str) -> None:
    """Source: apimachinery pkg/util/duration/duration_test.go, TestHumanDurationBoundaries."""
    assert human_duration(seconds) == shown


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [
        ("1970-01-01T00:00:00Z", "100s"),
        ("1970-01-01T00:00:00.500000Z", "99s"),
        (None, "<unknown>"),
        ("", "<unknown>"),
        ("yesterday", "<invalid>"),
    ],
)
def test_how_long_ago(timestamp: object, shown: str) -> None:
    assert age(timestamp, 100.0) == shown
