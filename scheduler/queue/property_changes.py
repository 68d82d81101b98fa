"""Returns the cluster events for a change of a pod or a node.

Source: `pkg/scheduler/framework/events.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scheduler.api import resources
from scheduler.api.core import Pod, PodStatus
from scheduler.api.quantity import milli_value, parse_quantity
from scheduler.framework.events import (
    DEFAULT_POD_EVENTS,
    ActionType,
    ClusterEvent,
    EventResource,
    PodEvents,
)

if TYPE_CHECKING:
    from scheduler.api.core import Node, Quantities


def pod_scheduling_properties_change(
    new: Pod, old: Pod, pod_events: PodEvents = DEFAULT_POD_EVENTS, *, is_target: bool = False
) -> list[ClusterEvent]:
    """Return an event for each change that matters to scheduling, or one general update event.

    `is_target` is true for the pod that waits for the event.
    """
    resource = EventResource.ASSIGNED_POD
    if is_target:
        resource = pod_events.target
    elif not new.spec.node_name:
        resource = pod_events.unscheduled
    changes = (
        (new.metadata.labels != old.metadata.labels, ActionType.UPDATE_POD_LABEL),
        (_is_scaled_down(new, old), ActionType.UPDATE_POD_SCALE_DOWN),
        # Requests that were smaller, or missing, before.
        (
            pod_events.has_scale_up and _is_scaled_down(old, new),
            ActionType.UPDATE_POD_SCALE_UP,
        ),
        (
            not new.spec.scheduling_gates and bool(old.spec.scheduling_gates),
            ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
        ),
        # Tolerations can be added, never changed or removed: comparing their number is enough.
        (
            len(new.spec.tolerations) != len(old.spec.tolerations),
            ActionType.UPDATE_POD_TOLERATION,
        ),
        (
            pod_events.has_generated_claims and _generated_claims_changed(new, old),
            ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        ),
    )
    actions = [action for changed, action in changes if changed] or [ActionType.UPDATE]
    return [ClusterEvent(resource, action) for action in actions]


def is_pod_updated(new: Pod, old: Pod) -> bool:
    """True if more than the status changed, or the names of the pod's claims in it.

    The rule without SchedulerQueueingHints, where any such change retries the pod. The pods have
    their JSON, as the change of a field counts that the scheduler does not read.
    """
    return _without_status(new) != _without_status(old) or _unread(new) != _unread(old)


def node_scheduling_properties_change(new: Node, old: Node) -> list[ClusterEvent]:
    """Return an event for each change of a node that matters to scheduling; may be empty."""
    changes = (
        # Becoming schedulable counts as losing a taint; being cordoned helps no pod.
        (old.spec.unschedulable and not new.spec.unschedulable, ActionType.UPDATE_NODE_TAINT),
        (
            _differ(new.status.allocatable, old.status.allocatable),
            ActionType.UPDATE_NODE_ALLOCATABLE,
        ),
        (new.metadata.labels != old.metadata.labels, ActionType.UPDATE_NODE_LABEL),
        (new.spec.taints != old.spec.taints, ActionType.UPDATE_NODE_TAINT),
        (_conditions(new) != _conditions(old), ActionType.UPDATE_NODE_CONDITION),
        (
            new.metadata.annotations != old.metadata.annotations,
            ActionType.UPDATE_NODE_ANNOTATION,
        ),
        (
            new.spec.pod_preemption_policy != old.spec.pod_preemption_policy,
            ActionType.UPDATE_NODE_PREEMPTION_POLICY,
        ),
        (
            new.status.declared_features != old.status.declared_features,
            ActionType.UPDATE_NODE_DECLARED_FEATURE,
        ),
    )
    return [ClusterEvent(EventResource.NODE, action) for changed, action in changes if changed]


class _UnreadOwner(msgspec.Struct, frozen=True, rename="camel"):
    block_owner_deletion: bool | None = None


class _UnreadMetadata(msgspec.Struct, frozen=True, rename="camel"):
    owner_references: tuple[_UnreadOwner, ...] = ()


class _UnreadSpec(msgspec.Struct, frozen=True, rename="camel"):
    active_deadline_seconds: int | None = None
    ephemeral_containers: tuple[msgspec.Raw, ...] = ()


class _Unread(msgspec.Struct, frozen=True):
    """The fields of a waiting pod that may change, and that `Pod` does not have."""

    metadata: _UnreadMetadata = _UnreadMetadata()
    spec: _UnreadSpec = _UnreadSpec()


def _unread(pod: Pod) -> _Unread | None:
    return msgspec.json.decode(pod.json, type=_Unread) if pod.json else None


def _without_status(pod: Pod) -> Pod:
    replace, status = msgspec.structs.replace, pod.status
    return Pod(
        replace(pod.metadata, resource_version="", generation=0, finalizers=()),
        pod.spec,
        PodStatus(
            resource_claim_statuses=status.resource_claim_statuses,
            extended_resource_claim_status=status.extended_resource_claim_status,
        ),
    )


def _is_scaled_down(new: Pod, old: Pod) -> bool:
    if new.spec == old.spec and new.status == old.status:
        return False
    left = resources.pod_requests(new, use_status=True)
    return any(
        name not in left or milli_value(nanos) > milli_value(left[name])
        for name, nanos in resources.pod_requests(old, use_status=True).items()
    )


def _generated_claims_changed(new: Pod, old: Pod) -> bool:
    return (
        new.status.resource_claim_statuses != old.status.resource_claim_statuses
        or new.status.extended_resource_claim_status != old.status.extended_resource_claim_status
    )


def _differ(new: Quantities, old: Quantities) -> bool:
    """True if two resource lists differ in amounts, not only in their notation."""
    if new == old:
        return False
    return new.keys() != old.keys() or any(
        parse_quantity(new[name]) != parse_quantity(old[name]) for name in new
    )


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}
