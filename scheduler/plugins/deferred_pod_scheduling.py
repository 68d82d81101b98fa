"""DeferredPodScheduling: a pod that waits for its resize fits on its node only, and is not bound.

The kubelet defers a resize for which the node has no room. The scheduler then makes room by
preemption, unless the node's owner forbids it.
Mirrors `pkg/scheduler/framework/plugins/deferredpodscheduling/deferred_pod_scheduling.go`, v1.37.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from scheduler.api.core import Node
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin
from scheduler.framework.resizes import waits_for_resize
from scheduler.framework.status import Status, reject_together, skip, unresolvable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.status import Rejections
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_OTHER_NODE: Final = unresolvable("pod assigned to different node")
_FORBIDDEN: Final = unresolvable("node had resize preemption disabled")
_FITS: Final = unresolvable("pod resize fits, waiting for Kubelet actuation")


class DeferredPodScheduling(Plugin):
    """Keep a pod that waits for its resize on its node."""

    only_takes_room: ClassVar[bool] = True

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip pods that do not wait for a resize."""
        return None if self._waits(pod) else skip()

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject other nodes, and the pod's node if nothing may be evicted there for a resize."""
        if not self._waits(pod):
            return None
        wanted = pod.spec.node_name
        is_elsewhere = nodes.name_codes.where(lambda name: wanted not in ("", name))
        forbids = nodes.derive(_forbids_preemption).where(bool)
        return reject_together((is_elsewhere, _OTHER_NODE), (forbids & ~is_elsewhere, _FORBIDDEN))

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Reject the pod, as it is not to be bound."""
        return _FITS if self._waits(pod) else None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        policy, add = ActionType.UPDATE_NODE_PREEMPTION_POLICY, ActionType.ADD
        hint = self.is_schedulable_after_node_change
        return [on(Node, policy, hint), on(Node, add, hint)]

    def is_schedulable_after_node_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the pod's node is new or has forbidden preemption, and allows it now."""
        original, modified = as_kind(Node, old, new)
        if modified is None or not self._waits(pod) or modified.metadata.name != pod.spec.node_name:
            return QueueingHint.QUEUE_SKIP
        was_allowed = original is not None and not _forbids_preemption(original)
        return QueueingHint(not was_allowed and not _forbids_preemption(modified))

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        return pod.spec.node_name, pod.pod.is_resize_deferred

    def _waits(self, pod: PodInfo) -> bool:
        return waits_for_resize(pod.pod, self.handle.feature_gates)


def _forbids_preemption(node: Node) -> bool:
    policy = node.spec.pod_preemption_policy
    return policy is not None and bool(policy.disable_resize_preemption)
