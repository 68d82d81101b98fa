"""A plugin as a user writes it, for the tests of the command line."""

from scheduler import CycleState, NodeInfo, Plugin, PodInfo, Status, unschedulable


class OnlySmall(Plugin):
    """Leave large nodes alone."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Reject nodes of more than a core."""
        if node.allocatable["cpu"] > 1000:
            return unschedulable("node(s) were large")
        return None
