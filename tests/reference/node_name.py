"""NodeName: `nodename/node_name.go`."""

from __future__ import annotations

from scheduler.api.core import Node, Pod
from tests.reference.cluster import UNRESOLVABLE, Cluster, Verdict


def filter_node(pod: Pod, node: Node, cluster: Cluster) -> Verdict | None:
    if pod.spec.node_name in ("", node.metadata.name):
        return None
    return UNRESOLVABLE, ("node(s) didn't match the requested node name",)
