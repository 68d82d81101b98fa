"""NodeUnschedulable: cordoned nodes take no pods.

A node with `spec.unschedulable` takes only pods that tolerate the taint such a node is going to
have, `node.kubernetes.io/unschedulable:NoSchedule`, whether it has it yet or not.
Mirrors `pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.api.core import Node, Pod, Taint
from scheduler.api.tolerations import NO_SCHEDULE, is_tolerated
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    as_kind,
)
from scheduler.framework.interface import Plugin, Remedy
from scheduler.framework.status import Rejections, reject, unresolvable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo

_UNSCHEDULABLE: Final = unresolvable("node(s) were unschedulable")
_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class NodeUnschedulable(Plugin):
    """Respect cordons."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject cordoned nodes, unless the pod tolerates them."""
        rejections = reject(nodes.unschedulable, _UNSCHEDULABLE)
        # Cordons are rare: only where there is one are the pod's tolerations asked.
        if rejections is None or is_tolerated(_TAINT, pod.spec.tolerations):
            return None
        return rejections

    def remedies(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[Remedy]:
        """Uncordon the node."""
        return [Remedy(f"uncordon the node, or tolerate {_TAINT.key}:{_TAINT.effect}")]

    def events_to_register(self) -> list[ClusterEventWithHint]:
        """A node that comes or is uncordoned, and a pod that tolerates more."""
        node_change = ClusterEvent(
            EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT
        )
        pod_change = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
        return [
            ClusterEventWithHint(node_change, self.is_schedulable_after_node_change),
            ClusterEventWithHint(pod_change, self.is_schedulable_after_pod_toleration_change),
        ]

    def is_schedulable_after_node_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if a node is now schedulable that was not, or was not there."""
        original, modified = as_kind(Node, old, new)
        was_schedulable = original is not None and not original.spec.unschedulable
        is_schedulable = modified is not None and not modified.spec.unschedulable
        return QueueingHint(is_schedulable and not was_schedulable)

    def is_schedulable_after_pod_toleration_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if this pod now tolerates cordoned nodes.

        It did not before, or this plugin would not have turned it down.
        """
        _, modified = as_kind(Pod, old, new)
        if modified is None or modified.metadata.uid != pod.uid:
            return QueueingHint.QUEUE_SKIP
        return QueueingHint(is_tolerated(_TAINT, modified.spec.tolerations))

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        """The pod's tolerations."""
        return pod.spec.tolerations
