"""TaintToleration: `tainttoleration/taint_toleration.go`, `core/v1/toleration.go`."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.api.core import Node, Pod, Taint, Toleration
from tests.reference.cluster import UNRESOLVABLE, Cluster, Verdict
from tests.reference.go_integers import default_normalize


def covers(toleration: Toleration, taint: Taint) -> bool:
    effect = toleration.effect == "" or toleration.effect == taint.effect
    key = toleration.key == "" or toleration.key == taint.key
    same_value = toleration.operator in ("", "Equal") and toleration.value == taint.value
    return effect and key and (toleration.operator == "Exists" or same_value)


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(covers(toleration, taint) for toleration in tolerations)


def filter_node(pod: Pod, node: Node, cluster: Cluster) -> Verdict | None:
    for taint in node.spec.taints:
        hard = taint.effect == "NoSchedule" or taint.effect == "NoExecute"
        if hard and not tolerated(taint, pod.spec.tolerations):
            return UNRESOLVABLE, ("node(s) had untolerated taint(s)",)
    return None


def score(pod: Pod, node: Node, cluster: Cluster) -> int:
    soft = [t for t in pod.spec.tolerations if t.effect in ("", "PreferNoSchedule")]
    untolerated = 0
    for taint in node.spec.taints:
        if taint.effect == "PreferNoSchedule" and not tolerated(taint, soft):
            untolerated += 1
    return untolerated


def normalize(scores: list[int]) -> list[int]:
    return default_normalize(scores, reverse=True)
