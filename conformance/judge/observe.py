"""Describe an object as the API server shows it, with its conditions and its events, as lines.

The object is a pod or a pod group.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from ..format.reading import name_of, node_of, text_in
from ..format.resources import objects, part

if TYPE_CHECKING:
    from ..api import ApiClient, Json, Ref

#: The reasons of the scheduler's events about an attempt, by result.
ATTEMPT_REASONS: Final = frozenset({"FailedScheduling", "Scheduled"})


class Sight(NamedTuple):
    """A pod or a pod group, or None if it does not exist, and its events, oldest first."""

    ref: Ref
    object: Json | None
    events: list[Json]

    @property
    def node_name(self) -> str:
        """The pod's node; empty without one."""
        return node_of(self.object or {})

    @property
    def generation(self) -> int:
        """The generation of the object's spec."""
        value = part(self.object, "metadata").get("generation")
        return value if isinstance(value, int) else 0

    @property
    def attempts(self) -> int:
        """The number of attempts to schedule the pod, as counted by events."""
        return sum(
            count_of(event) for event in self.events if event.get("reason") in ATTEMPT_REASONS
        )

    def condition(self, kind: str) -> Json | None:
        """Return one of the object's conditions."""
        for condition in objects(part(self.object, "status").get("conditions")):
            if condition.get("type") == kind:
                return condition
        return None

    def lines(self) -> list[str]:
        """Return the object as lines: a pod's phase and node, the conditions, the events."""
        if self.object is None:
            return [f"{self.ref} does not exist", *self._event_lines()]
        status = part(self.object, "status")
        lines = [str(self.ref)]
        if self.ref.kind == "Pod":
            where = f"on node {self.node_name}" if self.node_name else "on no node"
            lines[0] += f" is {text_in(status, 'phase') or 'without phase'}, {where}"
        if nominated := text_in(status, "nominatedNodeName"):
            lines[0] += f", nominated for {nominated}"
        conditions = objects(status.get("conditions"))
        lines.append("conditions:" if conditions else "conditions: none")
        lines += [f"  {_condition_line(condition)}" for condition in conditions]
        return [*lines, *self._event_lines()]

    def _event_lines(self) -> list[str]:
        lines = [f"  {event_line(event)}" for event in self.events]
        return ["events:" if lines else "events: none", *lines]


async def sight_of(api: ApiClient, ref: Ref) -> Sight:
    """Read a pod or a pod group, and its events."""
    obj = await api.find(ref)
    uid = part(obj, "metadata").get("uid")
    events = [
        event
        for event in await api.list(
            "Event", api_version="events.k8s.io/v1", namespace=ref.namespace
        )
        if _is_about(event, ref, uid)
    ]
    events.sort(key=lambda event: text_in(event, "eventTime"))
    return Sight(ref, obj, events)


async def terminating_lines(api: ApiClient) -> list[str]:
    """Return a line for each pod that is deleted and stays, as nothing ends it."""
    lines = []
    for pod in await api.list("Pod"):
        name, node = name_of(pod), node_of(pod)
        if node and "deletionTimestamp" in part(pod, "metadata"):
            lines.append(
                f"pod {name} is still terminating on {node}: there is no kubelet that ends it; "
                f"write the step `delete: {{pod: {name}}}`"
            )
    return lines


def _is_about(event: Json, ref: Ref, uid: object) -> bool:
    """True if an event is about that object and, if it was recreated, about the current one."""
    regarding = part(event, "regarding")
    if (regarding.get("kind"), regarding.get("name")) != (ref.kind, ref.name):
        return False
    return uid is None or regarding.get("uid") == uid


def count_of(event: Json) -> int:
    """Return the number of occurrences of an event."""
    count = part(event, "series").get("count", event.get("deprecatedCount"))
    return count if isinstance(count, int) and count > 0 else 1


def event_line(event: Json) -> str:
    """Return an event as one line."""
    count = count_of(event)
    times = f" x{count}" if count > 1 else ""
    kind, reason = text_in(event, "type"), text_in(event, "reason")
    return f"{kind} {reason}{times} ({text_in(event, 'action')}): {text_in(event, 'note')}"


def _condition_line(condition: Json) -> str:
    reason, message = text_in(condition, "reason"), text_in(condition, "message")
    line = f"{text_in(condition, 'type')}={text_in(condition, 'status')}"
    line += f" {reason}" if reason else ""
    return f"{line}: {message}" if message else line


def epoch_seconds(timestamp: str) -> float | None:
    """Convert a `metav1.Time` to seconds since 1970; None if it is missing."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return None
