"""Which cluster events a change is, and what each plugin's hint makes of them.

Asks the plugins of the first profile, as the scheduling queue would for a pod that all of them had
turned down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Union, cast

import msgspec

from scheduler.api.core import Node, Pod
from scheduler.client.kinds import KINDS_BY_NAME
from scheduler.explain.pod_defaults import with_api_defaults
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
    match_cluster_events,
)
from scheduler.queue.property_changes import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from scheduler.snapshot import PodInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.client import ApiObject
    from scheduler.framework.interface import EnqueueExtensions, Plugin
    from scheduler.runtime import Framework

#: A JSON object.
Json = dict[str, object]
#: An object as it was or is; None where it was not or is not there.
State = Union["ApiObject", None]


def hints_of(
    profiles: Mapping[str, Framework], waiting: Pod, old_json: bytes, new_json: bytes
) -> Json:
    """The events of a change, and each interested plugin's answer to them."""
    old, new = _decoded(old_json), _decoded(new_json)
    framework = next(iter(profiles.values()))
    pod = PodInfo(waiting)
    events = cluster_events_of(old, new)
    hints = {
        plugin.name: answers
        for plugin in framework.rejecting_plugins
        if (answers := _answers(plugin, events, pod, old, new))
    }
    return {"events": [event.label for event in events], "hints": hints}


def cluster_events_of(old: State, new: State) -> list[ClusterEvent]:
    """What a change of a pod or node is to the queue."""
    if isinstance(old, Pod) and isinstance(new, Pod):
        return pod_scheduling_properties_change(new, old)
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
    resource = EventResource.ASSIGNED_POD if assigned else EventResource.UNSCHEDULABLE_POD
    return [ClusterEvent(resource, action)]


def _event_resource(obj: ApiObject) -> EventResource:
    """What events call the kind of an object: `Node`, `storage.k8s.io/CSINode`."""
    kind = type(obj).__name__
    return next(r for r in EventResource if r.rpartition("/")[2] == kind)


def _answers(
    plugin: Plugin, events: list[ClusterEvent], pod: PodInfo, old: State, new: State
) -> dict[str, str]:
    if not hasattr(plugin, "events_to_register"):
        return {event.label: str(QueueingHint.QUEUE) for event in events}
    answers: dict[str, str] = {}
    registered = list(cast("EnqueueExtensions", plugin).events_to_register())
    for event in events:
        asked = [hint for known, hint in registered if match_cluster_events(known, event)]
        if not asked:
            continue
        queue = any(hint is None or hint(pod, old, new) == QueueingHint.QUEUE for hint in asked)
        answers[event.label] = str(QueueingHint.QUEUE if queue else QueueingHint.QUEUE_SKIP)
    return answers


def _decoded(text: bytes) -> State:
    if text == b"null":
        return None
    resource = KINDS_BY_NAME.get(msgspec.json.decode(text)["kind"])
    if resource is None:
        return None
    decoded: ApiObject = msgspec.json.decode(text, type=resource.type)
    return with_api_defaults(decoded) if isinstance(decoded, Pod) else decoded
