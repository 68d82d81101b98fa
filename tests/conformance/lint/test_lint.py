"""Mistakes in cases that are found without running them."""

import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.cli import main
from conformance.format.cluster_events import KNOWN_EVENTS, event_name
from conformance.lint.checks import findings_in_cases, unused_anchors
from conformance.lint.cli import lint
from scheduler.framework.events import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    ActionType,
    EventResource,
)

from ..cases import write_cases

CLUSTER = "cluster: [{node: {name: a}}, {pod: {name: p}}]"


def _found(tmp_path: Path, *steps: str, more: str = CLUSTER) -> list[str]:
    """The checks that find something in a case with these steps."""
    lines = "\n".join(f"  - {step}" for step in steps)
    text = f"area: tiny\ncases:\n- name: c\n  source: s\n  {more}\n  steps:\n{lines}\n"
    return [f"{finding.check}: {finding.text}" for finding in findings_in_cases(
        write_cases(tmp_path, text)
    )]  # fmt: skip


GOOD = "expect: {pod: p, bound_to: a}"


def test_a_good_case_has_no_findings(tmp_path: Path) -> None:
    assert _found(tmp_path, "create: [pod: {name: q, count: 2}]", "touch: {pod: q-1}", GOOD) == []


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (["touch: {pod: q}", GOOD], "steps[0]: nothing before it makes pod q"),
        (["bind: {pod: p, node: b}", GOOD], "steps[0]: nothing before it makes node b"),
        (["expect: {pod: p, bound_to: b}"], "steps[0]: nothing before it makes node b"),
        (["expect: {pods: [p, q], not_bound: true}"], "steps[0]: nothing before it makes pod q"),
        (
            ["expect: {pod: q, deleted: true}", "create: [pod: {name: q}]", GOOD],
            "steps[0]: nothing before it makes pod q",
        ),
        (
            ["delete: {object: {kind: Service, name: s}}", GOOD],
            "steps[0]: nothing before it makes service s",
        ),
    ],
)
def test_names_of_objects_that_nothing_made(tmp_path: Path, steps: list[str], text: str) -> None:
    assert _found(tmp_path, *steps) == [f"unknown-name: tiny/c: {text}"]


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        (["expect: {pod: p, attempts: {at_least: 0}}"], "cannot-fail: tiny/c: steps[0]: every num"),
        (["expect: {pod: p, attempts: {at_least: 2, at_most: 1}}"], "cannot-hold: tiny/c: steps"),
        ([GOOD, GOOD], "cannot-fail: tiny/c: steps[1]: the same expectation as before"),
        (["touch: {pod: p}"], "cannot-fail: tiny/c: there is no expectation"),
        ([GOOD, "touch: {pod: p}"], "unchecked-step: tiny/c: steps[1]: no expectation comes after"),
        ([GOOD, *["touch: {pod: p}", GOOD] * 6], "no-description: tiny/c: 13 steps without a"),
    ],
)
def test_expectations_without_use(tmp_path: Path, steps: list[str], found: str) -> None:
    (finding,) = _found(tmp_path, *steps)
    assert finding.startswith(found)


FAULT = "inject: [{name: f, match: {verb: create}, answer: {code: 500}}]"


def test_faults_that_are_not_counted(tmp_path: Path) -> None:
    counted = "expect: {fault: f, injected: 1}"
    assert _found(tmp_path, FAULT, GOOD, counted) == []
    assert _found(tmp_path, FAULT, "clear_faults: [f]", GOOD) == [
        "uncounted-fault: tiny/c: no expectation counts the injections of a fault"
    ]
    other = FAULT.replace("name: f", "name: g")
    assert _found(tmp_path, FAULT, other, GOOD, counted) == [
        "uncounted-fault: tiny/c: the name of the fault g is used nowhere"
    ]


def test_cases_with_the_same_content(tmp_path: Path) -> None:
    case = "{{name: {}, source: s, cluster: [pod: {{name: p}}], steps: [expect: {}]}}"
    expected = "{pod: p, not_bound: true}"
    text = "area: tiny\ncases:\n" + "".join(f"- {case.format(n, expected)}\n" for n in "ab")
    (finding,) = findings_in_cases(write_cases(tmp_path, text))
    assert finding.text == "tiny/b: the same content as tiny/a"
    assert finding.place.endswith("cases.yaml:4")


def test_anchors_without_an_alias(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("definitions:\n  a: &a {x: 1}\n  b: &b {x: 2}\nc: *a\n", encoding="utf-8")
    assert [str(finding) for finding in unused_anchors(file)] == [
        f"{file}:3: unused-anchor: &b has no alias"
    ]


def test_the_command_prints_findings_and_fails(tmp_path: Path) -> None:
    text = f"""\
    area: tiny
    cases:
    - name: c
      source: s
      {CLUSTER}
      steps: [touch: {{pod: p}}]
    """
    file = tmp_path / "x.yaml"
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    result = CliRunner().invoke(main, ["lint", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stdout == f"{file}:3: cannot-fail: tiny/c: there is no expectation\n"
    file.write_text(
        file.read_text("utf-8").replace("touch: {pod: p}", "expect: {pod: p, not_bound: true}"),
        encoding="utf-8",
    )
    assert CliRunner().invoke(lint, [str(file)]).exit_code == 0


def test_the_built_in_cases_have_no_findings() -> None:
    result = CliRunner().invoke(main, ["lint"])
    assert (result.output, result.exit_code) == ("", 0)


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (["expect: {pod: p, bound_to: a, not_bound: true}"], "steps[0]: bound_to and not_bound"),
        (["expect: {pod: p, bound_to: a}", "expect: {pods: [p], gated: true}"], "steps[1]: bound_"),
        (
            ["expect: {pod: p, bound_to: a}", "expect: {pod: p, bound_to_one_of: [b]}"],
            "steps[1]: a pod is not on a and on b",
        ),
        (["expect: {pod: p, deleted: true, phase: Failed}"], "steps[0]: deleted and phase exclude"),
        (["expect: {pod: p, gated: true, unschedulable: {}}"], "steps[0]: gated and unschedulable"),
        (
            ["expect: {pod: p, bound_to: a, bound_to_one_of: [b]}"],
            "steps[0]: bound_to is none of bound_to_one_of",
        ),
        (
            ["expect: {pod: p, condition: {type: C}, no_condition: C}"],
            "steps[0]: condition and no_condition are both about C",
        ),
        (
            ["expect: {pod: p, event: {reason: R}, no_event: {reason: R}}"],
            "steps[0]: event and no_event are the same, R",
        ),
        (
            ["touch: {pod: p}", "expect: {pod: p, requeued_by: NodeAdd, not_requeued_by: NodeAdd}"],
            "steps[1]: requeued_by and not_requeued_by both have NodeAdd",
        ),
    ],
)
def test_expectations_that_exclude_each_other(tmp_path: Path, steps: list[str], text: str) -> None:
    nodes = "cluster: [{node: {name: a}}, {node: {name: b}}, {pod: {name: p}}]"
    (finding,) = _found(tmp_path, *steps, more=nodes)
    assert finding.startswith(f"cannot-hold: tiny/c: {text}")


def test_expectations_with_a_step_between_them_may_both_hold(tmp_path: Path) -> None:
    waits = "expect: {pod: p, not_bound: true}"
    assert _found(tmp_path, waits, "touch: {node: a}", GOOD) == []


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("requeued_by: NodeUpdateTaint", "no event NodeUpdateTaint; did you mean NodeUpdateNodeTa"),
        ("not_requeued_by: [NodeAdd, NodesAdd]", "no event NodesAdd; did you mean NodeAdd"),
        ("requeued_by: gpupools.v1.example.com/Upsert", "no event gpupools.v1.example.com/Upsert;"),
        ("event: {reason: FailedSchedule}", "no event FailedSchedule; did you mean FailedSchedul"),
    ],
)
def test_events_that_do_not_exist_are_named_with_similar_ones(
    tmp_path: Path, expected: str, text: str
) -> None:
    (finding,) = _found(tmp_path, "touch: {pod: p}", f"expect: {{pod: p, {expected}}}")
    assert finding.startswith(f"unknown-event: tiny/c: steps[1]: there is {text}")


def test_events_of_kinds_without_a_type_have_a_readable_name(tmp_path: Path) -> None:
    for event in ("gpupools.v1.example.com/Add", "configmaps.v1/Update", "UnschedulableTimeout"):
        expected = f"expect: {{pod: p, requeued_by: {event}}}"
        assert _found(tmp_path, "touch: {pod: p}", expected) == []
    assert event_name("gpupools.v1alpha1.example.comAdd") == "gpupools.v1alpha1.example.com/Add"
    assert event_name("configmaps.v1Update") == "configmaps.v1/Update"
    assert event_name("storage.k8s.io/CSINodeAdd") == "storage.k8s.io/CSINodeAdd"


def test_the_known_events_are_those_of_the_scheduler() -> None:
    of_pods = {resource for resource in EventResource if resource.endswith("Pod")}
    plain = (ActionType.ADD, ActionType.UPDATE, ActionType.DELETE)
    labels = {UNSCHEDULABLE_TIMEOUT, FORCE_ACTIVATE}
    for resource in {*EventResource} - {EventResource.POD, EventResource.WILDCARD}:
        special = "UpdateNode" if resource is EventResource.NODE else "UpdatePod"
        actions = [action for action in ActionType if str(action).startswith(special)]
        own = resource is EventResource.NODE or resource in of_pods
        labels |= {f"{resource}{action}" for action in (*plain, *(actions if own else []))}
    # An update of a kind is the union of its updates, which has a name of its own.
    labels = {label.replace("UpdateUpdate", "Update") for label in labels}
    assert labels == KNOWN_EVENTS
