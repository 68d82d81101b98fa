"""The scheduling algorithm, beside a slow model that visits node after node as Go would."""

import functools
import logging
import random
import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cycle.schedule_pod import (
    FirstInOrder,
    RandomTie,
    ScheduleResult,
    SchedulingAlgorithm,
    num_feasible_nodes_to_find,
)
from scheduler.framework import (
    CycleState,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    PreFilterResult,
    Snapshot,
    Status,
    pending,
    unresolvable,
    unschedulable,
)
from scheduler.framework.types import FitError
from scheduler.reports.decision import result_of
from scheduler.runtime import Framework, PluginFailedError
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.cycle.running import schedule_pod
from tests.runtime.profiles import answering, framework_of, plugin
from tests.thoroughness import examples

SCORE = answering("Score", score=1)
NO = unschedulable("no")


@functools.cache
def _snapshot(count: int) -> Snapshot:
    return snapshot_of([make_node(f"n{n}") for n in range(count)])


def _pod(**parts: object) -> PodInfo:
    return PodInfo(make_pod(**parts))


def _algorithm(snapshot: Snapshot, *, percentage: int = 0, start: int = 0) -> SchedulingAlgorithm:
    algorithm = SchedulingAlgorithm(
        snapshot, tie_break=FirstInOrder(), percentage_of_nodes_to_score=percentage
    )
    algorithm.next_start_node_index = start
    return algorithm


def _schedule(
    snapshot: Snapshot,
    *classes: type[Plugin],
    pod: PodInfo | None = None,
    algorithm: SchedulingAlgorithm | None = None,
) -> ScheduleResult:
    framework = framework_of(*classes, handle=FakeHandle(snapshot))
    algorithm = algorithm or _algorithm(snapshot)
    return schedule_pod(algorithm, framework, CycleState(), pod or _pod())


# How many nodes are enough: upstream's `TestNumFeasibleNodesToFind`.


# The search, compared with one node at a time.

PASSES, REJECTED, UNRESOLVABLE, WAITS, FAILS = range(5)
ANSWERS = {REJECTED: NO, UNRESOLVABLE: unresolvable("never"), WAITS: pending("soon")}


def _filter(fates: Sequence[int]) -> type[Plugin]:
    """A plugin with a fate in store for each node."""

    def rule(self: Plugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        fate = fates[int(node.name[1:])]
        if fate == FAILS:
            raise ValueError(f"broken on {node.name}")
        return ANSWERS.get(fate)

    return plugin("Fate", filter=rule)


class Model:
    """Go with one worker: look at a node, then the next, until one more than wanted would fit."""

    def __init__(self, fates: Sequence[int], start: int, wanted: int) -> None:
        self.feasible: list[str] = []
        self.statuses: dict[str, str] = {}
        self.failure = ""
        for offset in range(len(fates)):
            number = (start + offset) % len(fates)
            fate = fates[number]
            if fate == FAILS:
                self.failure = f'running "Fate" filter plugin: broken on n{number}'
                break
            if fate == PASSES and len(self.feasible) == wanted:
                break
            if fate == PASSES:
                self.feasible.append(f"n{number}")
            else:
                self.statuses[f"n{number}"] = ANSWERS[fate].message
        processed = len(self.feasible) + len(self.statuses)
        self.next_start = (start + processed) % len(fates)


@st.composite
def _searches(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """The fates of some nodes, where to start, and the percentage to score."""
    count = draw(st.sampled_from([1, 2, 7, 99, 100, 101, 150, 300, 1024, 1025, 1500]))
    few = draw(st.lists(st.integers(PASSES, FAILS), min_size=1, max_size=8))
    odds = draw(st.integers(0, 30))
    rng = random.Random(draw(st.integers(0, 2**32)))
    fates = [few[rng.randrange(len(few))] if rng.randrange(30) < odds else PASSES
             for _ in range(count)]  # fmt: skip
    return fates, draw(st.integers(0, count - 1)), draw(st.sampled_from([0, 1, 10, 50, 99, 100]))


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(_searches())
def test_a_search_finds_the_nodes_that_a_single_worker_finds(
    search: tuple[list[int], int, int],
) -> None:
    fates, start, percentage = search
    snapshot = _snapshot(len(fates))
    model = Model(fates, start, num_feasible_nodes_to_find(len(fates), percentage))
    algorithm = _algorithm(snapshot, percentage=percentage, start=start)
    framework = framework_of(_filter(fates), SCORE, handle=FakeHandle(snapshot))
    if model.failure:
        with pytest.raises(PluginFailedError, match=f"^{re.escape(model.failure)}$"):
            result_of(algorithm.find_nodes_that_fit_pod(framework, CycleState(), _pod()))
    else:
        feasible, diagnosis = result_of(
            algorithm.find_nodes_that_fit_pod(framework, CycleState(), _pod())
        )
        assert feasible.names == model.feasible
        statuses = {name: status.message for name, status in diagnosis.node_to_status.items()}
        assert statuses == model.statuses
        assert diagnosis.unschedulable_plugins == ({"Fate"} if statuses else set())
        assert diagnosis.pending_plugins == ({"Fate"} if "soon" in statuses.values() else set())
    assert algorithm.next_start_node_index == model.next_start


def test_a_profiles_own_percentage_counts() -> None:
    snapshot = _snapshot(300)
    framework = framework_of(
        _filter([PASSES] * 300), SCORE, handle=FakeHandle(snapshot), percentage_of_nodes_to_score=50
    )
    algorithm = _algorithm(snapshot, percentage=100)
    assert len(schedule_pod(algorithm, framework, CycleState(), _pod()).feasible_nodes) == 150


def test_an_exhaustive_search_looks_at_every_node() -> None:
    snapshot = _snapshot(300)
    algorithm = SchedulingAlgorithm(snapshot, tie_break=FirstInOrder(), exhaustive=True)
    result = _schedule(snapshot, _filter([REJECTED, *[PASSES] * 299]), algorithm=algorithm)
    assert (len(result.feasible_nodes), result.evaluated_nodes) == (299, 300)


def test_without_filters_the_next_nodes_are_taken_as_they_come() -> None:
    snapshot = _snapshot(3)
    algorithm = _algorithm(snapshot, start=2)
    result = _schedule(snapshot, SCORE, algorithm=algorithm)
    assert result.feasible_nodes.names == ["n2", "n0", "n1"]
    assert algorithm.next_start_node_index == 2
    result = _schedule(snapshot, algorithm=algorithm)
    assert result.feasible_nodes.names == ["n2"]
    assert algorithm.next_start_node_index == 0


# A node for the pod.


def test_a_node_that_is_the_only_one_is_taken_unscored() -> None:
    asked = answering("Score", pre_score=ValueError("asked"), score=ValueError("asked"))
    fates = _filter([REJECTED, PASSES])
    result = _schedule(_snapshot(2), fates, asked)
    assert (result.suggested_host, result.evaluated_nodes, result.scores) == ("n1", 2, None)


def test_each_node_has_the_score_one_without_score_plugins() -> None:
    snapshot = _snapshot(2)
    algorithm = SchedulingAlgorithm(snapshot, tie_break=FirstInOrder(), exhaustive=True)
    result = _schedule(snapshot, _filter([PASSES, PASSES]), algorithm=algorithm)
    assert result.scores is not None
    assert result.scores.total.tolist() == [1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_ties_are_broken_among_the_best_and_only_them(seed: int) -> None:
    tied = answering("Tied", score_nodes=np.array([5, 9, 0, 9, 9]))
    snapshot = _snapshot(5)
    chosen = {
        _schedule(
            snapshot,
            _filter([PASSES] * 5),
            tied,
            algorithm=SchedulingAlgorithm(snapshot, tie_break=RandomTie(random.Random(number))),
        ).suggested_host
        for number in range(100 * seed, 100 * seed + 40)
    }
    assert chosen == {"n1", "n3", "n4"}
    assert _schedule(snapshot, _filter([PASSES] * 5), tied).suggested_host == "n1"


class NoChance:
    """A generator that must not be used."""

    def random(self) -> float:
        raise AssertionError("used")

    def randrange(self, stop: int, /) -> int:
        raise AssertionError("used")


def test_the_generator_is_not_used_without_a_choice() -> None:
    assert RandomTie(NoChance())(_snapshot(3).nodes, np.array([2])) == 2


# No node for the pod.


def _fit_error(snapshot: Snapshot, *classes: type[Plugin]) -> FitError:
    with pytest.raises(FitError) as refusal:
        _schedule(snapshot, *classes)
    return refusal.value


def test_nodes_left_out_by_prefilter_are_counted_with_the_plugins_that_did() -> None:
    error = _fit_error(
        _snapshot(5),
        answering("B", pre_filter=PreFilterResult(frozenset({"n1", "n2", "gone"}))),
        answering("A", pre_filter=PreFilterResult(frozenset({"n2", "n3", "gone"}))),
        answering("Everywhere", pre_filter=PreFilterResult(None)),
        _filter([REJECTED] * 5),
        SCORE,
    )
    assert str(error) == (
        "0/5 nodes are available: 1 no, 4 node(s) didn't satisfy plugin(s) [A B]."
    )
    assert error.diagnosis.unschedulable_plugins == {"A", "B", "Fate"}
    assert error.diagnosis.pre_filter_node_names == {"n2", "gone"}


def test_only_the_nodes_prefilter_has_left_are_looked_at() -> None:
    seen: list[str] = []

    def look(self: Plugin, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        seen.extend(nodes.names)

    snapshot = _snapshot(5)
    algorithm = _algorithm(snapshot, start=3)
    result = _schedule(
        snapshot,
        answering("A", pre_filter=PreFilterResult(frozenset({"n4", "n1"}))),
        plugin("Looks", filter_nodes=look),
        SCORE,
        algorithm=algorithm,
    )
    # The start index counts within the nodes that are left.
    assert seen == ["n4", "n1"]
    assert result.feasible_nodes.names == ["n4", "n1"]
    assert algorithm.next_start_node_index == 0


# The nominated node.


def _visits(*failing: str, error: bool = False) -> tuple[type[Plugin], list[str]]:
    visited: list[str] = []

    def rule(self: Plugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        visited.append(node.name)
        if node.name in failing and error:
            raise ValueError("broken")
        return NO if node.name in failing else None

    return plugin("Visits", filter=rule), visited


def test_a_nominated_node_that_is_gone_is_passed_over() -> None:
    visits, visited = _visits()
    result = _schedule(_snapshot(2), visits, SCORE, pod=_pod(nominated_node_name="gone"))
    assert result.suggested_host == "n0"
    assert visited == ["n0", "n1"]


def test_a_plugin_that_fails_on_the_nominated_node_alone_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    visits, _ = _visits("n2", error=True)
    with caplog.at_level(logging.ERROR), pytest.raises(PluginFailedError):
        _schedule(_snapshot(3), visits, SCORE, pod=_pod(nominated_node_name="n2"))
    assert caplog.messages == [
        'Evaluation failed on nominated node n2: running "Visits" filter plugin: broken'
    ]


# Failures.


def test_a_frameworks_failure_is_met_once_the_search_comes_to_it() -> None:
    fates = [PASSES] * 150
    fates[140] = FAILS
    snapshot = _snapshot(150)
    algorithm = _algorithm(snapshot)
    framework: Framework = framework_of(_filter(fates), SCORE, handle=FakeHandle(snapshot))
    schedule_pod(algorithm, framework, CycleState(), _pod())
    with pytest.raises(PluginFailedError, match=r"broken on n140$"):
        schedule_pod(algorithm, framework, CycleState(), _pod())
    assert algorithm.next_start_node_index == 140


def test_the_first_node_of_prefilter_is_taken_if_it_fits() -> None:
    visits, visited = _visits("n0")
    first = {name: answering(name, pre_filter=PreFilterResult(None, name)) for name in ("n0", "n1")}
    assert _schedule(_snapshot(3), first["n1"], visits).suggested_host == "n1"
    assert visited == ["n1"]
    # One that does not fit is no reason to give up, and the earlier plugin's node goes first.
    assert _schedule(_snapshot(3), first["n0"], first["n1"], visits).suggested_host == "n1"
    assert visited[1] == "n0"
    nominated = _pod(nominated_node_name="n2")
    assert _schedule(_snapshot(3), first["n1"], visits, pod=nominated).suggested_host == "n2"
