"""The scheduling cycle of a pod group: all its waiting members, over one snapshot.

    popped --> the other members are popped too --> placements --> each member in turn
                                                                     |
    submitted <-- preemption for the whole group, if it does not fit <'

If Permit allows a member, the group is schedulable: its fitting members are assumed in the cache,
and their binding cycles start. Else all members go back to the queue.
Source: `pkg/scheduler/schedule_one_podgroup.go`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from scheduler.cycle.failure_handler import fail
from scheduler.cycle.pod_group.preempt import preempt
from scheduler.cycle.pod_group.results import PodGroupAttempt, PodGroupResult
from scheduler.cycle.pod_group.search import PodGroupSearch
from scheduler.cycle.pod_group.submit import report, submit
from scheduler.cycle.schedule_one import skip_pod_schedule
from scheduler.framework.status import Code, error
from scheduler.framework.types import PodGroupInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.cycle.attempt import CycleParts
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.runtime.framework import Framework

_log: Final = logging.getLogger(__name__)


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
        await _run(parts, framework, attempt)
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


async def _run(parts: CycleParts, framework: Framework, attempt: PodGroupAttempt) -> None:
    """Run the search, then preemption if the group does not fit, and submit the result."""
    attempt.info = attempt.info._replace(
        unscheduled_pods=tuple(member.pod_info for member in attempt.members)
    )
    key, metrics = attempt.info.key, framework.handle.metrics
    snapshot, search = parts.algorithm.snapshot, PodGroupSearch(parts, framework, attempt)
    started = metrics.stopwatch()
    try:
        parts.cache.update_snapshot(snapshot)
        state = parts.cache.pod_group(key)
        if state is not None:
            snapshot.pod_groups[key] = state.copy()
        attempt.result = result = await search.run(run_post_filters=True)
        seconds = metrics.stopwatch() - started
        metrics.pod_group_scheduling_algorithm_duration.observe(seconds)
        if result.status is not None and result.status.code == Code.UNSCHEDULABLE:
            await preempt(parts, framework.pod_group_preemption, attempt, search)
    except Exception as bug:  # noqa: BLE001 - any failure requeues the group
        _log.exception("The scheduling cycle of pod group %s failed", key)
        attempt.result = PodGroupResult(status=error(bug))
    finally:
        snapshot.pod_groups.clear()
    await submit(parts, framework, attempt)
    report(parts, framework, attempt, seconds=metrics.stopwatch() - started)
