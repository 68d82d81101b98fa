"""The input of the reference rules, and their results."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.api.core import Node, Pod

UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"

#: A code and its reasons.
Verdict = tuple[str, tuple[str, ...]]


class Cluster(NamedTuple):
    """Nodes, and pods with a node."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...] = ()

    def pods_on(self, node: Node) -> list[Pod]:
        return [pod for pod in self.pods if pod.spec.node_name == node.metadata.name]
