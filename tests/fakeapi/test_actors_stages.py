"""KWOK Stages: objects move on as their files say; what is not understood is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakeapi.actors.stages import StageError, read_stages

from .actor_cluster import PODS, cluster, pod

if TYPE_CHECKING:
    from pathlib import Path

READY = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {app: a}
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: DoesNotExist}
    - {key: '.status.phase', operator: In, values: [Pending]}
  delay: {durationMilliseconds: 2000}
  next:
    statusTemplate: |
      phase: Running
      startTime: {{ Now }}
      message: on {{ .spec.nodeName }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: gone}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: Exists}
  next:
    finalizers: {empty: true}
    delete: true
"""


async def test_pods_go_from_stage_to_stage(tmp_path: Path) -> None:
    path = tmp_path / "stages.yaml"
    path.write_text(READY, encoding="utf-8")
    async with cluster(stages=[path]) as c:
        body = pod()
        body["metadata"] |= {"labels": {"app": "a"}, "finalizers": ["my/finalizer"]}
        await c.create(PODS, body)
        await c.create(PODS, pod("other"))
        await c.advance(1.9)
        assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Pending"
        await c.advance(0.1)
        status = (await c.read(f"{PODS}/p"))["status"]
        assert (status["phase"], status["message"]) == ("Running", "on n1")
        assert (await c.read(f"{PODS}/other"))["status"]["phase"] == "Pending"
        await c.api.delete(f"{PODS}/p")
        await c.settle()
        assert await c.code(f"{PODS}/p") == 404


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("{{ Now }}", "{{ range .x }}", r"\{\{ range .x \}\}: not supported"),
        ("phase: Running", "{{ NodeIP | Quote }}", "NodeIP"),
        ("delete: true", "event: {}", "spec.next.event: not supported"),
        ("kind: Pod}", "kind: Job}", "expected Pod or Node"),
        ("'.status.phase'", "'.a[] | select(.x)'", "no plain path"),
    ],
)
def test_what_is_not_understood_is_named(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    path = tmp_path / "stages.yaml"
    path.write_text(READY.replace(old, new), encoding="utf-8")
    with pytest.raises(StageError, match=complaint):
        read_stages(path)
