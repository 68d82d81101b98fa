"""Changes to a pod's status as minimal strategic merge patches.

Conditions merge by their type. So a patch carries the type and the changed fields, and lists all
types in order if the pod had conditions before. Upstream sends the same.
Source: `pkg/scheduler/schedule_one.go` (`updatePod`), `pkg/api/v1/pod/util.go`
(`UpdatePodCondition`), apimachinery `strategicpatch.CreateTwoWayMergePatch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeGuard

from msgspec.structs import replace

from scheduler.api.core import PodCondition
from scheduler.framework.types import NominatingMode

if TYPE_CHECKING:
    from scheduler.api.core import Pod
    from scheduler.framework.types import Condition, NominatingInfo

POD_SCHEDULED: Final = "PodScheduled"

#: A JSON object.
Json = dict[str, object]


def pod_status_patch(
    pod: Pod,
    *,
    condition: Condition | None,
    nominating_info: NominatingInfo | None,
    timestamp: str,
) -> Json | None:
    """Return the patch that sets a pod's condition and nomination; None if it changes nothing.

    `timestamp` is the present time in the API's format (`2026-11-21T08:00:00Z`).
    """
    if not needs_status_patch(pod, condition=condition, nominating_info=nominating_info):
        return None
    status: Json = {}
    if condition is not None:
        status.update(_conditions_patch(pod, condition, timestamp))
    if nominating_info is not None and _renominates(pod, nominating_info):
        status["nominatedNodeName"] = nominating_info.nominated_node_name or None
    return {"status": status}


def needs_status_patch(
    pod: Pod, *, condition: Condition | None, nominating_info: NominatingInfo | None
) -> bool:
    """Return True if the condition or the nomination differs from the pod's status."""
    return _renominates(pod, nominating_info) or (
        condition is not None and _is_changed(pod, condition)
    )


def with_pod_status(
    pod: Pod, *, condition: Condition | None, nominating_info: NominatingInfo | None
) -> Pod:
    """Return the pod with this condition and nomination; the same object if nothing changes.

    A condition whose status changes has no time of its last transition: the server sets it.
    """
    if not needs_status_patch(pod, condition=condition, nominating_info=nominating_info):
        return pod
    status = pod.status
    if condition is not None and _is_changed(pod, condition):
        status = replace(status, conditions=_with_condition(pod, condition))
    if nominating_info is not None and _renominates(pod, nominating_info):
        status = replace(status, nominated_node_name=nominating_info.nominated_node_name)
    return replace(pod, status=status)


def overrides_nomination(info: NominatingInfo | None) -> TypeGuard[NominatingInfo]:
    """Return True if `info` sets the nominated node, or clears it."""
    return info is not None and info.mode == NominatingMode.OVERRIDE


def _renominates(pod: Pod, info: NominatingInfo | None) -> bool:
    return overrides_nomination(info) and info.nominated_node_name != pod.status.nominated_node_name


def _with_condition(pod: Pod, condition: Condition) -> tuple[PodCondition, ...]:
    """Return the pod's conditions with this one replaced, or appended."""
    old = _condition(pod, condition.type)
    new = PodCondition(
        *condition,
        observed_generation=pod.metadata.generation,
        last_transition_time=(
            old.last_transition_time if old and old.status == condition.status else None
        ),
    )
    if old is None:
        return (*pod.status.conditions, new)
    return tuple(new if known is old else known for known in pod.status.conditions)


def _is_changed(pod: Pod, condition: Condition) -> bool:
    """Return True if status, reason or message differ; a newer generation alone does not count."""
    old = _condition(pod, condition.type)
    return old is None or (old.status, old.reason, old.message) != condition[1:]


def _condition(pod: Pod, type: str) -> PodCondition | None:
    return next((c for c in pod.status.conditions if c.type == type), None)


def _conditions_patch(pod: Pod, condition: Condition, timestamp: str) -> Json:
    old = _condition(pod, condition.type)
    wanted: Json = {
        "message": condition.message,
        "observedGeneration": pod.metadata.generation,
        "reason": condition.reason,
        "status": condition.status,
    }
    if old is None:
        changes = {"lastProbeTime": None, "lastTransitionTime": timestamp, **wanted}
        changes = {k: v for k, v in changes.items() if v not in ("", 0)}
    else:
        known = {
            "message": old.message,
            "observedGeneration": old.observed_generation,
            "reason": old.reason,
            "status": old.status,
        }
        changes = {key: value or None for key, value in wanted.items() if value != known[key]}
        if old.status != condition.status:
            changes["lastTransitionTime"] = timestamp
        if not changes:
            return {}
    patch: Json = {"conditions": [{**changes, "type": condition.type}]}
    if pod.status.conditions:
        types = [c.type for c in pod.status.conditions]
        if old is None:
            types.append(condition.type)
        patch["$setElementOrder/conditions"] = [{"type": name} for name in types]
    return patch
