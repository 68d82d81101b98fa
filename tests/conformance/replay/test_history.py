"""Reading a history: objects that are created anew, and parts that are left out."""

import gzip
import json
from pathlib import Path
from typing import Any

from conformance.replay.history import History, read_history
from tests.conformance.replay.evidence import CPU_ONLY, task, write_history

NODE = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}


def _pod(name: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "7"}
    status = {"phase": "Pending"}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}, "status": status}


def _read(path: Path, *lines: tuple[float, str, str, dict[str, Any]]) -> History:
    names = ("at", "change", "resource", "object")
    text = "".join(json.dumps(dict(zip(names, line, strict=True))) + "\n" for line in lines)
    path.write_text('{"note": "no change"}\n' + text, encoding="utf-8")
    return read_history(path)


def test_objects_are_created_without_what_the_server_writes(tmp_path: Path) -> None:
    pod = _pod("p", priority=None)
    history = _read(tmp_path / "h.jsonl", (0, "ADDED", "nodes", NODE), (5, "ADDED", "pods", pod))
    [created] = history.pods
    assert created.created_seconds == 5
    assert created.object["metadata"] == {"name": "p", "namespace": "default"}
    assert "status" not in created.object
    [container] = created.object["spec"]["containers"]  # type: ignore[index]
    assert container["image"]
    [node] = history.nodes
    assert (node.object["apiVersion"], node.object["kind"]) == ("v1", "Node")


def test_the_decisions_of_the_history_are_left_out_and_ends_are_kept(tmp_path: Path) -> None:
    bound = _pod("p", nodeName="n")
    done = {**_pod("q"), "status": {"phase": "Succeeded"}}
    history = _read(
        tmp_path / "h.jsonl",
        (0, "ADDED", "nodes", NODE),
        (0, "ADDED", "pods", _pod("p")),
        (0, "ADDED", "pods", _pod("q")),
        (1, "MODIFIED", "pods", bound),
        (2, "MODIFIED", "pods", done),
        (3, "DELETED", "pods", bound),
    )
    assert [(pod.name, pod.ended_seconds) for pod in history.pods] == [("p", 3), ("q", 2)]
    assert "nodeName" not in str(history.pods[0].object)


def test_missing_namespaces_and_classes_are_made(tmp_path: Path) -> None:
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}
    }  # fmt: skip
    pod = _pod("p", "team", priority=7)
    history = _read(
        tmp_path / "h.jsonl",
        (0, "ADDED", "nodes", NODE),
        (0, "ADDED", "poddisruptionbudgets.policy", budget),
        (0, "ADDED", "pods", pod),
    )
    assert [pod.name for pod in history.pods] == ["team/p"]
    kinds = [(obj["kind"], obj["metadata"]["name"]) for obj in history.others]  # type: ignore[index]
    assert kinds == [
        ("Namespace", "team"), ("PriorityClass", "priority-7"), ("PodDisruptionBudget", "b")
    ]  # fmt: skip
    spec = history.pods[0].object["spec"]
    assert spec["priorityClassName"] == "priority-7"  # type: ignore[index]
    assert "priority" not in spec  # type: ignore[operator]


def test_a_limit_takes_the_first_pods_and_gzip_is_read(tmp_path: Path) -> None:
    plain = write_history(tmp_path / "h.jsonl", CPU_ONLY, task("a"), task("b"))
    packed = tmp_path / "h.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert [pod.name for pod in read_history(packed, limit=1).pods] == ["a"]


def test_changes_of_objects_become_patches_without_what_the_scheduler_has_decided(
    tmp_path: Path,
) -> None:
    tainted = {**NODE, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    larger = {**tainted, "status": {"allocatable": {"cpu": "8", "pods": "9"}}}
    labelled = _pod("p", nodeName="n")
    labelled["metadata"] = {**labelled["metadata"], "labels": {"a": "b"}}
    history = _read(
        tmp_path / "h.jsonl",
        (0, "ADDED", "nodes", NODE),
        (0, "ADDED", "pods", _pod("p")),
        (1, "MODIFIED", "pods", _pod("p", nodeName="n")),
        (2, "MODIFIED", "pods", labelled),
        (3, "MODIFIED", "nodes", tainted),
        (4, "MODIFIED", "nodes", larger),
        (5, "DELETED", "nodes", larger),
    )
    patches = [(write.seconds, write.patch, write.subresource) for write in history.writes]
    amounts = {"cpu": "8"}
    assert patches == [
        (2, {"metadata": {"labels": {"a": "b"}}}, ""),
        (3, {"spec": tainted["spec"]}, ""),
        (4, {"status": {"capacity": amounts, "allocatable": amounts}}, "status"),
        (5, None, ""),
    ]
