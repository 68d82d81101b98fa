"""A dump of a cluster as a scenario: which objects are there, and which pods are created."""

from pathlib import Path

import pytest

from conformance.differential.scenarios import case_of_snapshot
from conformance.errors import InputError
from conformance.format.steps import Advance, Create

DUMP = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a, uid: u, resourceVersion: "7"}}
- {apiVersion: v1, kind: Namespace, metadata: {name: team}}
- {apiVersion: v1, kind: Event, metadata: {name: e, namespace: team}}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: system-x}, value: 1}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1}
---
---
{apiVersion: v1, kind: Pod, metadata: {name: waits, namespace: other}, spec: {}}
---
{apiVersion: v1, kind: Pod, metadata: {name: runs, namespace: default}, spec: {nodeName: a}}
"""


def test_pods_without_a_node_are_created_in_the_cluster_of_the_rest(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(DUMP, encoding="utf-8")
    case = case_of_snapshot(dump)
    assert [item.namespace for item in case.cluster if item.namespace] == ["other", "team"]
    assert [item.object["metadata"] for item in case.cluster if item.object] == [
        {"name": "high"},
        {"name": "a"},
        {"name": "runs", "namespace": "default"},
    ]
    create, pause = (step.action for step in case.steps)
    assert isinstance(create, Create)
    assert [item.object and item.object["metadata"] for item in create.objects] == [
        {"name": "waits", "namespace": "other"}
    ]
    # Every pod is tried again after its backoff.
    assert pause == Advance(seconds=15.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no node in it"),
        ("- a\n- b", "expected API objects, got list"),
        ("apiVersion: v1\nkind: Node\n", "expected"),
        ("a: [", "while parsing a flow node"),
    ],
)
def test_a_bad_dump_is_bad_input(text: str, problem: str, tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=f"{dump}: {problem}"):
        case_of_snapshot(dump)


def test_a_dump_that_is_missing_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none: No such file or directory"):
        case_of_snapshot(tmp_path / "none")
