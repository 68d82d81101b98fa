"""A plugin whose rejections are texts from the cluster."""

from scheduler import CycleState, NodeInfo, Plugin, PodInfo, Status, unschedulable


class Hostile(Plugin):
    """Rejects nodes with the text of an annotation."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        reason = node.node.metadata.annotations.get("reason")
        return unschedulable(reason) if reason else None
