"""The scheduling cycle of a pod group: all its waiting members, over one snapshot.

    popped --> the other members are popped too --> placements --> each member in turn
                                                                     |
    submitted <-- preemption for the whole group, if it does not fit <'

Each member is scheduled as a single pod is, and then assumed in the snapshot, so that the next
member sees it; Permit reads the snapshot as well. In the end all of them are forgotten there. If
Permit allows a member, the group is schedulable: its fitting members are assumed in the cache, and
their binding cycles start. Else all members go back to the queue.
Source: `pkg/scheduler/schedule_one_podgroup.go`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from scheduler.api.pod_groups import POD_GROUP_SCHEDULED
from scheduler.client import ClientError
from scheduler.config import TOPOLOGY_AWARE_WORKLOAD_SCHEDULING, WORKLOAD_AWARE_PREEMPTION
from scheduler.cycle.failure_handler import fail
from scheduler.cycle.schedule_one import Found, assume_and_bind, find_node, skip_pod_schedule
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code, Status, error
from scheduler.framework.types import (
    Condition,
    NominatingInfo,
    NominatingMode,
    Placement,
    PodGroupAssignments,
    PodGroupInfo,
)
from scheduler.stories import GroupAttempted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.api.pod_groups import PodGroup
    from scheduler.cycle.attempt import Attempt, CycleParts
    from scheduler.framework.interface import PodGroupPreemption
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.runtime.framework import Framework
    from scheduler.runtime.placements import PlacementScores
    from scheduler.snapshot.pod_info import PodInfo

_log: Final = logging.getLogger(__name__)

_UNSCHEDULABLE: Final = "pod group is unschedulable"
_SUCCESS: Final = Status(Code.SUCCESS)


@dataclass(slots=True, kw_only=True)
class MemberResult:
    """The result of one member: `host` is its node, or the one where preemption makes room.

    `status` is None for a member that fits. `permit_status` is None if Permit did not run.
    """

    attempt: Attempt
    found: Found
    host: str = ""
    status: Status | None = None
    permit_status: Status | None = None
    requires_preemption: bool = False
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class PodGroupResult:
    """The result of the algorithm for a group. `status` is None for a group that is schedulable.

    After an error, or if there is no placement, `members` has fewer results than there are members.
    """

    members: list[MemberResult] = field(default_factory=list)
    status: Status | None = None
    waiting_on_preemption: bool = False


@dataclass(slots=True, kw_only=True)
class PlacementResult:
    """The result of a group in one placement, and its scores if several placements fit."""

    placement: Placement
    result: PodGroupResult
    scores: PlacementScores | None = None


@dataclass(slots=True, kw_only=True)
class PodGroupAttempt:
    """One attempt to schedule a group, for explanations.

    `members` are in the order in which they were tried. `failure` is set if nothing was tried.
    `placements` are those of the first pass; `simulations` are the results of the passes that
    preemption has run after it.
    """

    info: PodGroupInfo
    members: list[QueuedPodInfo]
    failure: str = ""
    placements: list[PlacementResult] = field(default_factory=list)
    placement: Placement | None = None
    result: PodGroupResult = field(default_factory=PodGroupResult)
    preemption: PodGroupPreemption | None = None
    preemption_status: Status | None = None
    simulations: list[Status | None] = field(default_factory=list)


async def schedule_one_pod_group(parts: CycleParts, queued: QueuedPodInfo) -> PodGroupAttempt:
    """Schedule the group of a popped pod. Members that need no node are left out.

    Source: `scheduleOnePodGroup`, `podGroupInfoForPod`.
    """
    attempt = _with_other_members(parts, queued)
    if attempt.failure:
        _fail_all(parts, attempt)
        return attempt
    framework = parts.profiles[queued.pod_info.spec.scheduler_name]
    for member in [*attempt.members]:
        if skip_pod_schedule(parts, framework, member.pod_info):
            parts.queue.done(member.uid)
            attempt.members.remove(member)
    if attempt.members:
        await _PodGroupCycle(parts, framework, attempt).run()
    return attempt


def _with_other_members(parts: CycleParts, queued: QueuedPodInfo) -> PodGroupAttempt:
    """Pop all other waiting members; return all in the order in which they are tried.

    The order: higher priority first, then the one that was active first, then by name.
    """
    pod = queued.pod_info
    key = pod.pod_group_key
    members, failure = [queued], ""
    state = parts.cache.pod_group(key)
    if state is None:
        failure = (
            f"error while retrieving pod group state: pod group state not found for pod group {key}"
        )
    else:
        for other in sorted(state.unscheduled_pods.values(), key=lambda info: info.name):
            if other.name == pod.name:
                continue
            member = parts.queue.pop_specific_pod(other.key)
            if member is not None:
                members.append(member)
    members.sort(
        key=lambda m: (-m.pod_info.priority, m.initial_attempt_timestamp or 0.0, m.pod_info.name)
    )
    name = key.partition("/")[2]
    info = PodGroupInfo(pod.namespace, name, tuple(member.pod_info for member in members))
    failure = failure or _profile_failure(parts, members)
    return PodGroupAttempt(info=info, members=members, failure=failure)


def _profile_failure(parts: CycleParts, members: Sequence[QueuedPodInfo]) -> str:
    """Return why there is no profile for all members, or an empty text.

    Source: `frameworkForPodGroup`.
    """
    first, *others = dict.fromkeys(member.pod_info.spec.scheduler_name for member in members)
    if others:
        return (
            "all pods in a single pod group should have the same .spec.schedulerName set, "
            f'got: "{others[0]}" and "{first}"'
        )
    return "" if first in parts.profiles else f'profile not found for scheduler name "{first}"'


def _fail_all(parts: CycleParts, attempt: PodGroupAttempt) -> None:
    """Fail all members. One without a profile leaves the queue, as a single pod does."""
    for member in attempt.members:
        framework = parts.profiles.get(member.pod_info.spec.scheduler_name)
        if framework is None:
            _log.error("%s", attempt.failure)
            parts.queue.done(member.uid)
        else:
            status = error(RuntimeError(attempt.failure))
            fail(parts, parts.attempts.start(framework, member), status)


class _PodGroupCycle:
    """The cycle of one group, whose members all have the profile of `framework`."""

    def __init__(self, parts: CycleParts, framework: Framework, attempt: PodGroupAttempt) -> None:
        self._parts: Final = parts
        self._framework: Final = framework
        self._attempt: Final = attempt
        self._state: Final = CycleState()
        self._snapshot: Final = parts.algorithm.snapshot
        self._stopwatch: Final = framework.handle.metrics.stopwatch

    async def run(self) -> None:
        """Run the algorithm, then preemption if the group does not fit, and submit the result."""
        attempt, parts = self._attempt, self._parts
        attempt.info = attempt.info._replace(
            unscheduled_pods=tuple(member.pod_info for member in attempt.members)
        )
        key = attempt.info.key
        started = self._stopwatch()
        try:
            parts.cache.update_snapshot(self._snapshot)
            state = parts.cache.pod_group(key)
            if state is not None:
                self._snapshot.pod_groups[key] = state.copy()
            result = await self._schedule(run_post_filters=True)
            self._framework.handle.metrics.pod_group_scheduling_algorithm_duration.observe(
                self._stopwatch() - started
            )
            if result.status is not None and result.status.code == Code.UNSCHEDULABLE:
                await self._preempt(result)
        except Exception as bug:
            _log.exception("The scheduling cycle of pod group %s failed", key)
            result = PodGroupResult(status=error(bug))
        finally:
            self._snapshot.pod_groups.clear()
        attempt.result = result
        self._submit(result)
        self._report(result, started)

    # The algorithm.

    async def _schedule(self, *, run_post_filters: bool) -> PodGroupResult:
        """Run the algorithm: with the feature gate in each placement, else once over all nodes."""
        if TOPOLOGY_AWARE_WORKLOAD_SCHEDULING not in self._parts.feature_gates:
            return await self._schedule_members(run_post_filters=run_post_filters)
        return await self._schedule_in_placements(run_post_filters=run_post_filters)

    async def _schedule_in_placements(self, *, run_post_filters: bool) -> PodGroupResult:
        """Try each placement; return the result of the best that fits.

        A large group in many placements takes many seconds. Between two placements no member is
        assumed, so that events can be handled and the leader's lease is renewed then.
        Source: `podGroupSchedulingPlacementAlgorithm`.
        """
        attempt, runner = self._attempt, self._framework.placements
        records = run_post_filters
        placements = runner.generate(attempt.info, Placement("", self._snapshot.nodes))
        if isinstance(placements, Status):
            return PodGroupResult(status=placements)
        results: list[PlacementResult] = []
        for placement in placements:
            with self._snapshot.placement(placement.nodes):
                result = await self._schedule_members(run_post_filters=run_post_filters)
            results.append(PlacementResult(placement=placement, result=result))
            if records:
                attempt.placements = results
            if result.status is not None and result.status.code == Code.ERROR:
                return result
            if len(placements) > 1:
                await asyncio.sleep(0)
        fitting = [r for r in results if r.result.status is None or r.result.waiting_on_preemption]
        if not fitting:
            first = results[0].result
            assert first.status is not None, "a group that does not fit has a status"
            text = (
                f"0/{len(placements)} placements are available, first placement status: "
                f"{first.status.reasons[0]}"
            )
            return replace(first, status=Status(Code.UNSCHEDULABLE, text))
        best = self._best(fitting)
        if isinstance(best, Status):
            return PodGroupResult(status=best)
        if records:
            attempt.placement = best.placement
        return best.result

    def _best(self, fitting: Sequence[PlacementResult]) -> PlacementResult | Status:
        """Return the placement with the highest score, the first of several; or an error."""
        if len(fitting) == 1:
            return fitting[0]
        assignments = [
            PodGroupAssignments(
                r.placement, tuple((m.attempt.pod, m.host) for m in r.result.members if m.host)
            )
            for r in fitting
        ]
        scores = self._framework.placements.score(self._attempt.info, assignments)
        if isinstance(scores, Status):
            return scores
        for one, of_one in zip(fitting, scores, strict=True):
            one.scores = of_one
        totals = [of_one.total for of_one in scores]
        return fitting[totals.index(max(totals))]

    async def _schedule_members(self, *, run_post_filters: bool) -> PodGroupResult:
        """Schedule each member in turn; source: `podGroupSchedulingDefaultAlgorithm`."""
        result = PodGroupResult(status=Status(Code.UNSCHEDULABLE, _UNSCHEDULABLE))
        requires_preemption = False
        with contextlib.ExitStack() as placed:
            for queued in self._attempt.members:
                member = await self._schedule_member(
                    queued, placed, run_post_filters=run_post_filters
                )
                result.members.append(member)
                if member.status is not None and not member.requires_preemption:
                    if member.status.is_rejected:
                        continue
                    text = f"failed to schedule other pod from a pod group: {member.status.message}"
                    result.status = Status(Code.ERROR, text, cause=member.status.cause)
                    result.waiting_on_preemption = False
                    break
                requires_preemption |= member.requires_preemption
                if member.permit_status is not None and member.permit_status.is_success:
                    if requires_preemption:
                        waiting = "pod group is waiting for preemption to complete"
                        result.status = Status(Code.UNSCHEDULABLE, _UNSCHEDULABLE, waiting)
                        result.waiting_on_preemption = True
                    else:
                        result.status = None
        return result

    async def _schedule_member(
        self, queued: QueuedPodInfo, placed: contextlib.ExitStack, *, run_post_filters: bool
    ) -> MemberResult:
        """Schedule one member and assume it in the snapshot, until `placed` is closed.

        Source: `podGroupPodSchedulingAlgorithm`.
        """
        attempt = self._parts.attempts.start(self._framework, queued)
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
        attempt, plugins, state = member.attempt, self._framework.binding, member.attempt.state
        attempt.host = member.host
        pod = attempt.pod.assigned_to(member.host)
        self._snapshot.assume_pod(pod)
        with contextlib.ExitStack() as undo:
            undo.callback(self._undo, state, pod)
            self._parts.queue.nominator.delete_nominated_pod_if_exists(pod)
            status = plugins.reserve(state, pod, member.host)
            if status is None:
                outcome = plugins.permit(state, pod, member.host)
                status = outcome.status
            if status is None:
                member.permit_status = outcome.waiting or _SUCCESS
                undo.pop_all()
                placed.callback(self._undo, state, pod)
                return None
        failure = attempt.on_host_only(status)
        attempt.host = ""
        return failure

    def _undo(self, state: CycleState, pod: PodInfo) -> None:
        """Run Unreserve, forget a member in the snapshot and restore its nomination."""
        self._framework.binding.unreserve(state, pod, pod.spec.node_name)
        self._snapshot.forget_pod(pod)
        if nominated := pod.pod.status.nominated_node_name:
            info = NominatingInfo(nominated, NominatingMode.OVERRIDE)
            self._parts.queue.nominator.add_nominated_pod(pod, info)

    # Preemption for the whole group.

    async def _preempt(self, result: PodGroupResult) -> None:
        """Run preemption for a group that does not fit, and add its outcome to the result."""
        plugin = self._framework.pod_group_preemption
        if WORKLOAD_AWARE_PREEMPTION not in self._parts.feature_gates:
            return
        assert result.status is not None, "a group that does not fit has a status"
        status = await self._run_preemption(plugin)
        self._attempt.preemption_status = status or _SUCCESS
        if status is None:
            result.waiting_on_preemption = True
        elif status.code == Code.ERROR:
            result.status = status
        else:
            old = result.status
            result.status = Status(old.code, *old.reasons, status.message, plugin=old.plugin)

    async def _run_preemption(self, plugin: PodGroupPreemption | None) -> Status | None:
        """Return None if victims are being evicted, or why there are none.

        Source: `runWorkloadAwarePreemption`.
        """
        if plugin is None:
            return Status(
                Code.UNSCHEDULABLE,
                "default preemption plugin is not registered, workload aware preemption is "
                "disabled",
            )
        pod_group = self._pod_group()
        info = self._attempt.info
        if pod_group is None:
            text = (
                "failed to get pod group object: "
                f'podgroup.scheduling.k8s.io "{info.name}" not found'
            )
            return error(LookupError(text))
        constraints = pod_group.spec.scheduling_constraints
        if constraints is not None and constraints.topology:
            return Status(
                Code.UNSCHEDULABLE,
                "workload aware preemption is not supported for pod groups with scheduling "
                "constraints",
            )

        async def simulate() -> Status | None:
            status = (await self._schedule(run_post_filters=False)).status
            self._attempt.simulations.append(status)
            return status

        self._attempt.preemption = plugin
        with self._snapshot.unchanged_pods():
            return await plugin.pod_group_post_filter(pod_group, info.unscheduled_pods, simulate)

    # The result.

    def _submit(self, result: PodGroupResult) -> None:
        """Start the binding of the members that fit, or put all back in the queue.

        Source: `submitPodGroupAlgorithmResult`.
        """
        for position, queued in enumerate(self._attempt.members):
            if position < len(result.members):
                member = result.members[position]
            else:
                attempt = self._parts.attempts.start(self._framework, queued)
                member = MemberResult(
                    attempt=attempt, found=Found(None, result.status), status=result.status
                )
            member.attempt.started = self._stopwatch() - member.seconds
            self._submit_member(result, member)

    def _submit_member(self, result: PodGroupResult, member: MemberResult) -> None:
        parts, attempt = self._parts, member.attempt
        status, info = member.status, member.found.nominating_info
        of_group = result.status
        if of_group is not None and of_group.code == Code.ERROR:
            is_own = status is not None and status.code == Code.ERROR
            fail(parts, attempt, status if is_own and status is not None else of_group)
        elif status is None and of_group is None:
            attempt.state.pod_group_state = None
            assert member.found.result is not None, "a member that fits has a node"
            attempt.placed(member.found.result)
            if (failure := assume_and_bind(parts, attempt)) is not None:
                fail(parts, attempt, failure)
        elif status is None and result.waiting_on_preemption:
            assert of_group is not None, "a group that waits for preemption has a status"
            info = NominatingInfo(member.host, NominatingMode.OVERRIDE)
            fail(parts, attempt, of_group, nominating_info=info)
        elif status is None or (member.requires_preemption and not result.waiting_on_preemption):
            assert member.permit_status is not None, "Permit ran for a member with a node"
            reason = member.permit_status.message
            fail(parts, attempt, Status(Code.UNSCHEDULABLE, _UNSCHEDULABLE, reason))
        else:
            fail(parts, attempt, status, nominating_info=info)

    def _report(self, result: PodGroupResult, started: float) -> None:
        """Write the condition of the PodGroup, count the attempt and log it."""
        key, status = self._attempt.info.key, result.status
        if status is None:
            condition = Condition(POD_GROUP_SCHEDULED, "True", "Scheduled", "")
            label = "scheduled"
            _log.info("Successfully scheduled pod group %s", key)
        elif status.is_rejected:
            condition = Condition(POD_GROUP_SCHEDULED, "False", "Unschedulable", status.message)
            label = "waiting_on_preemption" if result.waiting_on_preemption else "unschedulable"
            _log.info("Unable to schedule pod group %s: %s", key, status.message)
        else:
            condition = Condition(POD_GROUP_SCHEDULED, "False", "SchedulerError", status.message)
            label = "error"
            _log.error("Error scheduling pod group %s: %s", key, status.message)
        self._framework.handle.metrics.pod_group_attempt_ended(
            label, self._framework.profile_name, self._stopwatch() - started
        )
        pod_group = self._pod_group()
        entry = GroupAttempted(
            self._parts.attempts.clock.now(),
            label,
            condition.message,
            {member.attempt.pod.key: member.host for member in result.members},
            self._attempt.placement.name if self._attempt.placement is not None else "",
        )
        uid = pod_group.metadata.uid if pod_group is not None else ""
        self._parts.attempts.stories.add_to_group(key, uid, entry)
        update_pod_group_condition(self._parts, self._attempt.info, condition)

    def _pod_group(self) -> PodGroup | None:
        info = self._attempt.info
        return self._parts.pod_group_lister(info.namespace, info.name)


def update_pod_group_condition(parts: CycleParts, info: PodGroupInfo, condition: Condition) -> None:
    """Write a condition of a PodGroup in the background; True never becomes False again.

    Source: `updatePodGroupCondition`.
    """
    pod_group = parts.pod_group_lister(info.namespace, info.name)
    if pod_group is None:
        _log.error("Failed to get PodGroup %s for status update", info.key)
        return
    old = pod_group.condition(condition.type)
    if old is not None and old.status == "True" and condition.status != "True":
        return
    parts.spawn(_patch_status(parts, pod_group, condition), f"report {info.key}")


async def _patch_status(parts: CycleParts, pod_group: PodGroup, condition: Condition) -> None:
    try:
        await parts.api.patch_pod_group_status(pod_group, condition=condition)
    except ClientError as failure:
        metadata = pod_group.metadata
        _log.error(
            "Failed to update PodGroup status of %s/%s: %s",
            metadata.namespace, metadata.name, failure,
        )  # fmt: skip
