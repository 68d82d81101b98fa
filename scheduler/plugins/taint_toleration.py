"""TaintToleration: reject nodes with taints the pod does not tolerate, or score them lower.

NoSchedule and NoExecute taints reject a node. The fewer PreferNoSchedule taints the pod does not
tolerate, the higher the score.
Mirrors `pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from scheduler.api.core import Node, Toleration
from scheduler.api.tolerations import (
    HARD_EFFECTS,
    PREFER_NO_SCHEDULE,
    find_untolerated_taint,
    is_tolerated,
    taint_text,
    tolerates,
    toleration_rule,
)
from scheduler.config.versions import SchedulerVersion
from scheduler.framework.arithmetic import default_normalize_score
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin, Remedy
from scheduler.framework.status import Rejections, reject, unresolvable
from scheduler.plugins._queueing_hints import queue_for_itself

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from scheduler.api.core import Taint
    from scheduler.api.tolerations import Tolerates
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo

_UNTOLERATED: Final = unresolvable("node(s) had untolerated taint(s)")

#: The tolerations that can match a PreferNoSchedule taint.
_TOLERATIONS: Final = StateKey[tuple[Toleration, ...]](
    "PreScoreTaintToleration", 'failed to read "{}" from cycleState: not found'
)


class TaintToleration(Plugin):
    """Keep pods off nodes whose taints they do not tolerate."""

    only_takes_room: ClassVar[bool] = True
    ignores_resizes = True
    points_since: ClassVar = {"pre_filter": SchedulerVersion.V1_37}
    only_ranks = True

    def __init__(self) -> None:
        self._rule: Final = toleration_rule(self.handle.feature_gates)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        """Reject no pod; a pod that waits for its resize is left out before."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        tolerations = pod.spec.tolerations
        untolerated = nodes.taints.where(lambda taints: self._forbid(taints, tolerations))
        return reject(untolerated, _UNTOLERATED)

    def remedies(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[Remedy]:
        texts = (
            taint_text(taint)
            for taint in node.taints
            if self._forbid((taint,), pod.spec.tolerations)
        )
        return [
            Remedy(f"tolerate {text}", 1.0, f"tolerate {text}", f"remove the taint {text}")
            for text in texts
        ]

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        """Store the tolerations that can match PreferNoSchedule taints."""
        tolerations = pod.spec.tolerations
        state.write(
            _TOLERATIONS, tuple(t for t in tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
        )

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """Return each node's number of PreferNoSchedule taints that the pod does not tolerate."""
        tolerations = state.read(_TOLERATIONS)
        return nodes.taints.map(lambda taints: count_intolerable(taints, tolerations, self._rule))

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        return default_normalize_score(scores, reverse=True)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        node_change, pod_change = ActionType.UPDATE_NODE_TAINT, ActionType.UPDATE_POD_TOLERATION
        return [
            on(Node, ActionType.ADD | node_change, self.is_schedulable_after_node_change),
            *self.on_pods(queue_for_itself, target=pod_change),
        ]

    def is_schedulable_after_node_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the node's taints are tolerated and were not before, or the node is new."""
        original, modified = as_kind(Node, old, new)
        tolerations = pod.spec.tolerations
        if modified is None or self._forbid(modified.spec.taints, tolerations):
            return QueueingHint.QUEUE_SKIP
        return QueueingHint(original is None or self._forbid(original.spec.taints, tolerations))

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        return pod.spec.tolerations

    def _forbid(self, taints: Sequence[Taint] | None, tolerations: Sequence[Toleration]) -> bool:
        untolerated = find_untolerated_taint(taints or (), tolerations, HARD_EFFECTS, self._rule)
        return untolerated is not None


def count_intolerable(
    taints: Sequence[Taint] | None, tolerations: Sequence[Toleration], rule: Tolerates = tolerates
) -> int:
    """Return the number of PreferNoSchedule taints that are not tolerated."""
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint, tolerations, rule)
        for taint in taints or ()
    )
