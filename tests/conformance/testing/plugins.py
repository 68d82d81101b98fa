"""A plugin for the tests of `Cluster`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler import Plugin, unschedulable

if TYPE_CHECKING:
    from scheduler import CycleState, NodeInfo, Pod, Status


class NotOnNodeA(Plugin):
    """Reject the node `a`."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return unschedulable("node a") if node.name == "a" else None
