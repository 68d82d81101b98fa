"""The end of a pod group's cycle: its members are bound or put back, its condition is written.

Source: `submitPodGroupAlgorithmResult`, `updatePodGroupCondition`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.pod_groups import POD_GROUP_SCHEDULED
from scheduler.client import ClientError
from scheduler.cycle.attempt import CLEAR_NOMINATED_NODE
from scheduler.cycle.failure_handler import fail
from scheduler.cycle.pod_group.results import UNSCHEDULABLE, MemberResult
from scheduler.cycle.schedule_one import Found, assume_and_bind
from scheduler.framework.status import Code, unschedulable
from scheduler.framework.types import Condition, NominatingInfo, NominatingMode
from scheduler.stories import GroupAttempted

if TYPE_CHECKING:
    from scheduler.api.pod_groups import PodGroup
    from scheduler.cycle.attempt import CycleParts
    from scheduler.cycle.pod_group.results import PodGroupAttempt, PodGroupResult
    from scheduler.framework.status import Status
    from scheduler.framework.types import PodGroupInfo
    from scheduler.runtime.framework import Framework

_log: Final = logging.getLogger(__name__)


class Verdict(NamedTuple):
    """The fate of a member: bound if `status` is None, else put back in the queue."""

    status: Status | None = None
    nominating_info: NominatingInfo | None = CLEAR_NOMINATED_NODE


def verdict(group: PodGroupResult, member: MemberResult) -> Verdict:
    """Return what becomes of a member of a group."""
    of_group, own = group.status, member.status
    if of_group is not None and of_group.code == Code.ERROR:
        return Verdict(own if own is not None and own.code == Code.ERROR else of_group)
    if own is None and of_group is None:
        return Verdict()
    if own is None and group.waiting_on_preemption:
        return Verdict(of_group, NominatingInfo(member.host, NominatingMode.OVERRIDE))
    if own is None or (member.requires_preemption and not group.waiting_on_preemption):
        assert member.permit_status is not None, "Permit ran for a member with a node"
        return Verdict(unschedulable(UNSCHEDULABLE, member.permit_status.message))
    return Verdict(own, member.found.nominating_info)


async def submit(parts: CycleParts, framework: Framework, attempt: PodGroupAttempt) -> None:
    """Start the binding of the members that fit, or put all back in the queue.

    Members that were not tried share the fate of the group. Other tasks may run between two
    members, as between two single pods.
    """
    group = attempt.result
    untried = (
        MemberResult(
            attempt=parts.attempts.start(framework, queued),
            found=Found(None, group.status),
            status=group.status,
        )
        for queued in attempt.members[len(group.members) :]
    )
    for member in (*group.members, *untried):
        pod_attempt = member.attempt
        pod_attempt.started = framework.handle.metrics.stopwatch() - member.seconds
        status, nominating_info = verdict(group, member)
        if status is None:
            pod_attempt.state.pod_group_state = None
            assert member.found.result is not None, "a member that fits has a node"
            pod_attempt.placed(member.found.result)
            status = assume_and_bind(parts, pod_attempt)
        if status is not None:
            fail(parts, pod_attempt, status, nominating_info=nominating_info)
        await parts.let_others_run()


def report(
    parts: CycleParts, framework: Framework, attempt: PodGroupAttempt, *, seconds: float
) -> None:
    """Write the condition of the PodGroup, count the attempt and log it."""
    key, result = attempt.info.key, attempt.result
    status = result.status
    if status is None:
        label, written = "scheduled", ("True", "Scheduled", "")
        _log.info("Successfully scheduled pod group %s", key)
    elif status.is_rejected:
        label = "waiting_on_preemption" if result.waiting_on_preemption else "unschedulable"
        written = ("False", "Unschedulable", status.message)
        _log.info("Unable to schedule pod group %s: %s", key, status.message)
    else:
        label, written = "error", ("False", "SchedulerError", status.message)
        _log.error("Error scheduling pod group %s: %s", key, status.message)
    condition = Condition(POD_GROUP_SCHEDULED, *written)
    framework.handle.metrics.pod_group_attempt_ended(label, framework.profile_name, seconds)
    pod_group = parts.pod_group_lister(attempt.info.namespace, attempt.info.name)
    entry = GroupAttempted(
        parts.attempts.clock.now(),
        label,
        condition.message,
        {member.attempt.pod.key: member.host for member in result.members},
        attempt.placement.name if attempt.placement is not None else "",
    )
    uid = pod_group.metadata.uid if pod_group is not None else ""
    parts.attempts.stories.add_to_group(key, uid, entry)
    update_pod_group_condition(parts, attempt.info, condition)


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
