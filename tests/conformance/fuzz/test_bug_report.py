"""A bug report has each step in the form in which a person does it, and the expectation."""

import pytest

from conformance.api import Json
from conformance.fuzz.bug_report import bug_report

_CREATE: Json = {"create": [{"object": {"apiVersion": "v1", "kind": "Namespace"}}]}
_CONFIG_MAP: Json = {
    "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "namespace": "other"}
}


def _lines(raw: Json) -> list[str]:
    return bug_report({"steps": [_CREATE], **raw}, title="Broken", seen="it is lost.").split("\n")


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (
            {"create": [{"object": {"apiVersion": "v1", "kind": "Namespace"}}]},
            '`kubectl apply -f -` with `{"apiVersion":"v1","kind":"Namespace"}`',
        ),
        ({"advance": "5s"}, "Wait for 5s."),
        ({"delete": {"pod": "p"}}, "`kubectl delete pod p`"),
        (
            {"delete": {"pod": "other/p", "grace_period_seconds": 0}},
            "`kubectl delete pod p -n other --grace-period=0 --wait=false`",
        ),
        ({"delete": _CONFIG_MAP}, "`kubectl delete configmap c -n other`"),
        (
            {"patch": {"node": "a", "patch": {"spec": {"unschedulable": True}}}},
            '`kubectl patch node a --type=merge -p \'{"spec":{"unschedulable":true}}\'`',
        ),
        (
            {"patch": {"pod": "p", "type": "json", "subresource": "resize", "patch": []}},
            "`kubectl patch pod p --subresource=resize --type=json -p '[]'`",
        ),
        (
            {"update_status": {"pod": "p", "status": {"phase": "Failed"}}},
            "`kubectl patch pod p --subresource=status --type=merge "
            '-p \'{"status":{"phase":"Failed"}}\'`',
        ),
        (
            {"bind": {"pod": "p", "node": "a"}},
            "Bind pod p to node `a`, as another scheduler does.",
        ),
        ({"evict": {"pod": "p"}}, "Evict pod p (`kubectl drain` does)."),
        ({"restart": None}, "Restart the scheduler."),
        ({"clear_faults": ["slow"]}, 'Clear faults: `["slow"]`'),
    ],
)
def test_a_step_is_a_command_or_a_sentence(step: Json, line: str) -> None:
    assert _lines({"steps": [step]})[4:6] == [f"1. {line}", ""]


def test_a_pause_until_the_scheduler_rests_is_no_step() -> None:
    assert _lines({"steps": [{"wait_until_settled": None}]})[2:5] == ["Steps:", "", ""]


def test_the_start_has_gates_configuration_and_cluster() -> None:
    raw: Json = {"gates": {"A": True, "B": False}, "config": {"profiles": []}}
    assert _lines({**raw, "cluster": _CREATE["create"]})[4:7] == [
        "1. Start kube-scheduler with `--feature-gates=A=true,B=false`.",
        '1. Configure it with `{"profiles":[]}`.',
        '1. `kubectl apply -f -` with `{"apiVersion":"v1","kind":"Namespace"}`',
    ]


@pytest.mark.parametrize(
    ("expect", "sentence"),
    [
        ({"pod": "p", "bound_to": "a"}, "pod p is bound to a."),
        ({"pod": "p", "bound_to_one_of": ["a", "b"]}, "pod p is bound to a or b."),
        ({"pods": ["p"], "bound_count": 1}, "pod p is bound."),
        ({"pods": ["p", "q"], "bound_count": 2}, "pod p, pod q are bound."),
        (
            {"pods": ["p", "q"], "bound_count": {"at_most": 1}},
            'of pod p, pod q, this number is bound: {"at_most":1}.',
        ),
        ({"pod": "p", "not_bound": True}, "pod p is not bound."),
        ({"pod": "p", "gated": True}, '`{"pod":"p","gated":true}`'),
    ],
)
def test_the_last_step_is_what_was_expected(expect: Json, sentence: str) -> None:
    lines = _lines({"steps": [_CREATE, {"expect": expect}]})
    assert lines[-5:] == ["", f"Expected: {sentence}", "", "Seen: it is lost.", ""]


def test_without_an_expectation_the_scheduler_should_come_to_rest() -> None:
    assert "Expected: the scheduler runs, and comes to rest." in _lines({})
