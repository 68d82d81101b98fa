"""Tolerations with the operators of a feature gate; upstream's tables have the others."""

import pytest

from scheduler.api.core import Taint, Toleration
from scheduler.api.tolerations import (
    toleration_rule,
)


@pytest.mark.parametrize(
    ("operator", "limit", "value", "covered"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "4", True),
        ("Lt", "-5", "-6", True),
        ("Lt", "9223372036854775807", "-9223372036854775808", True),
        ("Lt", "9223372036854775808", "1", False),
        *(("Lt", "5", text, False) for text in ("", "+1", "01", "-0", "1.0", "x", "\u0661")),
        ("Exists", "", "x", True),
        ("Equal", "x", "x", True),
    ],
)
def test_with_the_gate_values_are_compared_as_numbers(
    operator: str, limit: str, value: str, *, covered: bool
) -> None:
    rule = toleration_rule({"TaintTolerationComparisonOperators"})
    for key in ("foo", ""):
        toleration = Toleration(key, operator, limit)
        assert rule(toleration, Taint("foo", value, "NoSchedule")) is covered
    assert not rule(Toleration("bar", operator, limit), Taint("foo", value, "NoSchedule"))
