"""`kubesched-explain -o json`: the output matches its published schema."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner

from scheduler.explain.cli import main
from scheduler.reports.model import Report

PUBLISHED = Path(__file__).parent.parent.parent / "docs" / "explain.schema.json"
SCHEMA = json.loads(PUBLISHED.read_text(encoding="utf-8"))

NODES = """\
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Node
metadata: {name: b}
spec: {unschedulable: true}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
"""
POD = """\
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec: {%s containers: [{name: c, resources: {requests: {cpu: "%s"}}}]}
"""


def _json_schema() -> dict[str, Any]:
    """Return the JSON schema of a report."""
    _, definitions = msgspec.json.schema_components([Report], ref_template="#/$defs/{name}")
    # Python has taken the indentation from docstrings since 3.13.
    for part in definitions.values():
        if "description" in part:
            part["description"] = inspect.cleandoc(part["description"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The output of kubesched-explain -o json",
        "$ref": "#/$defs/Report",
        "$defs": definitions,
    }


@pytest.fixture
def explained(tmp_path: Path) -> Callable[..., Any]:
    """Explain manifests, and check the output against the schema."""

    def explain(text: str, *arguments: str) -> Any:
        path = tmp_path / "cluster.yaml"
        path.write_text(text, encoding="utf-8")
        result = CliRunner().invoke(main, ["--manifests", str(path), "-o", "json", *arguments])
        assert result.exit_code == 0, result.output
        report = json.loads(result.stdout)
        jsonschema.validate(report, SCHEMA)
        return report

    return explain


def test_the_published_schema_is_that_of_the_types() -> None:
    assert json.loads(json.dumps(_json_schema())) == SCHEMA, (
        "write it anew: python -m tests.explain.test_json"
    )


def test_the_choice_and_every_node_are_there(explained: Callable[..., Any]) -> None:
    report = explained(NODES + POD % ("web", "", "1"))
    (pod,) = report["pods"]
    assert (pod["result"], pod["choice"]["node"]) == ("scheduled", "a")
    assert pod["current"] is None
    a, b = pod["nodes"]
    assert a["total"] == sum(a["scores"].values())
    assert [pod["rejections"][index]["plugin"] for index in b["rejections"]] == [
        "NodeUnschedulable"
    ]
    (box, _) = report["cluster"]["nodes"]
    assert box["shares"] == {"cpu": 0.25, "memory": 0.0}
    assert box["pods"] == [{"pod": "default/web", "share": 0.25, "isNew": True}]


def test_waiting_pods_are_decided_in_the_order_of_the_queue(explained: Callable[..., Any]) -> None:
    text = NODES + POD % ("first", "", "3") + POD % ("second", "priority: 10,", "3")
    assert [pod["pod"] for pod in explained(text)["pods"]] == ["default/second", "default/first"]
    (first,) = explained(text, "--pod", "first")["pods"]
    assert first["result"] == "unschedulable"
    assert first["placedBefore"] == [{"pod": "default/second", "node": "a"}]
    (second,) = explained(text, "--pod", "second")["pods"]
    assert (second["result"], second["placedBefore"]) == ("scheduled", [])


def test_the_table_names_the_pods_placed_before(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    text = NODES + POD % ("first", "", "3") + POD % ("second", "priority: 10,", "3")
    path.write_text(text, encoding="utf-8")
    arguments = ["--manifests", str(path), "--pod", "first"]
    output = CliRunner().invoke(main, arguments).stdout
    assert output.splitlines()[1] == "after placing default/second on a"


def test_a_node_has_the_rejections_of_all_its_filters(explained: Callable[..., Any]) -> None:
    (pod,) = explained(NODES + POD % ("web", "", "5"))["pods"]
    rejections = {node["name"]: node["rejections"] for node in pod["nodes"]}
    plugins = [rejection["plugin"] for rejection in pod["rejections"]]
    assert [plugins[index] for index in rejections["b"]] == [
        "NodeUnschedulable",
        "NodeResourcesFit",
    ]
    by_plugin = {rejection["plugin"]: rejection for rejection in pod["rejections"]}
    assert by_plugin["NodeResourcesFit"]["nodes"] == 1
    assert by_plugin["NodeResourcesFit"]["furtherNodes"] == 1
    assert by_plugin["NodeResourcesFit"]["examples"] == ["a"]


def test_preemption_and_the_nearest_nodes_are_there(explained: Callable[..., Any]) -> None:
    text = NODES + POD % ("low", "nodeName: a,", "3") + POD % ("high", "priority: 5,", "2")
    (pod,) = explained(text)["pods"]
    assert pod["preemption"]["nominatedNode"] == "a"
    (candidate,) = pod["preemption"]["candidates"]
    assert candidate["victims"] == [{"pod": "default/low", "priority": 0}]
    assert [node["name"] for node in pod["nearest"]] == ["a", "b"]
    assert pod["nearest"][0]["changes"] == [
        {
            "plugin": "NodeResourcesFit",
            "text": "needs 1 more cpu",
            "onPod": "request 1 less cpu",
            "onNodes": "free 1 of cpu",
        }
    ]


def test_a_gated_and_an_ignored_pod_have_no_choice(explained: Callable[..., Any]) -> None:
    gate = 'schedulingGates: [{name: "wait"}],'
    text = NODES + POD % ("gated", gate, "1") + POD % ("other", "schedulerName: other,", "1")
    gated, other = explained(text)["pods"]
    assert (gated["result"], gated["podRejection"]["plugin"]) == ("gated", "SchedulingGates")
    assert (other["result"], other["choice"]) == ("ignored", None)


def test_a_pod_that_has_a_node_has_its_rank(explained: Callable[..., Any]) -> None:
    (pod,) = explained(NODES + POD % ("web", "nodeName: a,", "1"), "--pod", "web")["pods"]
    assert pod["current"]["rank"] == 1
    assert pod["current"]["wouldBeChosen"] is True


def test_answers_name_their_question() -> None:
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "1"}}}
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}}
    line = json.dumps({"name": "s", "objects": [node], "pods": [pod]})
    result = CliRunner().invoke(main, ["batch", "-"], input=line)
    report = json.loads(result.stdout)
    jsonschema.validate(report, SCHEMA)
    assert report["pods"][0]["scenario"] == "s"


if __name__ == "__main__":
    PUBLISHED.write_text(json.dumps(_json_schema(), indent=2) + "\n", encoding="utf-8")
