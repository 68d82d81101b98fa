"""Queues: fair shares between queues, gangs, reclaim, preemption and backfill, as in kube-batch.

QueueSort orders pods by queue, job and task. PreEnqueue lets one task of a job be tried at a time:
the first of those without a node. PreFilter rejects the task while its queue has its deserved
amounts. Filter rejects nodes whose room is reserved. PostFilter evicts. Permit holds the members of
a gang until enough of them have a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from scheduler.config.types import GENERIC_WORKLOAD
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Status, skip, unresolvable, unschedulable, wait
from scheduler.framework.types import (
    NominatingInfo,
    NominatingMode,
    PostFilterResult,
    PreFilterResult,
)
from scheduler.queues.args import Action, QueuesArgs, Rule
from scheduler.queues.evictions import Evictions
from scheduler.queues.jobs import TaskState
from scheduler.queues.ledger import Ledger, LedgerOptions
from scheduler.queues.objects import POD_GROUP_KINDS, PRIORITY_CLASS_KIND, QUEUE_KINDS
from scheduler.queues.order import Order
from scheduler.queues.parts import Parts
from scheduler.queues.reservations import reservations_of_all
from scheduler.queues.starvation import Starvation
from scheduler.queues.statuses import Statuses
from scheduler.queues.waking import Waking
from scheduler.queues.water_filling import deserved, deserved_together

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.events import ClusterEventWithHint
    from scheduler.framework.status import NodeToStatus, Rejections
    from scheduler.framework.types import QueuedPod
    from scheduler.queues.jobs import Job
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_VICTIMS_END: Final = "waiting for the pods that were evicted for this job to end"


class Queues(Plugin):
    """Share the cluster between queues of jobs."""

    Args = QueuesArgs
    args: QueuesArgs
    order_changes: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = (
        *QUEUE_KINDS,
        *POD_GROUP_KINDS,
        PRIORITY_CLASS_KIND,
        "poddisruptionbudgets",
    )

    def __init__(self) -> None:
        args, handle = self.args, self.handle
        self._ledger: Final = handle.shared(Ledger)
        self._ledger.join(
            handle.profile_name,
            LedgerOptions(
                args.default_queue,
                tasks_by_priority=Rule.PRIORITY in args.task_order and Rule.PRIORITY in args.rules,
                fill=deserved if args.fill_each_resource else deserved_together,
            ),
        )
        self._reservations: Final = handle.shared(reservations_of_all)
        self._order: Final = Order(args, self._ledger, self._reservations)
        parts = Parts(handle, args, self._ledger, self._order, self._reservations)
        self._waking: Final = Waking(parts)
        self._evictions: Final = Evictions(self.name, parts)
        self._starvation: Final = Starvation(parts)
        self._statuses: Final = handle.shared(Statuses)
        handle.metrics.queue_resources.read = self._ledger.resources_by_label
        #: True while PreFilter runs for tasks that are in no cycle.
        self._is_planning = False
        self._has_gangs: Final = Rule.GANG in args.rules
        self._has_core_groups: Final = GENERIC_WORKLOAD in handle.feature_gates

    # The queue.

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        """Return True if the first pod goes before the second."""
        return self.sort_key(first) < self.sort_key(second)

    def sort_key(self, queued: QueuedPod) -> tuple[object, ...]:
        """Return the place in the order as it is now."""
        return self._order.key(queued)

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """No event: the plugin activates the pods that it has rejected itself."""
        return ()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Reject a task that cannot start, and all tasks of a job but the next one."""
        job = self._ledger.job_of(pod)
        if job is None:
            return None
        if self._ledger.queue_of(job) is None:
            return unresolvable(self._missing(job))
        if self._is_core_member(pod):
            return None
        if self._has_gangs and self.args.release_unfit_gangs and not job.has_enough:
            return unresolvable(
                f'waiting for {job.group.min_member} pods of the group "{job.key}" (minMember)'
            )
        if job.tasks[pod.uid].is_best_effort:
            if Action.BACKFILL in self.args.actions:
                return None
            return unresolvable('the pod requests nothing, and the action "backfill" is off')
        if self._evictions.is_running(pod.uid):
            return unresolvable(_VICTIMS_END)
        return self._behind(job, pod)

    def _behind(self, job: Job, pod: PodInfo) -> Status | None:
        """Reject a task with requests that is not the next one of its job."""
        head = job.head
        if head is None or head.uid == pod.uid or job.tasks[pod.uid].is_best_effort:
            return None
        if self._is_core_member(pod):
            return None
        return unresolvable(f'waiting behind the pod "{head.pod.key}" of the same group')

    def _missing(self, job: Job) -> str:
        """Return the object that a job waits for."""
        if not job.is_shadow and job.key not in self._ledger.groups:
            return f'waiting for the PodGroup "{job.key}" to exist'
        return f'waiting for the Queue "{job.group.queue or self.args.default_queue}" to exist'

    def _is_core_member(self, pod: PodInfo) -> bool:
        """Return True for a member of a core PodGroup, which is scheduled in one cycle."""
        return self._has_core_groups and pod.spec.scheduling_group is not None

    # The scheduling cycle.

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> PreFilterResult | Status | None:
        """Reject a task of a queue that has its share; send a task to its reserved node."""
        job = self._ledger.job_of(pod)
        status = None
        if job is not None and not self._is_planning:
            status = self._behind(job, pod) or self._beyond_share(job, pod)
        if status is not None:
            return status
        if not self._reservations:
            return skip()
        reservation = self._reservations.get(pod.uid)
        if reservation is not None and reservation.is_exclusive:
            return PreFilterResult(frozenset({reservation.node_name}))
        return None

    def _beyond_share(self, job: Job, pod: PodInfo) -> Status | None:
        """Reject a task of a queue that has its share; a gang that has begun goes on."""
        queue = self._ledger.queue_of(job)
        if (
            queue is None
            or Rule.PROPORTION not in self.args.rules
            or job.tasks[pod.uid].is_best_effort
            or job.is_in_progress
            or self._reservations.get(pod.uid) is not None
            or not self._waking.has_its_share(queue.name)
        ):
            return None
        self._waking.wait_for_share(job)
        return unschedulable(f'the queue "{queue.name}" has the resources that it deserves')

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes with too little room beside the reserved pods."""
        if not self._reservations:
            return None
        job, own = self._ledger.job_of(pod), self._reservations.get(pod.uid)
        is_best_effort = job is not None and job.tasks[pod.uid].is_best_effort
        if is_best_effort and not self.args.backfill_respects_reservations:
            return None
        goes_first = (
            self._is_planning
            or (own is not None and own.is_exclusive)
            or (job is not None and self._starvation.yields_to(job))
        )
        key = job.key if job is not None else ""
        return self._reservations.filter_nodes(
            pod, nodes, job_key=key, beside_starving=not goes_first
        )

    async def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeToStatus
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Evict pods for a task, or release what its gang holds."""
        job = self._ledger.job_of(pod)
        if job is None or self._ledger.queue_of(job) is None:
            return None, unschedulable()
        if self._behind(job, pod) is not None:
            return None, unschedulable()
        if self._evictions.waits_for_victims(pod):
            return None, unschedulable(_VICTIMS_END)
        task = job.tasks[pod.uid]
        if not task.is_best_effort:
            plan = await self._make_room(job, state, statuses)
            if plan is not None:
                node_name, status = plan
                nominated = NominatingInfo(node_name, NominatingMode.OVERRIDE)
                return PostFilterResult(nominated), status
        if not self._waking.is_sharing(job):
            self._waking.failed(job)
            self._statuses.unschedulable(job, self._reason(statuses))
        if self._has_gangs and self.args.release_unfit_gangs:
            self._release_unfit(job, pod)
        return None, unschedulable()

    async def _make_room(
        self, job: Job, state: CycleState, statuses: NodeToStatus
    ) -> tuple[str, Status | None] | None:
        """Evict pods for a job, as `Evictions.evict_for`, or reserve nodes if it starves."""
        had_reservations = bool(self._reservations.of_job(job.key))
        has_its_share = self._waking.is_sharing(job)
        self._is_planning = True
        try:
            plan = await self._evictions.evict_for(
                job, state, statuses, has_its_share=has_its_share
            )
            if plan is None and not has_its_share:
                await self._starvation.failed(job)
        finally:
            self._is_planning = False
        if had_reservations and not self._reservations.of_job(job.key):
            self._waking.on_room(self._ledger.jobs.values())
        return plan

    def _reason(self, statuses: NodeToStatus) -> str:
        """Return why a pod fits on no node, in kube-batch's words."""
        total = len(self.handle.snapshot)
        reasons = statuses.reasons(total)
        counted = sorted(f"{count} {text.lower()}" for text, count in reasons.items())
        return ", ".join([f"0/{total} nodes are available", *counted]) + "."

    def _release_unfit(self, job: Job, failed: PodInfo) -> None:
        """Give up the nodes of a gang that cannot become complete without the pod that failed."""
        task = job.tasks[failed.uid]
        left = job.best_effort_count - task.is_best_effort
        if job.is_ready or job.ready_count + left >= job.group.min_member:
            return
        for member in list(job.in_state(TaskState.RESERVED)):
            waiting = self.handle.get_waiting_pod(member.uid)
            if waiting is not None:
                self.handle.metrics.queue_gangs_released[(self.handle.profile_name,)] += 1
                waiting.reject(
                    self.name, f'the group "{job.key}" does not fit: no node for "{failed.key}"'
                )

    # The binding.

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Count the task as one with a node; the next one of its job may be tried."""
        self._ledger.reserve(pod)
        self._reservations.drop(pod.uid)
        job = self._ledger.job_of(pod)
        if job is not None and not self._is_core_member(pod):
            self._waking.placed(job)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Count the task as one without a node again."""
        job = self._ledger.unreserve(pod)
        if job is not None:
            self._waking.released(job)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Hold the members of a gang until enough of them have a node, then allow all."""
        job = self._ledger.job_of(pod)
        if job is None or not self._has_gangs or self._is_core_member(pod):
            return None
        if not job.is_ready:
            return wait(
                self.args.gang_timeout_seconds,
                f'waiting for {job.group.min_member} pods of the group "{job.key}" to have a node',
            )
        for member in job.in_state(TaskState.RESERVED):
            waiting = self.handle.get_waiting_pod(member.uid)
            if waiting is not None:
                waiting.allow(self.name)
        return None
