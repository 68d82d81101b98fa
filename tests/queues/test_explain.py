"""Why a job waits, as `kubesched-explain` answers it with the example configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from scheduler.config.load import load_text
from scheduler.explain.cli import main
from scheduler.plugins import SCHEME

_EXAMPLES = Path(__file__).parent.parent.parent / "docs" / "examples"
_VERSION = "scheduling.incubator.k8s.io/v1alpha1"


def _node(name: str, cpu: int) -> dict[str, Any]:
    allocatable = {"cpu": str(cpu), "memory": "8Gi", "pods": "10"}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def _queue(name: str) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": _VERSION, "kind": "Queue", "metadata": metadata, "spec": {"weight": 1}}


def _group(name: str, queue: str, *, least: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": _VERSION,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queue": queue, "minMember": least},
    }


def _pod(name: str, cpu: int, *, node: str = "") -> dict[str, Any]:
    annotations = {"scheduling.k8s.io/group-name": name.partition("-")[0]}
    container = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
    }


def _answer(tmp_path: Path, pod: str, *objects: dict[str, Any]) -> str:
    manifests = tmp_path / "cluster.yaml"
    manifests.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    config = str(_EXAMPLES / "queues.yaml")
    arguments = ("--config", config, "--manifests", str(manifests), "--pod", pod)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_a_job_waits_for_the_share_of_its_queue(tmp_path: Path) -> None:
    cluster = (
        _node("n1", 4),
        *(_queue(name) for name in ("here", "there")),
        *(_group("one", "here"), _group("two", "there")),
        *(_pod("one-0", 2, node="n1"), _pod("two-0", 1, node="n1")),
        *(_pod("one-1", 1), _pod("two-1", 1)),
    )
    assert 'the queue "here" has the resources that it deserves' in _answer(
        tmp_path, "default/one-1", *cluster
    )


def test_a_job_waits_for_the_pods_of_its_gang(tmp_path: Path) -> None:
    cluster = (_node("n1", 4), _queue("here"), _group("one", "here", least=3), _pod("one-0", 1))
    assert 'waiting for 3 pods of the group "default/one" (minMember)' in _answer(
        tmp_path, "default/one-0", *cluster
    )


def test_a_job_waits_for_room_that_is_reserved(tmp_path: Path) -> None:
    cluster = (
        _node("n1", 4),
        *(_queue(name) for name in ("here", "there")),
        *(_group("one", "here"), _group("first", "there"), _group("second", "there")),
        *(_pod(f"one-{number}", 1, node="n1") for number in range(4)),
        *(_pod("first-0", 2), _pod("second-0", 1)),
    )
    assert "node(s) had room that is reserved for another job" in _answer(
        tmp_path, "default/second-0", *cluster
    )


@pytest.mark.parametrize("path", sorted(_EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_are_valid_and_shown_in_the_docs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    pages = [page.read_text(encoding="utf-8") for page in (_EXAMPLES.parent).glob("*.md")]
    assert any(text in page for page in pages)
    if "KubeSchedulerConfiguration" in text:
        load_text(text, SCHEME)
