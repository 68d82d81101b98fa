"""NodeUnschedulable: reject cordoned nodes.

A node with `spec.unschedulable` accepts only pods that tolerate the taint
`node.kubernetes.io/unschedulable:NoSchedule`, even if the node does not have the taint yet.
Mirrors `pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from scheduler.api.core import Node, Taint
from scheduler.api.tolerations import NO_SCHEDULE, is_tolerated
from scheduler.config.versions import SchedulerVersion
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin, Remedy
from scheduler.framework.status import Rejections, reject, unresolvable
from scheduler.plugins._queueing_hints import updated_self

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo

_UNSCHEDULABLE: Final = unresolvable("node(s) were unschedulable")
_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class NodeUnschedulable(Plugin):
    """Keep pods off cordoned nodes."""

    only_takes_room: ClassVar[bool] = True
    ignores_resizes = True
    points_since: ClassVar = {"pre_filter": SchedulerVersion.V1_37}

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        """Reject no pod; a pod that waits for its resize is left out before."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        rejections = reject(nodes.unschedulable, _UNSCHEDULABLE)
        # Cordons are rare: tolerations are checked only if there is one.
        if rejections is None or is_tolerated(_TAINT, pod.spec.tolerations):
            return None
        return rejections

    def remedies(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[Remedy]:
        tolerate = f"tolerate {_TAINT.key}:{_TAINT.effect}"
        return [Remedy(f"uncordon the node, or {tolerate}", 1.0, tolerate, "uncordon")]

    def events_to_register(self) -> list[ClusterEventWithHint]:
        node_change, pod_change = ActionType.UPDATE_NODE_TAINT, ActionType.UPDATE_POD_TOLERATION
        return [
            on(Node, ActionType.ADD | node_change, self.is_schedulable_after_node_change),
            *self.on_pods(self.is_schedulable_after_pod_toleration_change, target=pod_change),
        ]

    def is_schedulable_after_node_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if a node became schedulable or is new and schedulable."""
        original, modified = as_kind(Node, old, new)
        was_schedulable = original is not None and not original.spec.unschedulable
        is_schedulable = modified is not None and not modified.spec.unschedulable
        return QueueingHint(is_schedulable and not was_schedulable)

    def is_schedulable_after_pod_toleration_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if this pod was updated and now tolerates cordoned nodes.

        A rejected pod did not tolerate them before.
        """
        modified = updated_self(pod, old, new)
        return QueueingHint(
            modified is not None and is_tolerated(_TAINT, modified.spec.tolerations)
        )

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        return pod.spec.tolerations
