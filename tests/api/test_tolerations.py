"""Taints and tolerations: upstream's `TestTolerationToleratesTaint` and its neighbours."""

import pytest

from scheduler.api.core import Taint, Toleration
from scheduler.api.tolerations import (
    HARD_EFFECTS,
    PREFER_NO_SCHEDULE,
    find_untolerated_taint,
    is_tolerated,
    tolerates,
    toleration_rule,
)

TAINT = Taint("foo", "bar", "NoSchedule")
EVICTING = Taint("b", "", "NoExecute")


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        (Toleration("foo", "Equal", "bar", "NoSchedule"), True),
        (Toleration("foo", "", "bar", "NoSchedule"), True),
        (Toleration("foo", "Equal", "other", "NoSchedule"), False),
        (Toleration("foo", "Equal", "", "NoSchedule"), False),
        (Toleration("foo", "Exists", "", "NoSchedule"), True),
        # Validation refuses a value next to Exists; matching does not look at it.
        (Toleration("foo", "Exists", "other", "NoSchedule"), True),
        (Toleration("other", "Exists", "", "NoSchedule"), False),
        (Toleration("", "Exists", "", "NoSchedule"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal", "bar"), True),
        (Toleration("foo", "Equal", "bar", "NoExecute"), False),
        (Toleration("foo", "Equal", "bar", ""), True),
        (Toleration("foo", "Lt", "5", "NoSchedule"), False),
        (Toleration("foo", "Gt", "5", "NoSchedule"), False),
        (Toleration("foo", "Unknown", "bar", "NoSchedule"), False),
    ],
)
def test_a_toleration_covers_a_taint(toleration: Toleration, *, covered: bool) -> None:
    assert tolerates(toleration, TAINT) is covered


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


def test_a_taint_without_a_value_needs_a_toleration_without_one() -> None:
    assert tolerates(Toleration("foo", "Equal"), Taint("foo", "", "NoSchedule"))


def test_one_of_several_tolerations_is_enough() -> None:
    others = (Toleration("x", "Exists"), Toleration("foo", "Exists"))
    assert is_tolerated(TAINT, others)
    assert not is_tolerated(TAINT, others[:1])
    assert not is_tolerated(TAINT, ())


@pytest.mark.parametrize(
    ("taints", "tolerations", "found"),
    [
        ((), (), None),
        ((TAINT,), (Toleration("foo", "Exists"),), None),
        ((TAINT,), (), TAINT),
        ((Taint("soft", "", PREFER_NO_SCHEDULE), TAINT), (), TAINT),
        ((Taint("soft", "", PREFER_NO_SCHEDULE),), (), None),
        ((TAINT, EVICTING), (), TAINT),
        ((TAINT, EVICTING), (Toleration("foo", "Exists"),), EVICTING),
    ],
)
def test_the_first_taint_of_the_effects_asked_for_that_nothing_covers_is_found(
    taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], found: Taint | None
) -> None:
    assert find_untolerated_taint(taints, tolerations, HARD_EFFECTS) == found
