"""The order in which pods are spared, and the node that loses least."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.framework.extender import Victims
from scheduler.preemption.importance import (
    CRITERIA,
    Candidate,
    by_importance,
    earliest_start_times,
    pick_one_node_for_preemption,
)
from scheduler.preemption.pods_by_world import PodsByWorld
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW = 1000.0


def one_world(pods: list[PodInfo]) -> PodsByWorld:
    return PodsByWorld(pods, np.array([len(pods)]))


def test_as_of_1_37_pods_without_start_time_keep_their_order() -> None:
    pods = [PodInfo(make_pod(name, uid=name)) for name in ("a", "b", "c")]
    seen = {pod.uid: number for number, pod in enumerate(pods)}
    assert by_importance(one_world(pods), NOW).pods == pods[::-1]
    assert by_importance(one_world(pods[::-1]), NOW, seen=seen).pods == pods


def pod(name: str, priority: int = 0, started: float | None = None) -> PodInfo:
    made = make_pod(name, priority=priority)
    start_time = None if started is None else EPOCH + timedelta(seconds=started)
    return PodInfo(replace(made, status=replace(made.status, start_time=start_time)))


def candidate(name: str, *pods: PodInfo, violations: int = 0) -> Candidate:
    return Candidate(name, Victims(list(pods), violations))


@pytest.mark.parametrize(
    ("pods", "order"),
    [
        ([pod("low", 1), pod("high", 2)], "high low"),
        ([pod("late", started=5), pod("early", started=4)], "early late"),
        ([pod("late", 1, started=5), pod("early", started=4)], "late early"),
        ([pod("a", started=5), pod("b", started=5)], "a b"),
        # A pod that has not started is younger than all that have, ...
        ([pod("new"), pod("old", started=999)], "old new"),
        # ... though not than one whose clock is ahead.
        ([pod("ahead", started=1001), pod("new")], "new ahead"),
        # Upstream's sort turns those round that have not started.
        ([pod("a"), pod("b"), pod("c")], "c b a"),
    ],
)
def test_pods_in_order_of_importance(pods: list[PodInfo], order: str) -> None:
    assert [p.name for p in by_importance(one_world(pods), NOW).pods] == order.split()


def test_a_rule_of_ones_own_replaces_the_order() -> None:
    pods = [pod("b", 9), pod("a", 1), pod("c", 5)]
    ordered = by_importance(one_world(pods), NOW, lambda first, second: first.name < second.name)
    assert [p.name for p in ordered.pods] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod("a", 1, started=7), pod("b", 1, started=3), pod("c", 0, started=1)], 3.0),
        ([pod("a", 0, started=1), pod("b", 1, started=3)], 3.0),
        ([pod("a", 1), pod("b", 1, started=3)], 3.0),
        ([pod("a", 1, started=3), pod("b", 1)], 3.0),
        ([pod("a", 1), pod("b", 0, started=3)], NOW),
    ],
)
def test_of_the_most_important_victims_the_first_to_start_counts(
    pods: list[PodInfo], expected: float
) -> None:
    times = earliest_start_times(one_world(pods), NOW)
    assert times.tolist() == [expected]


@pytest.mark.parametrize(
    ("best", "other"),
    [
        (candidate("x", pod("a", 9), pod("b", 9)), candidate("y", pod("c", 0), violations=1)),
        (candidate("x", pod("a", 1), pod("b", 1)), candidate("y", pod("c", 2))),
        (candidate("x", pod("a", 2)), candidate("y", pod("c", 2), pod("d", -9))),
        (
            candidate("x", pod("a", 2), pod("b", -(2**31))),
            candidate("y", pod("c", 2), pod("d", -(2**31)), pod("e", -(2**31))),
        ),
        (
            candidate("x", pod("a", 2, started=5), pod("b", 1, started=1)),
            candidate("y", pod("c", 2, started=4), pod("d", 1, started=9)),
        ),
        (candidate("x", pod("a", started=1)), candidate("y", pod("b", started=1))),
    ],
)
def test_each_criterion_decides_if_earlier_ones_are_equal(
    best: Candidate, other: Candidate, request: pytest.FixtureRequest
) -> None:
    number = int(request.node.callspec.id.rpartition("best")[2].partition("-")[0])
    choice = pick_one_node_for_preemption([best, other], NOW)
    assert choice == (best, {"y": number})
    if number < len(CRITERIA) - 1:
        assert pick_one_node_for_preemption([other, best], NOW) == (best, {"y": number})


def test_candidates_are_left_out_one_after_another() -> None:
    candidates = [
        candidate("violating", pod("a", 0), violations=1),
        candidate("important", pod("b", 9)),
        candidate("first", pod("c", 1, started=1)),
        candidate("second", pod("d", 1, started=1)),
    ]
    choice = pick_one_node_for_preemption(candidates, NOW)
    assert choice.best.name == "first"
    assert choice.lost_by == {"violating": 0, "important": 1, "second": 5}


def test_criteria_of_ones_own_replace_all_others() -> None:
    candidates = [candidate("a", pod("x", 0)), candidate("bb", pod("y", 9), violations=9)]
    choice = pick_one_node_for_preemption(
        candidates, NOW, lambda given: [lambda c: len(c.name), lambda c: 0]
    )
    assert (choice.best.name, choice.lost_by) == ("bb", {"a": 0})


def test_a_single_candidate_needs_no_criterion() -> None:
    only = candidate("a", pod("x"))
    assert pick_one_node_for_preemption([only], NOW) == (only, {})
