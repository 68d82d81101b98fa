"""Scenarios are read strictly. Recorded outcomes are compared in `test_decisions`."""

import json
from typing import Any

import pytest

from scheduler.explain.questions import QuestionError

from .scenario import decided, read_scenarios


def _scenario(**parts: object) -> Any:
    line = json.dumps({"name": "a-scenario", **parts}).encode()
    (scenario,) = read_scenarios([line], source="test")
    return scenario


def _node(name: str, cpu: str = "4") -> dict[str, object]:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def _pod(name: str = "p", **spec: object) -> dict[str, object]:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    containers = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def test_a_gated_pod_names_its_gate() -> None:
    gated = _pod(schedulingGates=[{"name": "wait"}, {"name": "see"}])
    (pod,) = decided(_scenario(objects=[_node("a")], pods=[gated]))["pods"]
    assert pod["result"] == "gated"
    assert pod["preFilter"] == {
        "code": "UnschedulableAndUnresolvable",
        "plugin": "SchedulingGates",
        "reasons": ["waiting for scheduling gates: [wait see]"],
    }


def test_a_pod_of_another_scheduler_is_ignored() -> None:
    (pod,) = decided(_scenario(objects=[_node("a")], pods=[_pod(schedulerName="other")]))["pods"]
    assert pod == {"pod": "default/p", "result": "ignored"}


def test_the_search_stops_early_but_every_node_is_explained() -> None:
    nodes = [_node(f"n{i:03}") for i in range(205)]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 5,
    }
    (pod,) = decided(_scenario(objects=nodes, pods=[_pod()], config=config))["pods"]
    assert (pod["evaluated"], pod["feasible"]) == (100, 100)
    assert len(pod["scores"]) == 205


def test_hints_of_every_registered_plugin_are_computed() -> None:
    tainted = _node("a")
    tainted["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    change = {"pod": _pod(), "old": tainted, "new": _node("a")}
    (answer,) = decided(_scenario(hints=[change]))["hints"]
    assert answer["events"] == ["NodeUpdateNodeTaint"]
    assert answer["hints"]["TaintToleration"] == {"NodeUpdateNodeTaint": "Queue"}
    assert answer["hints"]["NodeUnschedulable"] == {"NodeUpdateNodeTaint": "QueueSkip"}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "test, line 1: Input data was truncated"),
        (b'{"name": 1}', "test, line 1: Expected `str`, got `int` - at `$.name`"),
        (b'{"objects": []}', "test, line 1: Object missing required field `name`"),
    ],
)
def test_a_line_that_is_no_scenario_is_named(line: bytes, complaint: str) -> None:
    with pytest.raises(QuestionError, match="test, line 1") as caught:
        list(read_scenarios([line], source="test"))
    assert str(caught.value) == complaint


def test_an_object_that_cannot_be_read_names_its_scenario() -> None:
    broken = {"kind": "Node", "metadata": {"name": 1}}
    with pytest.raises(QuestionError, match=r"scenario a-scenario: Expected `str`, got `int`"):
        decided(_scenario(objects=[broken], pods=[_pod()]))
