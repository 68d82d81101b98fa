"""A failed attempt: the pod goes back to the queue, and its owner gets an event and a condition.

Source: `pkg/scheduler/schedule_one.go` (`handleSchedulingFailure`, `unreserveAndForget`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from scheduler.api_calls.calls import POD_SCHEDULED
from scheduler.cache import CacheError
from scheduler.client import ClientError
from scheduler.cycle.attempt import CLEAR_NOMINATED_NODE
from scheduler.framework.types import Condition, FitError, NominatingInfo
from scheduler.klog import V2
from scheduler.queue import PodAlreadyQueuedError
from scheduler.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from scheduler.api.core import Pod
    from scheduler.cycle.attempt import Attempt, CycleParts
    from scheduler.framework.status import Status
    from scheduler.queue.queued_pod_info import QueuedPodInfo

_log: Final = logging.getLogger(__name__)

_UNSCHEDULABLE: Final = "Unschedulable"
_SCHEDULER_ERROR: Final = "SchedulerError"


def fail(
    parts: CycleParts,
    attempt: Attempt,
    status: Status,
    *,
    nominating_info: NominatingInfo | None = CLEAR_NOMINATED_NODE,
) -> None:
    """Requeue the pod at once, and report the failure in the background.

    A pod that is deleted, that has been bound meanwhile, or that was created again under its name
    is neither requeued nor reported. A pod that waits for its resize is not reported: it has a
    node, and the kubelet resizes it.
    """
    # The same object, not an equal one: a plugin clears a nomination in each version.
    if nominating_info is CLEAR_NOMINATED_NODE:
        nominating_info = parts.nomination_of_failed
    attempt.failed(status, nominating_info)
    queued = attempt.queued
    reason = _UNSCHEDULABLE if status.is_rejected else _SCHEDULER_ERROR
    queued.clear_rejector_plugins()
    if isinstance(status.cause, FitError):
        queued.unschedulable_plugins = set(status.cause.diagnosis.unschedulable_plugins)
        queued.pending_plugins = set(status.cause.diagnosis.pending_plugins)
        _log.log(
            V2,
            "Unable to schedule pod; no fit; waiting",
            {"pod": queued.key, "err": status.message},
        )
    elif reason == _SCHEDULER_ERROR:
        _log.error("Error scheduling pod; retrying", {"pod": queued.key, "err": status.message})
    else:
        _log.log(V2, "Unable to schedule pod; waiting", {"pod": queued.key, "err": status.message})

    is_resize = _is_resize(queued)
    pod = _requeue(parts, queued)
    if pod is None or is_resize:
        return
    parts.queue.nominator.add_nominated_pod(queued.pod_info, nominating_info)
    attempt.framework.handle.event_recorder.event(
        pod,
        type="Warning",
        reason="FailedScheduling",
        action="Scheduling",
        note=status.message,
    )
    condition = Condition(POD_SCHEDULED, "False", reason, status.message)
    parts.spawn(_patch_status(parts, pod, condition, nominating_info), f"report {pod.key}")


def unreserve_and_forget(parts: CycleParts, attempt: Attempt) -> bool:
    """Undo Reserve and remove the assumed pod from the cache.

    Returns False if the cache does not hold the pod as assumed any more.
    """
    pod = attempt.pod
    attempt.framework.binding.unreserve(attempt.state, pod, attempt.host)
    try:
        parts.cache.forget_pod(pod)
    except CacheError as failure:
        _log.error("Forgetting pod %s failed: %s", pod.key, failure)
        return False
    return True


def _is_resize(queued: QueuedPodInfo) -> bool:
    """Return True if the pod has its node, and waits for the resources that it wants there."""
    return bool(queued.pod_info.spec.node_name) and queued.pod_info.pod.is_resize_deferred


def _requeue(parts: CycleParts, queued: QueuedPodInfo) -> Pod | None:
    """Put the pod back in the queue as the informer has it; None if it needs no node any more."""
    old = queued.pod_info.pod.metadata
    pod = parts.pod_lister(old.namespace, old.name)
    if pod is None:
        _log.info("Pod doesn't exist in informer cache", {"pod": queued.key})
    elif pod.spec.node_name and not _is_resize(queued):
        # The response to our own binding may have been lost.
        _log.info(
            "Pod has been assigned to node. Abort adding it back to queue.",
            {"pod": queued.key, "node": pod.spec.node_name},
        )
    elif pod.metadata.uid != old.uid:
        _log.log(
            V2,
            "Pod was recreated while handling scheduling failure. Skip requeueing and status "
            "updates.",
            {"pod": queued.key, "oldUID": old.uid, "newUID": pod.metadata.uid},
        )
    else:
        queued.pod_info = PodInfo(pod)
        try:
            parts.queue.add_unschedulable_if_not_present(queued)
        except PodAlreadyQueuedError:
            # A bug, but the pod is in the queue, and its failure is reported.
            _log.exception("Error occurred")
        return pod
    parts.queue.done(old.uid)
    return None


async def _patch_status(
    parts: CycleParts, pod: Pod, condition: Condition, nominating_info: NominatingInfo | None
) -> None:
    try:
        pod_exists = await parts.api.patch_pod_status(
            pod, condition=condition, nominating_info=nominating_info
        )
        if not pod_exists:
            _log.error("Error updating pod", {"pod": pod.key, "err": "it is gone"})
    except ClientError as error:
        _log.error("Error updating pod", {"pod": pod.key, "err": error})
