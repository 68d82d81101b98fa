"""The scheduling cycle: one pod from the head of the queue to a node, or back to the queue.

    popped --> schedule_pod --> assume --> Reserve --> Permit --> binding cycle, in the background
                   |              |           |          |
                   `- PostFilter -+-----------+----------+--> failed: requeued and reported

The cycle reads the snapshot and nothing else. It waits for extenders and in PostFilter only.
Source: `pkg/scheduler/schedule_one.go` (`scheduleOnePod`, `schedulingCycle`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.cache import CacheError
from scheduler.cycle.attempt import CLEAR_NOMINATED_NODE
from scheduler.cycle.binding_cycle import bind
from scheduler.cycle.failure_handler import fail, unreserve_and_forget
from scheduler.cycle.schedule_pod import NoNodesAvailableError, schedule_pod
from scheduler.framework.extender import ExtenderError
from scheduler.framework.failures import FrameworkError
from scheduler.framework.status import Code, Status, error
from scheduler.framework.types import FitError
from scheduler.klog import V5

if TYPE_CHECKING:
    from scheduler.cycle.attempt import Attempt, CycleParts
    from scheduler.cycle.schedule_pod import ScheduleResult
    from scheduler.framework.types import NominatingInfo
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.runtime.framework import Framework
    from scheduler.snapshot.pod_info import PodInfo

_log: Final = logging.getLogger(__name__)


class Found(NamedTuple):
    """The result of the scheduling algorithm for one pod: a node, or why there is none."""

    result: ScheduleResult | None = None
    status: Status | None = None
    nominating_info: NominatingInfo | None = CLEAR_NOMINATED_NODE
    #: The result of PostFilter, if it ran.
    post_filter: Status | None = None


async def schedule_one_pod(parts: CycleParts, queued: QueuedPodInfo) -> Found | None:
    """Run the scheduling cycle of a popped pod, and start its binding cycle in the background.

    Returns the result of the algorithm; None if the pod need not be scheduled.
    """
    pod = queued.pod_info
    framework = parts.profiles.get(pod.spec.scheduler_name)
    if framework is None:
        _log.error('profile not found for scheduler name "%s"', pod.spec.scheduler_name)
    elif not skip_pod_schedule(parts, framework, pod):
        return await _schedule(parts, parts.attempts.start(framework, queued))
    parts.queue.done(pod.uid)
    return None


def skip_pod_schedule(parts: CycleParts, framework: Framework, pod: PodInfo) -> bool:
    """True if the pod is being deleted, or is assumed to be on a node already."""
    if pod.pod.metadata.deletion_timestamp is not None:
        framework.handle.event_recorder.event(
            pod.pod,
            type="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note=f"skip schedule deleting pod: {pod.key}",
        )
        return True
    return parts.cache.is_assumed_pod(pod.pod)


async def _schedule(parts: CycleParts, attempt: Attempt) -> Found:
    """Find a node for the pod and start its binding, or fail the attempt."""
    result = await find_node(parts, attempt, update_snapshot=True)
    if result.result is None:
        assert result.status is not None, "without a node there is a reason"
        fail(parts, attempt, result.status, nominating_info=result.nominating_info)
    else:
        attempt.placed(result.result)
        if (status := assume_and_bind(parts, attempt)) is not None:
            fail(parts, attempt, status)
    return result


async def find_node(
    parts: CycleParts,
    attempt: Attempt,
    *,
    update_snapshot: bool = False,
    run_post_filters: bool = True,
) -> Found:
    """Run the scheduling algorithm, with PostFilter if the pod fits on no node.

    Source: `schedulingAlgorithm`.
    """
    try:
        if update_snapshot:
            parts.cache.update_snapshot(parts.algorithm.snapshot)
        return Found(
            await schedule_pod(parts.algorithm, attempt.framework, attempt.state, attempt.pod)
        )
    except FitError as fit_error:
        nominating_info = parts.nomination_without_post_filter
        post_filter = None
        if run_post_filters and attempt.framework.has_post_filter_plugins:
            nominating_info, post_filter = await _run_post_filter_plugins(attempt, fit_error)
        status = Status(Code.UNSCHEDULABLE, str(fit_error), cause=fit_error)
        return Found(None, status, nominating_info, post_filter)
    except NoNodesAvailableError as failure:
        return Found(None, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, str(failure), cause=failure))
    except (FrameworkError, ExtenderError) as failure:
        return Found(None, error(failure))
    except Exception as bug:  # noqa: BLE001 - any failure requeues the pod
        _log.exception("The scheduling cycle of pod %s failed", attempt.pod.key)
        return Found(None, error(bug))


async def _run_post_filter_plugins(
    attempt: Attempt, fit_error: FitError
) -> tuple[NominatingInfo | None, Status]:
    """Run PostFilter for a pod that fits on no node; return the node it is nominated to."""
    result, status = await attempt.framework.run_post_filter_plugins(
        attempt.state, attempt.pod, fit_error.diagnosis.node_to_status
    )
    fit_error.diagnosis.post_filter_message = status.message
    level = V5
    if status.code == Code.ERROR:
        attempt.plugin_failed(status)
        if not _is_reported(attempt.pod, str(fit_error)):
            level = logging.ERROR
    _log.log(
        level,
        "Status after running PostFilter plugins for pod",
        {"pod": attempt.pod.key, "status": status.message},
    )
    return (result.nominating_info if result is not None else None), status


def _is_reported(pod: PodInfo, message: str) -> bool:
    """True if the pod failed for these reasons before, be it with another number of nodes.

    The log has the error then. Upstream logs it at every retry.
    """
    _, _, reasons = message.partition(": ")
    return any(condition.message.endswith(reasons) for condition in pod.pod.status.conditions)


def assume_and_bind(parts: CycleParts, attempt: Attempt) -> Status | None:
    """Assume the pod on its node, run Reserve and Permit, then start the binding cycle.

    Returns a status if one of these fails; all is undone then. Source: `prepareForBindingCycle`.
    """
    pod = attempt.pod
    try:
        parts.cache.assume_pod(pod)
    except CacheError as failure:
        return error(failure)
    parts.queue.nominator.delete_nominated_pod_if_exists(pod)
    status = _reserve_and_permit(parts, attempt)
    if status is not None:
        unreserve_and_forget(parts, attempt)
        return attempt.on_host_only(status)
    parts.activate(attempt)
    parts.spawn(bind(parts, attempt), f"bind {pod.key}")
    return None


def _reserve_and_permit(parts: CycleParts, attempt: Attempt) -> Status | None:
    plugins, pod = attempt.framework.binding, attempt.pod
    status = plugins.reserve(attempt.state, pod, attempt.host)
    if status is not None:
        return status
    attempt.reserved()
    outcome = plugins.permit(attempt.state, pod, attempt.host)
    if outcome.wait_seconds:
        parts.waiting_pods.add(pod, outcome.wait_seconds)
        attempt.waits_on_permit(outcome.wait_seconds)
    return outcome.status
