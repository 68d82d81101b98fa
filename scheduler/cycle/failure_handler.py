"""What happens to a pod that could not be scheduled: back to the queue, and told to its owner.

Source: `pkg/scheduler/schedule_one.go` (`handleSchedulingFailure`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from scheduler.api_calls.pod_status import POD_SCHEDULED
from scheduler.client import ClientError
from scheduler.framework.types import Condition, FitError
from scheduler.queue import PodAlreadyQueuedError
from scheduler.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.api.core import Pod
    from scheduler.api_calls.dispatcher import ApiDispatcher
    from scheduler.clock import Clock
    from scheduler.cycle.attempt_recorder import AttemptRecorder
    from scheduler.framework.status import Status
    from scheduler.framework.types import NominatingInfo, QueuedPodInfo
    from scheduler.queue import PriorityQueue
    from scheduler.runtime.framework import Framework

_log: Final = logging.getLogger(__name__)

_UNSCHEDULABLE: Final = "Unschedulable"
_SCHEDULER_ERROR: Final = "SchedulerError"

#: What an event's note may hold.
_NOTE_BYTES_MAX: Final = 1024
_NOTE_SUFFIX: Final = " ..."


class FailureHandler:
    """Takes failed attempts: requeues the pod at once, and reports it in the background."""

    def __init__(
        self,
        *,
        queue: PriorityQueue,
        dispatcher: ApiDispatcher,
        pod_lister: Callable[[str, str], Pod | None],
        clock: Clock,
        recorder: AttemptRecorder,
        spawn: Callable[..., object],
    ) -> None:
        self._recorder: Final = recorder
        self._queue: Final = queue
        self._dispatcher: Final = dispatcher
        self._pod_lister: Final = pod_lister
        self._clock: Final = clock
        self._spawn: Final = spawn

    def handle(
        self,
        framework: Framework,
        queued: QueuedPodInfo,
        status: Status,
        nominating_info: NominatingInfo | None,
        started: float,
    ) -> None:
        """Put the pod back where it waits for a reason to be tried again, and say why it failed.

        A pod that is gone, that has been bound meanwhile, or that was recreated under its name is
        only let go of. `started` is when its attempt began.
        """
        self._recorder.failed(framework.profile_name, queued, status, nominating_info, started)
        reason = _UNSCHEDULABLE if status.is_rejected else _SCHEDULER_ERROR
        queued.clear_rejector_plugins()
        if isinstance(status.cause, FitError):
            queued.unschedulable_plugins = set(status.cause.diagnosis.unschedulable_plugins)
            queued.pending_plugins = set(status.cause.diagnosis.pending_plugins)
            _log.info("Unable to schedule pod %s; no fit; waiting: %s", queued.key, status.message)
        elif reason == _SCHEDULER_ERROR:
            _log.error("Error scheduling pod %s; retrying: %s", queued.key, status.message)
        else:
            _log.info("Unable to schedule pod %s; waiting: %s", queued.key, status.message)

        pod = self._requeue(queued)
        if pod is None:
            return
        self._queue.add_nominated_pod(queued.pod_info, nominating_info)
        framework.handle.event_recorder.event(
            pod,
            type="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note=truncated(status.message),
        )
        condition = Condition(POD_SCHEDULED, "False", reason, status.message)
        self._spawn(self._report(pod, condition, nominating_info), f"report {pod.key}")

    def _requeue(self, queued: QueuedPodInfo) -> Pod | None:
        """The pod as it now is, back in the queue; None if there is nothing to wait for."""
        old = queued.pod_info.pod.metadata
        pod = self._pod_lister(old.namespace, old.name)
        if pod is None:
            _log.info("Pod %s doesn't exist in informer cache", queued.key)
        elif pod.spec.node_name:
            # The answer to our own binding may have been lost on its way.
            _log.info(
                "Pod %s has been assigned to node %s. Abort adding it back to queue",
                queued.key, pod.spec.node_name,
            )  # fmt: skip
        elif pod.metadata.uid != old.uid:
            _log.info("Pod %s was recreated while its failure was handled", queued.key)
        else:
            queued.pod_info = PodInfo(pod)
            try:
                self._queue.add_unschedulable_if_not_present(queued, self._clock.now())
            except PodAlreadyQueuedError:
                # Somebody's bug, but the pod waits as it should, and is told why.
                _log.exception("Error occurred")
            return pod
        self._queue.done(old.uid)
        return None

    async def _report(
        self, pod: Pod, condition: Condition, nominating_info: NominatingInfo | None
    ) -> None:
        try:
            found = await self._dispatcher.patch_pod_status(
                pod, condition=condition, nominating_info=nominating_info
            )
            if not found:
                _log.error("Error updating pod %s: it is gone", pod.key)
        except ClientError as error:
            _log.error("Error updating pod %s: %s", pod.key, error)


def truncated(note: str) -> str:
    """A note short enough for an event: at most 1024 bytes, cut at a whole character."""
    encoded = note.encode()
    if len(encoded) <= _NOTE_BYTES_MAX:
        return note
    kept = encoded[: _NOTE_BYTES_MAX - len(_NOTE_SUFFIX)]
    return kept.decode(errors="ignore") + _NOTE_SUFFIX
