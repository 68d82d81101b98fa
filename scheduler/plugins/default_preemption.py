"""DefaultPreemption: evict pods of lower priority for a pod that fits no node.

PostFilter chooses the node that loses least, nominates the pod to it and evicts the victims in the
background. Until it is over PreEnqueue keeps the pod out of the queue. With the feature gate
WorkloadAwarePreemption, room is made for whole pod groups, and not for single members.
Mirrors `pkg/scheduler/framework/plugins/defaultpreemption`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from scheduler.api import field
from scheduler.api.pod_groups import PodGroup
from scheduler.config.types import (
    ALL_FIELDS,
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    WORKLOAD_AWARE_PREEMPTION,
    FeatureGates,
    Int32,
    PluginArgs,
)
from scheduler.config.versions import SchedulerVersion
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Status, unresolvable, unschedulable
from scheduler.preemption import Evaluator, Executor, PodGroupEvaluator, VictimRules
from scheduler.preemption.executor import ASYNC_PREEMPTION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from scheduler.api.field import FieldError
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.status import NodeToStatus
    from scheduler.framework.types import EqualMembers, PostFilterResult
    from scheduler.snapshot.pod_info import PodInfo

_WAITING: Final = unresolvable("waiting for the preemption for this pod to be finished")
_GROUP_WAITING: Final = unresolvable("waiting for the preemption for this pod group to be finished")


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    """Arguments of DefaultPreemption."""

    always_written: ClassVar[frozenset[str]] = ALL_FIELDS

    min_candidate_nodes_percentage: Int32 = 10
    """Least number of candidate nodes, in percent of all nodes. Default: 10."""

    min_candidate_nodes_absolute: Int32 = 100
    """Least number of candidate nodes. Default: 100. The larger of the two numbers counts."""

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        percentage = self.min_candidate_nodes_percentage
        absolute = self.min_candidate_nodes_absolute
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
        gates = self.handle.feature_gates
        if {WORKLOAD_AWARE_PREEMPTION, TOPOLOGY_AWARE_WORKLOAD_SCHEDULING} & gates:
            # Watched from now on.
            self.handle.lister(PodGroup)
        self._executor: Final = Executor(self.name, self.handle)
        self._pod_group_evaluator: Final = PodGroupEvaluator(self.handle, self._executor)
        self._evaluator: Final = Evaluator(
            self.handle,
            self._executor,
            offset_and_num_candidates=self.offset_and_num_candidates,
            rules=VictimRules(
                is_eligible_pod=getattr(self, "is_eligible_pod", None),
                more_important_pod=getattr(self, "more_important_pod", None),
                ordered_score_funcs=getattr(self, "ordered_score_funcs", None),
                in_order_seen=self.handle.version >= SchedulerVersion.V1_37,
            ),
        )

    @property
    def tried(self) -> Sequence[tuple[Sequence[str], bool]]:
        return self._pod_group_evaluator.tried

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Keep a pod out of the queue while its victims, or its group's, are being evicted."""
        if not self._is_async:
            return None
        if pod.spec.scheduling_group is not None and self._is_workload_aware:
            pod_group = self._pod_group_of(pod)
            if pod_group is None:
                return None
            running = self._executor.is_running_preemption(pod_group.metadata.uid)
            return _GROUP_WAITING if running else None
        return _WAITING if self._executor.is_running_preemption(pod.uid) else None

    async def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeToStatus
    ) -> tuple[PostFilterResult | None, Status | None]:
        try:
            if (reason := self._ineligibility_of_member(pod)) is not None:
                return None, unschedulable(f"preemption: {reason}")
            result, status = await self._evaluator.preempt(state, pod, statuses)
        finally:
            self.handle.metrics.preemption_attempts[()] += 1
        if status is not None and status.message:
            status = status.with_reasons_before("preemption: ")
        return result, status

    def post_filter_is_idle(self, state: CycleState, pod: PodInfo) -> bool:
        """True for a member that may not preempt by itself."""
        return self._ineligibility_of_member(pod) is not None

    def _ineligibility_of_member(self, pod: PodInfo) -> str | None:
        """Return the reason why a member of a pod group may not preempt by itself."""
        if pod.spec.scheduling_group is None:
            return None
        if TOPOLOGY_AWARE_WORKLOAD_SCHEDULING in self.handle.feature_gates:
            pod_group = self._pod_group_of(pod)
            if pod_group is None:
                return "pod group for pod not found"
            if pod_group.spec.scheduling_constraints is not None:
                return "not eligible due to placement-based pod group scheduling limitation"
        if self._is_workload_aware:
            return "not eligible due to workload aware preemption enabled"
        return None

    async def pod_group_post_filter(
        self,
        pod_group: PodGroup,
        pods: Sequence[PodInfo],
        schedule: Callable[[], Awaitable[Status | None]],
        equal_members: Callable[[], EqualMembers | None],
    ) -> Status | None:
        """Evict pods of lower priority, anywhere, so that the whole group fits."""
        return await self._pod_group_evaluator.preempt(pod_group, pods, schedule, equal_members)

    def _pod_group_of(self, pod: PodInfo) -> PodGroup | None:
        group = pod.spec.scheduling_group
        assert group is not None, "the pod is a member of a group"
        return self.handle.lister(PodGroup).get(group.pod_group_name, pod.namespace)

    def offset_and_num_candidates(self, nodes_total: int) -> tuple[int, int]:
        """Return a random node to begin with, and the number of candidates that is enough."""
        share = nodes_total * self.args.min_candidate_nodes_percentage // 100
        wanted = max(share, self.args.min_candidate_nodes_absolute)
        return self.handle.rng.randrange(nodes_total), min(wanted, nodes_total)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        if not self._is_async:
            return []
        hint = self.is_pod_schedulable_after_pod_deletion
        return self.on_pods(hint, assigned=ActionType.DELETE)

    def is_pod_schedulable_after_pod_deletion(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue members of pod groups only: the plugins that rejected a pod have their own hints.

        A member that fits goes back to the queue with its group, and no plugin has rejected it.
        Upstream skips it, and it stays gated when the preemption has ended.
        """
        is_member = pod.spec.scheduling_group is not None
        return QueueingHint(is_member and GENERIC_WORKLOAD in self.handle.feature_gates)

    @property
    def _is_workload_aware(self) -> bool:
        return WORKLOAD_AWARE_PREEMPTION in self.handle.feature_gates

    @property
    def _is_async(self) -> bool:
        return ASYNC_PREEMPTION in self.handle.feature_gates
