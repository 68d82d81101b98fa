"""NodeUnschedulable: `nodeunschedulable/node_unschedulable.go`."""

from __future__ import annotations

from scheduler.api.core import Node, Pod, Taint
from tests.reference.cluster import UNRESOLVABLE, Cluster, Verdict
from tests.reference.taint_toleration import tolerated


def filter_node(pod: Pod, node: Node, cluster: Cluster) -> Verdict | None:
    if not node.spec.unschedulable:
        return None
    taint = Taint(key="node.kubernetes.io/unschedulable", value="", effect="NoSchedule")
    if tolerated(taint, pod.spec.tolerations):
        return None
    return UNRESOLVABLE, ("node(s) were unschedulable",)
