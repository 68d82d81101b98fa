"""The cluster events of a change, and the answers of queueing hints, in the recorded format."""

from collections.abc import Mapping, Sequence
from typing import Any, Union

from scheduler.api.core import Node, Pod
from scheduler.client import ApiObject
from scheduler.explain.cluster import with_api_defaults
from scheduler.explain.questions import read_object
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    PodEvents,
    QueueingHint,
    match_cluster_events,
)
from scheduler.queue.property_changes import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from scheduler.runtime import Framework
from scheduler.snapshot import PodInfo

#: An object before or after a change; None if it does not exist then.
State = Union["ApiObject", None]


def hints_of(
    profiles: Mapping[str, Framework],
    waiting: Pod,
    old_json: bytes,
    new_json: bytes,
    pod_events: PodEvents,
) -> dict[str, Any]:
    """Return the cluster events of a change, and each plugin's queueing hints for them.

    The hints are those of the first profile, for a pod that all its plugins have rejected.
    """
    old, new = _decoded(old_json), _decoded(new_json)
    framework = next(iter(profiles.values()))
    pod = PodInfo(with_api_defaults(waiting))
    events = _cluster_events_of(old, new, pod_events)
    hints = {
        plugin.name: answers
        for plugin, registered in framework.registered_events
        if (answers := _answers(registered, events, pod, old, new))
    }
    return {"events": [event.label for event in events], "hints": hints}


def _cluster_events_of(old: State, new: State, pod_events: PodEvents) -> list[ClusterEvent]:
    """Return the cluster events that the queue derives from a change."""
    if isinstance(old, Pod) and isinstance(new, Pod):
        return pod_scheduling_properties_change(new, old, pod_events)
    if isinstance(old, Node) and isinstance(new, Node):
        return node_scheduling_properties_change(new, old)
    present = old if new is None else new
    if present is None:
        return []
    action = ActionType.UPDATE
    if new is None:
        action = ActionType.DELETE
    elif old is None:
        action = ActionType.ADD
    if not isinstance(present, Pod):
        return [ClusterEvent(_event_resource(present), action)]
    assigned = bool(present.spec.node_name)
    resource = EventResource.ASSIGNED_POD if assigned else pod_events.unscheduled
    return [ClusterEvent(resource, action)]


def _event_resource(obj: ApiObject) -> EventResource:
    """Return the event resource of an object's kind: `Node`, `storage.k8s.io/CSINode`."""
    kind = type(obj).__name__
    return next(r for r in EventResource if r.rpartition("/")[2] == kind)


def _answers(
    registered: Sequence[ClusterEventWithHint],
    events: list[ClusterEvent],
    pod: PodInfo,
    old: State,
    new: State,
) -> dict[str, str]:
    answers: dict[str, str] = {}
    for event in events:
        hints = [hint for known, hint in registered if match_cluster_events(known, event)]
        if not hints:
            continue
        queue = any(hint is None or hint(pod, old, new) == QueueingHint.QUEUE for hint in hints)
        answers[event.label] = str(QueueingHint.QUEUE if queue else QueueingHint.QUEUE_SKIP)
    return answers


def _decoded(text: bytes) -> State:
    decoded = None if text == b"null" else read_object(text)
    return None if decoded is None else decoded[1]
