"""PreFilter and Filter: upstream's `TestRunPreFilterPlugins`, `TestFilterPlugins` and kin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from scheduler.framework import (
    CycleState,
    NodeInfo,
    Nodes,
    NominatingInfo,
    NominatingMode,
    Plugin,
    PodInfo,
    PreFilterResult,
    StateKey,
    Status,
    pending,
    reject,
    skip,
    unresolvable,
    unschedulable,
    wait,
)
from scheduler.framework.status import Code, Rejections
from scheduler.runtime import Framework, PluginFailedError
from scheduler.runtime.filtering import PreFilterOutcome
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.runtime.profiles import answering, framework_of, plugin

POD = PodInfo(make_pod(priority=5))


def _to(*names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(names))


def _pre_filter(*answers: object) -> tuple[PreFilterOutcome, CycleState]:
    classes = [answering(f"P{n}", pre_filter=answer) for n, answer in enumerate(answers)]
    state = CycleState()
    nodes = snapshot_of([make_node("a")]).nodes
    return framework_of(*classes).pre_filters.run(state, POD, nodes), state


ALL = PreFilterResult(None)
NO = unschedulable("no")
NEVER = unresolvable("never")


@pytest.mark.parametrize(
    ("answers", "result", "status", "skipped", "narrowing"),
    [
        ([None, ALL, Status(Code.SUCCESS)], ALL, None, "", ""),
        ([skip(), None, skip()], ALL, None, "P0 P2", ""),
        # After a plain rejection the other plugins run too: preemption needs their state.
        ([NO, skip()], ALL, NO.with_plugin("P0"), "P1", ""),
        ([NO, unschedulable("nor here")], ALL, unschedulable("nor here").with_plugin("P1"), "", ""),
        ([NO, _to("a")], _to("a"), NO.with_plugin("P0"), "", "P1"),
        # One that nothing can help does not.
        ([NEVER, skip()], ALL, NEVER.with_plugin("P0"), "", ""),
        ([NO, _to("a"), NEVER, skip()], ALL, NEVER.with_plugin("P2"), "", ""),
        ([_to("a", "b"), None, _to("b", "c")], _to("b"), None, "", "P0 P2"),
        (
            [_to(), skip()],
            _to(),
            unresolvable("node(s) didn't satisfy plugin P0"),
            "",
            "P0",
        ),
        (
            [_to("a"), None, _to("b"), skip()],
            _to(),
            unresolvable("node(s) didn't satisfy plugin(s) [P0 P2] simultaneously"),
            "",
            "P0 P2",
        ),
    ],
)
def test_prefilter_plugins_run_in_turn(
    answers: list[object],
    result: PreFilterResult,
    status: Status | None,
    skipped: str,
    narrowing: str,
) -> None:
    outcome, state = _pre_filter(*answers)
    assert outcome == (result, status, frozenset(narrowing.split()))
    assert state.skip_filter_plugins == set(skipped.split())


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ValueError("broken"), "broken"),
        (Status(Code.ERROR, "broken"), "broken"),
        (pending("later"), "later"),
        (wait(1, "odd"), "odd"),
        (frozenset("a"), "expected a PreFilterResult, a Status or None, got frozenset({'a'})"),
    ],
)
def test_a_prefilter_plugin_that_fails_ends_the_search(answer: object, text: str) -> None:
    with pytest.raises(PluginFailedError) as failure:
        _pre_filter(skip(), answer)
    assert str(failure.value) == f'running PreFilter plugin "P1": {text}'


def test_prefilter_plugins_see_all_nodes() -> None:
    seen: list[list[str]] = []

    def look(self: Plugin, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        seen.append(nodes.names)

    nodes = snapshot_of([make_node("a"), make_node("b")]).nodes
    framework_of(plugin("P", pre_filter=look)).pre_filters.run(CycleState(), POD, nodes)
    assert seen == [["a", "b"]]


# Filter.


def _reject(*names: str, status: Status = NO) -> object:
    """Return a `filter_nodes` that rejects these nodes."""

    def filter_nodes(
        self: Plugin, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> Rejections | None:
        return reject(np.array([name in names for name in nodes.names], dtype=bool), status)

    return filter_nodes


def _verdicts(framework: Framework, nodes: Nodes, state: CycleState | None = None) -> list[str]:
    rejections = framework.filters.run(state or CycleState(), POD, nodes)
    return _texts(rejections, len(nodes))


def _texts(rejections: Rejections | None, total: int) -> list[str]:
    statuses = [rejections.status(i) if rejections else None for i in range(total)]
    return [f"{status.plugin}: {status.message}" if status else "" for status in statuses]


THREE = snapshot_of([make_node(name) for name in "abc"]).nodes


def test_the_first_rejection_of_a_node_stands() -> None:
    framework = framework_of(
        plugin("A", filter_nodes=_reject("b", status=unschedulable("from A"))),
        answering("Content", filter=None),
        plugin("B", filter_nodes=_reject("b", "c", status=unresolvable("from B"))),
        plugin("C", filter_nodes=_reject("b", "c")),
    )
    assert _verdicts(framework, THREE) == ["", "A: from A", "B: from B"]


def test_a_plugin_gets_only_nodes_that_earlier_ones_accept() -> None:
    seen: list[list[str]] = []

    def look(self: Plugin, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        seen.append(nodes.names)

    framework = framework_of(
        plugin("A", filter_nodes=look),
        plugin("B", filter_nodes=_reject("b")),
        plugin("C", filter_nodes=look),
        plugin("D", filter_nodes=_reject("a", "c")),
        plugin("E", filter_nodes=lambda self, *arguments: pytest.fail("nobody is left")),
    )
    assert _verdicts(framework, THREE) == ["D: no", "B: no", "D: no"]
    assert seen == [["a", "b", "c"], ["a", "c"]]


def test_nodes_that_pass_all_plugins_have_no_verdict() -> None:
    framework = framework_of(answering("A", filter=None), plugin("B", filter_nodes=_reject()))
    assert framework.filters.run(CycleState(), POD, THREE) is None


def test_a_skipped_plugin_is_not_run() -> None:
    framework = framework_of(answering("A", filter=ValueError("asked")))
    state = CycleState()
    state.skip_filter_plugins.add("A")
    assert _verdicts(framework, THREE, state) == ["", "", ""]


@pytest.mark.parametrize(
    ("methods", "text"),
    [
        ({"filter": ValueError("broken")}, "broken"),
        ({"filter": Status(Code.ERROR, "broken")}, "broken"),
        ({"filter": skip()}, ""),
        ({"filter": True}, "expected a Status or None, got True"),
        ({"filter_nodes": True}, "expected Rejections or None, got True"),
        (
            {"filter_nodes": Rejections(np.array([0], dtype=np.int16), (NO,))},
            "1 verdicts on 3 nodes",
        ),
    ],
)
def test_a_filter_plugin_that_fails_ends_the_search(methods: dict[str, object], text: str) -> None:
    framework = framework_of(answering("P", **methods))
    with pytest.raises(PluginFailedError) as failure:
        framework.filters.run(CycleState(), POD, THREE)
    assert str(failure.value) == f'running "P" filter plugin: {text}'


# With nominated pods: upstream's `TestFilterPluginsWithNominatedPods`.

ADDED = StateKey["Added"]("Added")


class Added:
    """PreFilter state that dry runs change."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = [*names]

    def clone(self) -> Added:
        return Added(self.names)


class Crowded(Plugin):
    """Accepts at most one CPU per node, and records every pod that is added."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        state.write(ADDED, Added())

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        state.read(ADDED).names.append(f"{added.name} on {node.name} of {node.pod_count}")

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if node.requested.get("cpu", 0) <= 1000:
            return None
        return unschedulable(f"crowded by {state.read(ADDED).names}")


def _nominated(
    *expected: tuple[str, str, int], classes: Sequence[type[Plugin]] = (Crowded,)
) -> tuple[Framework, Nodes, CycleState]:
    """Nodes a, b, c with one CPU in use on a, and `(pod, node, priority)` expected."""
    running = make_pod("running", node_name="a", requests={"cpu": "1"})
    snapshot = snapshot_of([make_node(name) for name in "abc"], [running])
    handle = FakeHandle(snapshot)
    for name, node, priority in expected:
        pod = PodInfo(make_pod(name, priority=priority, requests={"cpu": "600m"}))
        handle.nominator.add_nominated_pod(pod, NominatingInfo(node, NominatingMode.OVERRIDE))
    framework = framework_of(*classes, handle=handle)
    state = CycleState()
    framework.pre_filters.run(state, POD, snapshot.nodes)
    return framework, snapshot.nodes, state


def _with_nominated(framework: Framework, nodes: Nodes, state: CycleState) -> list[str]:
    return _texts(framework.filters.run_with_nominated_pods(state, POD, nodes), len(nodes))


def test_nominated_pods_of_at_least_this_priority_count_on_their_nodes() -> None:
    framework, nodes, state = _nominated(
        ("lower", "a", 4), ("equal", "b", 5), ("higher", "b", 6), ("lone", "c", 9)
    )
    assert _with_nominated(framework, nodes, state) == [
        "",
        "Crowded: crowded by ['equal on b of 1', 'higher on b of 2']",
        "",
    ]


def test_a_pods_own_nomination_does_not_count_against_it() -> None:
    framework, nodes, state = _nominated(("x", "a", 9))
    handle = framework.handle
    assert _with_nominated(framework, nodes, state)[0].startswith("Crowded")
    handle.nominator.delete_nominated_pod_if_exists(PodInfo(make_pod("x")))
    handle.nominator.add_nominated_pod(
        PodInfo(make_pod("pod", requests={"cpu": "600m"}, priority=9)),
        NominatingInfo("a", NominatingMode.OVERRIDE),
    )
    assert _with_nominated(framework, nodes, state) == ["", "", ""]


def test_nominated_pods_change_neither_state_nor_snapshot() -> None:
    framework, nodes, state = _nominated(("x", "b", 9))
    _with_nominated(framework, nodes, state)
    assert state.read(ADDED).names == []
    assert nodes.requested("cpu").tolist() == [1000, 0, 0]


def test_a_node_must_pass_without_the_nominated_pods_as_well() -> None:
    """Affinity to a nominated pod does not count: the pod may never run there."""

    def likes_company(
        self: Plugin, state: CycleState, pod: PodInfo, node: NodeInfo
    ) -> Status | None:
        return None if node.pods else unschedulable("lonely")

    framework, nodes, state = _nominated(
        ("x", "b", 9), classes=[plugin("Company", filter=likes_company)]
    )
    assert _with_nominated(framework, nodes, state) == ["", "Company: lonely", "Company: lonely"]


def test_the_verdict_with_nominated_pods_counts_before_the_one_without() -> None:
    def counts(self: Plugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        return unschedulable(f"{node.pod_count} pods")

    framework, nodes, state = _nominated(("x", "b", 9), classes=[plugin("P", filter=counts)])
    assert _with_nominated(framework, nodes, state) == ["P: 1 pods", "P: 1 pods", "P: 0 pods"]


def test_pods_expected_on_nodes_out_of_view_do_not_matter() -> None:
    framework, nodes, state = _nominated(("x", "a", 9), ("y", "gone", 9))
    assert _with_nominated(framework, nodes.slice(1, 3), state) == ["", ""]


def test_in_a_dry_run_nominated_pods_are_added_to_the_changed_nodes() -> None:
    framework, nodes, state = _nominated(("x", "a", 9))
    what_if = WhatIf(nodes)
    assert _with_nominated(framework, what_if.nodes, state)[0].startswith("Crowded")
    what_if.remove_pod(0, "uid-default-running")
    assert _with_nominated(framework, what_if.nodes, state) == ["", "", ""]


def test_a_plugin_that_cannot_follow_the_expected_pods_fails() -> None:
    cannot = answering("P", pre_filter=None, add_pod=ValueError("broken"), filter=None)
    framework, nodes, state = _nominated(("x", "a", 9), classes=[cannot])
    with pytest.raises(
        PluginFailedError, match=r'^running AddPod on PreFilter plugin "P": broken$'
    ):
        _with_nominated(framework, nodes, state)
