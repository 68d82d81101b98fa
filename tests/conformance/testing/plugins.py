"""A plugin for the tests of `Cluster`."""

from scheduler import CycleState, NodeInfo, Plugin, Pod, Status, unschedulable


class NotOnNodeA(Plugin):
    """Reject the node `a`."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return unschedulable("node a") if node.name == "a" else None
