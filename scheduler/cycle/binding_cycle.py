"""The binding cycle: from an assumed pod to a bound one, while the next pod is being scheduled.

    assumed --Permit allows--> done in the queue --PreBind--> --Bind--> bound, PostBind
       |            |                                |          |
       +--rejected--+-------------failed-------------+----------+--> unreserved, forgotten, requeued

Up to Permit a plugin may reject the pod, and the queue keeps the events of that time for it. After
that a failure is an error, and the pod is tried again from the start.
Source: `pkg/scheduler/schedule_one.go` (`bindingCycle`, `handleBindingCycleError`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from scheduler.client import ClientError
from scheduler.cycle.attempt import NOMINATES
from scheduler.cycle.failure_handler import fail, unreserve_and_forget
from scheduler.framework.events import EVENT_ASSIGNED_POD_DELETE
from scheduler.framework.extender import ExtenderError
from scheduler.framework.status import error
from scheduler.framework.types import NominatingInfo, NominatingMode
from scheduler.klog import V2

if TYPE_CHECKING:
    from scheduler.cycle.attempt import Attempt, CycleParts
    from scheduler.framework.status import Status
    from scheduler.runtime.binding import PreFlight
    from scheduler.snapshot.pod_info import PodInfo

_log: Final = logging.getLogger(__name__)


async def bind(parts: CycleParts, attempt: Attempt) -> None:
    """Bind an assumed pod; if that fails, undo what was done for it and requeue it."""
    attempt.binding_started()
    try:
        status = await _bind(parts, attempt)
    except Exception as failure:  # noqa: BLE001 - any failure is undone and requeues the pod
        _log.exception("The binding cycle of pod %s failed", attempt.pod.key)
        status = error(failure)
    finally:
        attempt.binding_ended()
    if status is not None:
        _handle_binding_cycle_error(parts, attempt, status)


async def _bind(parts: CycleParts, attempt: Attempt) -> Status | None:
    """Run the steps of the binding cycle; return the status of the first that fails."""
    plugins, state, pod, host = attempt.framework.binding, attempt.state, attempt.pod, attempt.host
    nominates = NOMINATES in parts.feature_gates
    pre_flight = (
        plugins.pre_bind_pre_flight(state, pod, host) if nominates else plugins.all_pre_binds()
    )
    if pre_flight.status is not None and not pre_flight.status.is_skip:
        return pre_flight.status
    takes_long = pre_flight.status is None or parts.waiting_pods.get(pod.uid) is not None
    if takes_long and nominates:
        await _nominate(parts, attempt)

    status = await parts.waiting_pods.wait_on_permit(pod.uid)
    if status is not None:
        return attempt.on_host_only(status)
    # No plugin rejects the pod from here on, so the queue need not keep events for it.
    parts.queue.done(pod.uid)

    status = await _run_pre_bind_plugins(parts, attempt, pre_flight)
    if status is None:
        status = await _run_bind(parts, attempt)
    if status is not None:
        return status
    attempt.bound()
    _log.log(
        V2,
        "Successfully bound pod to node",
        {"pod": pod.key, "node": host, "attempts": attempt.queued.attempts},
    )
    attempt.framework.handle.event_recorder.event(
        pod.pod,
        type="Normal",
        reason="Scheduled",
        action="Binding",
        note=f"Successfully assigned {pod.key} to {host}",
    )
    await plugins.post_bind(state, pod, host)
    parts.activate(attempt)
    return None


async def _run_bind(parts: CycleParts, attempt: Attempt) -> Status | None:
    """Bind the pod by the extender that does so, if one is interested, or by the Bind plugins.

    Source: `Scheduler.bind`, `extendersBinding`.
    """
    pod, host = attempt.pod, attempt.host
    for extender in parts.algorithm.extenders:
        if not extender.is_binder or not extender.is_interested(pod):
            continue
        try:
            await extender.bind(pod, host)
        except ExtenderError as failure:
            if not extender.is_ignorable:
                return error(failure)
            _log.info("Skipped extender %s, which failed to bind: %s", extender.name, failure)
        else:
            return None
    return await attempt.framework.binding.bind(attempt.state, pod, host)


async def _run_pre_bind_plugins(
    parts: CycleParts, attempt: Attempt, pre_flight: PreFlight
) -> Status | None:
    if pre_flight.status is not None:
        # No plugin has work to do. Upstream measures the extension point all the same.
        with attempt.framework.meter.point("PreBind"):
            return None
    # While this runs, a preemption can take the pod's node without deleting the pod.
    work = attempt.framework.binding.pre_bind(pre_flight, attempt.state, attempt.pod, attempt.host)
    return await parts.pods_in_pre_bind.run(attempt.pod.uid, work)


async def _nominate(parts: CycleParts, attempt: Attempt) -> None:
    """Write the chosen node to the status of a pod whose binding will take a while."""
    info = NominatingInfo(attempt.host, NominatingMode.OVERRIDE)
    pod = attempt.pod
    try:
        await parts.api.patch_pod_status(pod.pod, condition=None, nominating_info=info)
    except ClientError as failure:
        _log.error(
            "Failed to update the nominated node name in the binding cycle",
            {"pod": pod.key, "nominatedNodeName": attempt.host, "err": failure},
        )


def _handle_binding_cycle_error(parts: CycleParts, attempt: Attempt, status: Status) -> None:
    pod = attempt.pod
    forgotten = unreserve_and_forget(parts, attempt)
    if forgotten and not status.is_rejected:
        _move_waiting_pods(parts, pod)
    fail(parts, attempt, status)
    if forgotten and status.is_rejected:
        # Only after the pod is requeued, and not for the pod itself: the resources that it gave
        # back are no reason to try it again.
        _move_waiting_pods(parts, pod, but=pod.uid)


def _move_waiting_pods(parts: CycleParts, pod: PodInfo, *, but: str | None = None) -> None:
    """Move the pods that the freed resources may help, as if the pod had been deleted."""
    parts.queue.move_all_to_active_or_backoff_queue(
        EVENT_ASSIGNED_POD_DELETE,
        pod.pod,
        None,
        pre_check=None if but is None else lambda waiting: waiting.uid != but,
    )
