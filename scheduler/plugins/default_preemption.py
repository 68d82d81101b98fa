"""DefaultPreemption: evict pods of lower priority for a pod that fits no node.

PostFilter chooses the node that loses least, nominates the pod to it and evicts the victims in the
background. Until that is done PreEnqueue keeps the pod out of the queue. Not supported: preemption
for whole pod groups (gate WorkloadAwarePreemption, off by default).
Mirrors `pkg/scheduler/framework/plugins/defaultpreemption`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from scheduler.api import field
from scheduler.config.types import ALL_FIELDS, FeatureGates, Int32, PluginArgs
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Status, unresolvable
from scheduler.preemption import Evaluator, Executor, VictimRules
from scheduler.preemption.executor import ASYNC_PREEMPTION

if TYPE_CHECKING:
    from scheduler.api.field import FieldError
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.status import NodeToStatus
    from scheduler.framework.types import PostFilterResult
    from scheduler.snapshot.pod_info import PodInfo

_WAITING: Final = unresolvable("waiting for the preemption for this pod to be finished")


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    """Arguments of DefaultPreemption."""

    always_written: ClassVar[frozenset[str]] = ALL_FIELDS

    min_candidate_nodes_percentage: Int32 = 10
    """Least number of candidate nodes, in percent of all nodes. Default: 10."""

    min_candidate_nodes_absolute: Int32 = 100
    """Least number of candidate nodes. Default: 100. The larger of the two numbers counts."""

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        percentage, absolute = (
            self.min_candidate_nodes_percentage,
            self.min_candidate_nodes_absolute,
        )
        percentage_path = field.child_path(path, "minCandidateNodesPercentage")
        absolute_path = field.child_path(path, "minCandidateNodesAbsolute")
        errors = []
        if not 0 <= percentage <= 100:
            errors.append(field.invalid(percentage_path, percentage, "not in valid range [0, 100]"))
        if absolute < 0:
            errors.append(field.invalid(absolute_path, absolute, "not in valid range [0, inf)"))
        if percentage == 0 and absolute == 0:
            at_the_same_time = "cannot be zero at the same time as"
            errors += [
                field.invalid(percentage_path, 0, f"{at_the_same_time} minCandidateNodesAbsolute"),
                field.invalid(absolute_path, 0, f"{at_the_same_time} minCandidateNodesPercentage"),
            ]
        return errors


class DefaultPreemption(Plugin):
    """Make room for pods of higher priority.

    A subclass may define methods to change rules:
    `is_eligible_pod(node, victim, preemptor)`, `more_important_pod(first, second)` and
    `ordered_score_funcs(candidates)`; see `scheduler.preemption.VictimRules`.
    """

    reads: ClassVar[tuple[str, ...]] = ("poddisruptionbudgets",)
    Args = DefaultPreemptionArgs
    args: DefaultPreemptionArgs

    def __init__(self) -> None:
        self._executor: Final = Executor(self.name, self.handle)
        self._evaluator: Final = Evaluator(
            self.handle,
            self._executor,
            offset_and_num_candidates=self.offset_and_num_candidates,
            rules=VictimRules(
                is_eligible_pod=getattr(self, "is_eligible_pod", None),
                more_important_pod=getattr(self, "more_important_pod", None),
                ordered_score_funcs=getattr(self, "ordered_score_funcs", None),
            ),
        )

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Keep a pod out of the queue while its victims are being evicted."""
        if self._is_async and self._executor.is_pod_running_preemption(pod.uid):
            return _WAITING
        return None

    async def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeToStatus
    ) -> tuple[PostFilterResult | None, Status | None]:
        try:
            result, status = await self._evaluator.preempt(state, pod, statuses)
        finally:
            self.handle.metrics.preemption_attempts[()] += 1
        if status is not None and status.message:
            status = status.with_reasons_before("preemption: ")
        return result, status

    def offset_and_num_candidates(self, nodes_total: int) -> tuple[int, int]:
        """Return a random node to begin with, and the number of candidates that is enough."""
        share = nodes_total * self.args.min_candidate_nodes_percentage // 100
        wanted = max(share, self.args.min_candidate_nodes_absolute)
        return self.handle.rng.randrange(nodes_total), min(wanted, nodes_total)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        if not self._is_async:
            return []
        event = ClusterEvent(EventResource.POD, ActionType.DELETE)
        return [ClusterEventWithHint(event, self.is_pod_schedulable_after_pod_deletion)]

    def is_pod_schedulable_after_pod_deletion(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Skip: the plugins that rejected the pod have hints of their own."""
        return QueueingHint.QUEUE_SKIP

    @property
    def _is_async(self) -> bool:
        return ASYNC_PREEMPTION in self.handle.feature_gates
