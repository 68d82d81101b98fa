"""The search for nodes for all members of a pod group, over one snapshot.

Each member is scheduled as a single pod is, and then assumed in the snapshot, so that the next
member sees it; Permit reads the snapshot as well. In the end all of them are forgotten there.

A large group in many placements takes many seconds, so other tasks run between two members: the
lease is renewed, and events change the cache and the queue. The search does not notice: it reads
the snapshot, the popped members, and the nominations, in which an event is seen as if it had come
before the cycle. No other cycle begins meanwhile (`SchedulingLoop.is_in_cycle`).
Source: `pkg/scheduler/schedule_one_podgroup.go`.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Final

from scheduler.config import TOPOLOGY_AWARE_WORKLOAD_SCHEDULING
from scheduler.cycle.pod_group.placement_search import PlacementSearch
from scheduler.cycle.pod_group.results import SUCCESS, UNSCHEDULABLE, MemberResult, PodGroupResult
from scheduler.cycle.schedule_one import Found, find_node
from scheduler.framework.cycle_state import CycleState, claim_statuses
from scheduler.framework.status import Code, Status
from scheduler.framework.types import NominatingInfo, NominatingMode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.cycle.attempt import CycleParts
    from scheduler.cycle.pod_group.results import PodGroupAttempt
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.runtime.framework import Framework
    from scheduler.snapshot.pod_info import PodInfo


class PodGroupSearch:
    """The search of one cycle. It may run several times, on a snapshot that preemption changes."""

    def __init__(self, parts: CycleParts, framework: Framework, attempt: PodGroupAttempt) -> None:
        self._parts: Final = parts
        self.framework: Final = framework
        self._attempt: Final = attempt
        self._state: Final = CycleState()
        self._snapshot: Final = parts.algorithm.snapshot
        self._stopwatch: Final = framework.handle.metrics.stopwatch
        #: The result of the last run.
        self.last = attempt.result

    async def run(self, *, run_post_filters: bool) -> PodGroupResult:
        """Run the algorithm: with the feature gate in each placement, else once over all nodes."""
        schedule = functools.partial(self._schedule_members, run_post_filters=run_post_filters)
        if TOPOLOGY_AWARE_WORKLOAD_SCHEDULING in self._parts.feature_gates:
            search = PlacementSearch(self._parts, self.framework, self._attempt, schedule)
            self.last = await search.run(records=run_post_filters)
        else:
            self.last = await schedule()
        return self.last

    async def _schedule_members(
        self,
        *,
        run_post_filters: bool,
        is_enough: Callable[[Sequence[MemberResult]], bool] = lambda tried: False,
    ) -> PodGroupResult:
        """Schedule each member in turn, until the members tried are enough.

        Source: `podGroupSchedulingDefaultAlgorithm`.
        """
        result = PodGroupResult(status=Status(Code.UNSCHEDULABLE, UNSCHEDULABLE))
        requires_preemption = False
        with contextlib.ExitStack() as placed:
            for queued in self._attempt.members:
                member = await self._schedule_member(
                    queued, placed, run_post_filters=run_post_filters
                )
                result.members.append(member)
                await self._parts.let_others_run()
                failure = None if member.requires_preemption else member.status
                if failure is not None and not failure.is_rejected:
                    text = f"failed to schedule other pod from a pod group: {failure.message}"
                    result.status = Status(Code.ERROR, text, cause=failure.cause)
                    result.waiting_on_preemption = False
                    break
                requires_preemption |= member.requires_preemption
                if member.permit_status is not None and member.permit_status.is_success:
                    if requires_preemption:
                        waiting = "pod group is waiting for preemption to complete"
                        result.status = Status(Code.UNSCHEDULABLE, UNSCHEDULABLE, waiting)
                        result.waiting_on_preemption = True
                    else:
                        result.status = None
                if is_enough(result.members):
                    break
        return result

    async def _schedule_member(
        self, queued: QueuedPodInfo, placed: contextlib.ExitStack, *, run_post_filters: bool
    ) -> MemberResult:
        """Schedule one member and assume it in the snapshot, until `placed` is closed.

        Source: `podGroupPodSchedulingAlgorithm`.
        """
        attempt = self._parts.attempts.start(self.framework, queued)
        attempt.state.pod_group_state = self._state
        found = await find_node(self._parts, attempt, run_post_filters=run_post_filters)
        member = MemberResult(attempt=attempt, found=found, status=found.status)
        info = found.nominating_info
        if found.result is not None:
            member.host = found.result.suggested_host
        elif info is not None and info.nominated_node_name:
            # The other members have to see this one where it will be.
            member.host, member.requires_preemption = info.nominated_node_name, True
        if member.host and (failure := self._assume(member, placed)) is not None:
            member.host, member.requires_preemption = "", False
            member.status, member.found = failure, Found(found.result, failure)
        member.seconds = self._stopwatch() - attempt.started
        return member

    def _assume(self, member: MemberResult, placed: contextlib.ExitStack) -> Status | None:
        """Assume a member in the snapshot, run Reserve and Permit; undo all if one fails."""
        attempt, plugins, state = member.attempt, self.framework.binding, member.attempt.state
        attempt.host = member.host
        pod = attempt.pod.assigned_to(member.host, claim_statuses(state, member.host))
        self._snapshot.assume_pod(pod)
        with contextlib.ExitStack() as undo:
            undo.callback(self._undo, state, pod)
            self._parts.queue.nominator.delete_nominated_pod_if_exists(pod)
            status = plugins.reserve(state, pod, member.host)
            if status is None:
                outcome = plugins.permit(state, pod, member.host)
                status = outcome.status
            if status is None:
                member.permit_status = outcome.waiting or SUCCESS
                undo.pop_all()
                placed.callback(self._undo, state, pod)
                return None
        failure = attempt.on_host_only(status)
        attempt.host = ""
        return failure

    def _undo(self, state: CycleState, pod: PodInfo) -> None:
        """Run Unreserve, forget a member in the snapshot and restore its nomination."""
        self.framework.binding.unreserve(state, pod, pod.spec.node_name)
        self._snapshot.forget_pod(pod)
        if nominated := pod.pod.status.nominated_node_name:
            info = NominatingInfo(nominated, NominatingMode.OVERRIDE)
            self._parts.queue.nominator.add_nominated_pod(pod, info)
