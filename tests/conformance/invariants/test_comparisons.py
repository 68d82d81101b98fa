"""Decisions in two related clusters: which cases have one, and what counts as a difference."""

from types import SimpleNamespace
from typing import cast

import pytest
import yaml

from conformance.api import Json
from conformance.errors import InputError
from conformance.format.case import Case, case_of
from conformance.invariants import INVARIANTS, Violation
from conformance.invariants.comparisons import single_decision
from conformance.run.observation import Observation, PodRecord, Rejection

_NODES = "[{node: {name: a}}, {node: {name: b}}]"
_ONE_POD = "[{create: [{pod: {name: p}}]}, {advance: 15s}]"


def _case(cluster: str = _NODES, steps: str = _ONE_POD) -> Case:
    raw = {"name": "c", "cluster": yaml.safe_load(cluster), "steps": yaml.safe_load(steps)}
    return case_of({**raw, "source": "nowhere"}, area="tests", origin="here")


def _pod(node: str = "", message: str = "") -> PodRecord:
    """The record of the pod that is compared."""
    rejections = [
        Rejection(seconds=0.0, version=1, reason="Unschedulable", message=message),
    ]
    obj: Json = {"metadata": {"name": "p", "namespace": "default"}}
    return PodRecord(
        key="default/p", uid="p", created_seconds=0.0, node=node, rejections=rejections, object=obj
    )


def _violations(name: str, case: Case, *runs: PodRecord | None) -> list[Violation]:
    """The violations if the runs of a case leave these pods; None is a pod that is gone."""
    left = iter(runs)

    def observe(_: Case) -> Observation:
        pod = next(left)
        return cast("Observation", SimpleNamespace(pods=() if pod is None else (pod,)))

    check = INVARIANTS[name].comparison
    assert check is not None
    return [*check(case, observe)]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (_pod("a"), _pod("b"), None),
        (_pod("a"), _pod("", "0/2 nodes"), "pod p fits on a, and on no node if all are larger"),
        (_pod("", "0/2 nodes"), None, None),
        (None, None, None),
        (_pod("a"), None, None),
    ],
)
def test_a_pod_that_fits_fits_on_larger_nodes(
    before: PodRecord | None, after: PodRecord | None, text: str | None
) -> None:
    found = _violations("feasibility_monotone_in_capacity", _case(), before, after)
    assert [each.text for each in found] == ([text] if text else [])
    for each in found:
        assert each.expect == {"pod": "p", "bound_to_one_of": ["a", "b"]}


_RENAMED = "verdicts_independent_of_order_and_names"


@pytest.mark.parametrize(
    ("before", "after", "text", "expect"),
    [
        (_pod("a"), _pod("n1"), None, {}),
        (_pod("", "0/2: x. y"), _pod("", "0/2: x. z"), None, {}),
        (_pod("a"), None, None, {}),
        (
            _pod("a"),
            _pod("", "0/2: x."),
            "pod p is bound to a; with other names of nodes it is not bound (0/2: x)",
            {"pod": "p", "bound_to_one_of": ["n1", "n2"]},
        ),
        (
            _pod("", "0/2: x."),
            _pod("", "0/2: y."),
            "pod p is not bound (0/2: x); with other names of nodes it is not bound (0/2: y)",
            {"pod": "p", "unschedulable": {"message_prefix": "0/2: x"}},
        ),
    ],
)
def test_names_of_nodes_do_not_matter(
    before: PodRecord, after: PodRecord | None, text: str | None, expect: Json
) -> None:
    found = _violations(_RENAMED, _case(), before, after)
    assert [(each.text, each.expect) for each in found] == ([(text, expect)] if text else [])


def test_renamed_nodes_come_in_the_opposite_order() -> None:
    (found,) = _violations(_RENAMED, _case(), _pod("a"), _pod())
    assert found.case is not None
    assert found.case.raw["cluster"] == [{"node": {"name": "n1"}}, {"node": {"name": "n2"}}]


def test_a_new_name_that_the_case_uses_is_refused() -> None:
    case = _case("[{node: {name: a, labels: {next: n1}}}]")
    with pytest.raises(InputError, match="case tests/c: the names n1 are in use"):
        _violations(_RENAMED, case, _pod("a"))


@pytest.mark.parametrize(
    ("cluster", "steps"),
    [
        (_NODES, "[{advance: 15s}]"),
        (_NODES, "[{create: [{pod: {name: p, node: a}}]}]"),
        (_NODES, "[{create: [{pod: {name: p, scheduling_gates: [g]}}]}]"),
        ("[{pod: {name: q}}]", _ONE_POD),
    ],
)
@pytest.mark.parametrize("name", ["feasibility_monotone_in_capacity", _RENAMED])
def test_without_a_waiting_pod_and_a_node_nothing_is_compared(
    cluster: str, steps: str, name: str
) -> None:
    assert _violations(name, _case(cluster, steps)) == []


@pytest.mark.parametrize(
    ("steps", "rest"),
    [
        ("{create: [{pod: {name: q}}]}", [{"advance": "15s"}]),
        ("{advance: 3s}", [{"advance": "3s"}]),
        ("{wait_until_settled: }", [{"wait_until_settled": None}]),
        (
            "{advance: 3s}, {wait_until_settled: }",
            [{"advance": "3s"}, {"wait_until_settled": None}],
        ),
    ],
)
def test_a_decision_has_the_pause_of_its_case(steps: str, rest: list[Json]) -> None:
    """Pods that wait already are left out: the decision is the first created pod's."""
    cluster = "[{node: {name: a}}, {pod: {name: waits}}, {pod: {name: runs, node: a}}]"
    single = single_decision(_case(cluster, f"[{{create: [{{pod: {{name: p}}}}]}}, {steps}]"))
    assert single is not None
    assert single.raw["cluster"] == [
        {"node": {"name": "a"}},
        {"pod": {"name": "runs", "node": "a"}},
    ]
    assert single.raw["steps"] == [{"create": [{"pod": {"name": "p"}}]}, *rest]
