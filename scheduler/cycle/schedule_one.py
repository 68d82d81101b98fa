"""The scheduling cycle: one pod from the head of the queue to a node, or back to the queue.

    popped --> schedule_pod --> assume --> Reserve --> Permit --> binding cycle, in the background
                   |              |           |          |
                   `- PostFilter -+-----------+----------+--> failed: requeued and reported

The cycle reads the snapshot and nothing else. It waits in PostFilter only.
Source: `pkg/scheduler/schedule_one.go` (`scheduleOnePod`, `schedulingCycle`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from scheduler.cache import CacheError
from scheduler.cycle.binding_cycle import bind
from scheduler.cycle.failure_handler import CLEAR_NOMINATED_NODE, fail, unreserve_and_forget
from scheduler.cycle.schedule_pod import NoNodesAvailableError, schedule_pod
from scheduler.framework.status import Code, Status, error
from scheduler.framework.types import FitError
from scheduler.runtime.errors import FrameworkError

if TYPE_CHECKING:
    from scheduler.cycle.attempt import Attempt, CycleParts
    from scheduler.framework.types import NominatingInfo
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.runtime.framework import Framework
    from scheduler.snapshot.pod_info import PodInfo

_log: Final = logging.getLogger(__name__)


async def schedule_one(parts: CycleParts, queued: QueuedPodInfo) -> None:
    """Run the scheduling cycle of a popped pod, and start its binding cycle in the background."""
    pod = queued.pod_info
    framework = parts.profiles.get(pod.spec.scheduler_name)
    if framework is None:
        _log.error('profile not found for scheduler name "%s"', pod.spec.scheduler_name)
    elif not _skip_pod_schedule(parts, framework, pod):
        await _schedule(parts, parts.attempts.start(framework, queued))
        return
    parts.queue.done(pod.uid)


def _skip_pod_schedule(parts: CycleParts, framework: Framework, pod: PodInfo) -> bool:
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


async def _schedule(parts: CycleParts, attempt: Attempt) -> None:
    """Find a node for the pod and start its binding, or fail the attempt."""
    try:
        parts.cache.update_snapshot(parts.algorithm.snapshot)
        result = await schedule_pod(parts.algorithm, attempt.framework, attempt.state, attempt.pod)
    except FitError as fit_error:
        nominating_info = await _run_post_filter_plugins(attempt, fit_error)
        status = Status(Code.UNSCHEDULABLE, str(fit_error), cause=fit_error)
        fail(parts, attempt, status, nominating_info=nominating_info)
    except NoNodesAvailableError as failure:
        status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, str(failure), cause=failure)
        fail(parts, attempt, status)
    except FrameworkError as failure:
        fail(parts, attempt, error(failure))
    except Exception as bug:
        _log.exception("The scheduling cycle of pod %s failed", attempt.pod.key)
        fail(parts, attempt, error(bug))
    else:
        attempt.placed(result)
        _assume_and_bind(parts, attempt)


async def _run_post_filter_plugins(attempt: Attempt, fit_error: FitError) -> NominatingInfo | None:
    """Run PostFilter for a pod that fits on no node; return the node it is nominated to."""
    framework = attempt.framework
    if not framework.has_post_filter_plugins:
        return CLEAR_NOMINATED_NODE
    result, status = await framework.run_post_filter_plugins(
        attempt.state, attempt.pod, fit_error.diagnosis.node_to_status
    )
    fit_error.diagnosis.post_filter_message = status.message
    if status.code == Code.ERROR:
        _log.error("PostFilter of pod %s failed: %s", attempt.pod.key, status.message)
        attempt.plugin_failed(status)
    return result.nominating_info if result is not None else None


def _assume_and_bind(parts: CycleParts, attempt: Attempt) -> None:
    """Assume the pod on its node, run Reserve and Permit, then start the binding cycle."""
    pod = attempt.pod
    try:
        parts.cache.assume_pod(pod)
    except CacheError as failure:
        fail(parts, attempt, error(failure))
        return
    parts.queue.nominator.delete_nominated_pod_if_exists(pod)
    status = _reserve_and_permit(parts, attempt)
    if status is not None:
        unreserve_and_forget(parts, attempt)
        fail(parts, attempt, attempt.on_host_only(status))
        return
    parts.activate(attempt)
    parts.spawn(bind(parts, attempt), f"bind {pod.key}")


def _reserve_and_permit(parts: CycleParts, attempt: Attempt) -> Status | None:
    plugins, pod = attempt.framework.binding, attempt.pod
    status = plugins.reserve(attempt.state, pod, attempt.host)
    if status is not None:
        return status
    outcome = plugins.permit(attempt.state, pod, attempt.host)
    if outcome.wait_seconds:
        parts.waiting_pods.add(pod, outcome.wait_seconds)
        attempt.waits_on_permit(outcome.wait_seconds)
    return outcome.status
