"""Plugins that the conformance suite is run with."""

from scheduler import CycleState, NodeInfo, Plugin, PodInfo, Status


class Quiet(Plugin):
    """Accepts every node."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None


class Faulty(Plugin):
    """Reads a label that no node has."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        print(node.labels["rack"])
        return None
