"""The scheduler's writes as values, and the rules by which two for one object merge.

    type                 relevance  two for one object
    pod_status_patch         1      merge: the newest condition and the newest nomination win
    pod_condition_patch      1      the newest wins; keyed by pod and condition
    object_patch             1      the newest wins; a volume or a claim
    object_write             1      never merged; a claim, which several pods write, or a plugin's
    pod_binding              2      replaces a status patch
    pod_deletion             1      the newest wins; waits for no other call for the pod

Status patches and bindings are upstream's. Upstream deletes pods, and patches conditions other than
PodScheduled, without its queue. Such a condition does not depend on the pod's node, so no other
call replaces it. A victim is deleted at once, even while its binding is under way: the preemptor
waits for the room.

A patch of a pod's status is a minimal strategic merge patch. Conditions merge by their type, so the
patch carries the type and the changed fields, and lists all types in order if the pod had
conditions before. Upstream sends the same.
Source: `pkg/scheduler/framework/api_calls`; `pkg/scheduler/schedule_one.go` (`updatePod`),
`pkg/api/v1/pod/util.go` (`UpdatePodCondition`), apimachinery
`strategicpatch.CreateTwoWayMergePatch`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Self, TypeAlias, TypeGuard

from msgspec import structs

from scheduler.api.core import Pod, PodCondition
from scheduler.framework.types import NominatingMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.core import ObjectMeta
    from scheduler.api.pod_groups import PodGroup
    from scheduler.api_calls.call_queue import ApiCall
    from scheduler.framework.types import Condition, NominatingInfo

#: A JSON object.
Json: TypeAlias = "dict[str, object]"

POD_SCHEDULED: Final = "PodScheduled"

#: By call type: of two calls for one object the one of higher relevance wins.
RELEVANCES: Final[Mapping[str, int]] = {
    "pod_status_patch": 1,
    "pod_condition_patch": 1,
    "object_patch": 1,
    "object_write": 1,
    "pod_binding": 2,
    "pod_deletion": 1,
}


@dataclass(frozen=True)
class PodStatusPatchCall:
    """Set a pod's PodScheduled condition, its nominated node, or both."""

    pod: Pod
    condition: Condition | None
    nominating_info: NominatingInfo | None
    call_type: ClassVar = "pod_status_patch"

    @property
    def object_uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def is_no_op(self) -> bool:
        return self.applied_to(self.pod) is self.pod

    def merged(self, older: Self) -> Self:
        """Keep the newest condition and the newest nomination of the two."""
        info = self.nominating_info
        if _overrides(older.nominating_info) and not _overrides(info):
            info = older.nominating_info
        return replace(self, condition=self.condition or older.condition, nominating_info=info)

    def after(self, made: ApiCall) -> Self:
        """Base this patch on the status that the other patch has set."""
        return (
            replace(self, pod=made.applied_to(self.pod)) if isinstance(made, type(self)) else self
        )

    def synced(self, pod: Pod) -> tuple[Self, Pod]:
        return replace(self, pod=pod), self.applied_to(pod)

    def applied_to(self, pod: Pod) -> Pod:
        """Return the pod with its status as this call sets it; `pod` itself if nothing changes.

        A condition whose status changes has no time of its last transition: the server sets it.
        """
        status, condition, info = pod.status, self.condition, self.nominating_info
        if condition is not None and _is_changed(pod, condition):
            status = structs.replace(status, conditions=_with_condition(pod, condition))
        if _overrides(info) and info.nominated_node_name != status.nominated_node_name:
            status = structs.replace(status, nominated_node_name=info.nominated_node_name)
        return pod if status is pod.status else structs.replace(pod, status=status)

    def patch(self, timestamp: str) -> Json | None:
        """Return the patch of the pod's status; None if it changes nothing.

        `timestamp` is the present time in the API's format (`2026-11-21T08:00:00Z`).
        """
        if self.is_no_op:
            return None
        pod, info = self.pod, self.nominating_info
        status: Json = {}
        if self.condition is not None:
            status.update(_conditions_patch(pod, self.condition, timestamp))
        if _overrides(info) and info.nominated_node_name != pod.status.nominated_node_name:
            status["nominatedNodeName"] = info.nominated_node_name or None
        return {"status": status}


@dataclass(frozen=True)
class PodConditionPatchCall(PodStatusPatchCall):
    """Set a condition other than PodScheduled, for example DisruptionTarget."""

    call_type: ClassVar = "pod_condition_patch"

    @property
    def object_uid(self) -> str:
        """The pod's uid and the condition's type."""
        assert self.condition is not None, "a patch of a condition has one"
        return f"{self.pod.metadata.uid}/{self.condition.type}"


class _LastWins:
    """A call that is complete in itself: the newest one counts, and nothing is merged."""

    @property
    def is_no_op(self) -> bool:
        return False

    def merged(self, older: Self) -> Self:
        return self

    def after(self, made: ApiCall) -> Self:
        return self

    def synced(self, pod: Pod) -> tuple[Self, Pod]:
        return self, pod


@dataclass(frozen=True)
class PodBindingCall(_LastWins):
    """Bind a pod to a node."""

    pod: Pod
    node_name: str
    call_type: ClassVar = "pod_binding"

    @property
    def object_uid(self) -> str:
        return self.pod.metadata.uid


@dataclass(frozen=True)
class PodDeletionCall(_LastWins):
    """Delete a pod."""

    pod: Pod
    call_type: ClassVar = "pod_deletion"

    @property
    def object_uid(self) -> str:
        return f"{self.pod.metadata.uid}/deletion"


@dataclass(frozen=True)
class ObjectPatchCall(_LastWins):
    """Change a volume or a claim, if it has not changed since it was read.

    Of two waiting calls for one object only one can succeed; the newer has newer data.
    """

    metadata: ObjectMeta
    call_type: ClassVar = "object_patch"

    @property
    def object_uid(self) -> str:
        return self.metadata.uid


@dataclass(frozen=True)
class PodGroupPatchCall(ObjectPatchCall):
    """Change the status of a pod group.

    The patch names the group without its uid, so a late patch for a deleted group reaches the next
    group of that name. Patches for both groups keep their order.
    """

    @property
    def object_uid(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


@dataclass(frozen=True)
class ObjectWriteCall(_LastWins):
    """Write a resource claim, which each pod that uses it writes, or an object of a plugin.

    No write replaces another. `number` differs for all calls.
    """

    metadata: ObjectMeta
    number: int
    call_type: ClassVar = "object_write"

    @property
    def object_uid(self) -> str:
        return f"{self.metadata.uid}/{self.number}"


def pod_group_patch(pod_group: PodGroup, condition: Condition, timestamp: str) -> Json | None:
    """Return the patch of a pod group's status; None if it changes nothing."""
    conditions = _conditions_patch(pod_group, condition, timestamp)
    return {"status": conditions} if conditions else None


def _overrides(info: NominatingInfo | None) -> TypeGuard[NominatingInfo]:
    """Return True if `info` sets the nominated node, or clears it."""
    return info is not None and info.mode == NominatingMode.OVERRIDE


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


def _condition(pod: Pod | PodGroup, type: str) -> PodCondition | None:
    return next((c for c in pod.status.conditions if c.type == type), None)


def _conditions_patch(pod: Pod | PodGroup, condition: Condition, timestamp: str) -> Json:
    old = _condition(pod, condition.type)
    wanted: Json = {
        "message": condition.message,
        "observedGeneration": pod.metadata.generation,
        "reason": condition.reason,
        "status": condition.status,
    }
    if old is None:
        changes = {"lastTransitionTime": timestamp, **wanted}
        changes = {k: v for k, v in changes.items() if v not in ("", 0)}
        if isinstance(pod, Pod):
            changes["lastProbeTime"] = None
    else:
        before = {
            "message": old.message,
            "observedGeneration": old.observed_generation,
            "reason": old.reason,
            "status": old.status,
        }
        changes = {key: value or None for key, value in wanted.items() if value != before[key]}
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
