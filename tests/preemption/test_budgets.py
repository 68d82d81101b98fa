"""Disruption budgets: which victims are too many."""

from datetime import UTC, datetime

import numpy as np
import pytest

from scheduler.api.core import LabelSelector, LabelSelectorRequirement, ObjectMeta
from scheduler.api.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from scheduler.preemption.budgets import Budgets
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
DB = LabelSelector(match_labels={"app": "db"})


def budget(
    selector: LabelSelector | None = DB,
    *,
    allowed: int = 0,
    namespace: str = "default",
    going: tuple[str, ...] = (),
) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="budget", namespace=namespace),
        spec=PodDisruptionBudgetSpec(selector=selector),
        status=PodDisruptionBudgetStatus(allowed, dict.fromkeys(going, LONG_AGO)),
    )


def pods(*names: str, **labels: str) -> list[PodInfo]:
    return [PodInfo(make_pod(name, labels=labels or {"app": "db"})) for name in names]


def violating(given: list[PodInfo], *budgets: PodDisruptionBudget) -> list[str]:
    """The pods of one node whose eviction violates a budget."""
    found = Budgets(budgets).violating(given, np.zeros(len(given), dtype=np.int64))
    return [pod.name for pod, is_violating in zip(given, found, strict=True) if is_violating]


def test_a_budget_allows_the_first_disruptions() -> None:
    assert violating(pods("a", "b", "c"), budget(allowed=2)) == ["c"]
    assert violating(pods("a", "b"), budget(allowed=-1)) == ["a", "b"]


def test_each_node_is_judged_as_if_it_were_the_only_one() -> None:
    given = [*pods("a", "b"), *pods("x", app="web"), *pods("c", "d", "e")]
    found = Budgets([budget(allowed=1)]).violating(given, np.array([0, 0, 2, 2, 2, 2]))
    assert found.tolist() == [False, True, False, False, True, True]


def test_a_pod_is_charged_to_every_budget_it_falls_under_even_where_one_is_violated() -> None:
    both = LabelSelector(match_labels={"tier": "back"})
    given = pods("a", app="db", tier="back") + pods("b", app="web", tier="back")
    assert violating(given, budget(allowed=0), budget(both, allowed=1)) == ["a", "b"]


def test_since_1_37_a_pod_is_not_charged_after_the_first_budget_that_it_violates() -> None:
    both = LabelSelector(match_labels={"tier": "back"})
    given = [
        *pods("a", app="db", tier="back"),
        *pods("b", app="web", tier="back"),
        *pods("c", app="web", tier="back"),
        *pods("d", app="db", tier="back"),
    ]
    budgets = Budgets([budget(allowed=0), budget(both, allowed=1)], stops_at_first=True)
    # Pod d is on a node of its own.
    violating = budgets.violating(given, np.array([0, 0, 0, 3]))
    assert violating.tolist() == [True, False, True, True]


@pytest.mark.parametrize(
    "other",
    [
        budget(namespace="elsewhere"),
        budget(None),
        budget(LabelSelector()),
        budget(LabelSelector(match_labels={"app": "web"})),
        budget(LabelSelector(match_expressions=(LabelSelectorRequirement("app", "Maybe"),))),
        budget(going=("a",)),
    ],
)
def test_some_budgets_do_not_apply(other: PodDisruptionBudget) -> None:
    assert violating(pods("a"), other) == []


def test_a_pod_without_labels_falls_under_no_budget() -> None:
    anything = LabelSelector(match_expressions=(LabelSelectorRequirement("app", "DoesNotExist"),))
    assert violating([PodInfo(make_pod("a"))], budget(anything)) == []
    assert violating(pods("a", tier="x"), budget(anything)) == ["a"]


def test_a_pod_that_is_going_is_not_charged() -> None:
    assert violating(pods("a", "b"), budget(allowed=1, going=("a",))) == []


def test_without_budgets_there_is_nothing_to_ask() -> None:
    assert not Budgets([])
    assert violating(pods("a"), budget(None)) == []
    assert violating([], budget()) == []
    assert Budgets([budget()])


def test_budgets_can_be_replaced() -> None:
    budgets = Budgets([budget(allowed=0)])
    (pod,) = pods("a")
    found = []
    web = LabelSelector(match_labels={"app": "web"})
    for listed in (
        [budget(allowed=0)],
        [budget(allowed=1)],
        [budget(web), budget()],
        [budget(web)],
    ):
        budgets.update(listed)
        found.append(budgets.violating([pod], np.zeros(1, dtype=np.int64)).tolist())
    assert found == [[True], [False], [True], [False]]
