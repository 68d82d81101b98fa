"""What the API server shows of a pod: itself, its conditions, its events; all of it as lines."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from .api import ApiClient, Json, Ref

__all__ = ["PodSight", "objects_in", "part", "pod_sight", "text_in"]

#: What the scheduler reports about an attempt, by how it ended.
ATTEMPT_REASONS: Final = frozenset({"FailedScheduling", "Scheduled"})


class PodSight(NamedTuple):
    """A pod as it is now, or None if it is gone, and the events about it, oldest first."""

    ref: Ref
    pod: Json | None
    events: list[Json]

    @property
    def node_name(self) -> str:
        """The node it is on; empty for none."""
        return text_in(part(self.pod, "spec"), "nodeName")

    @property
    def generation(self) -> int:
        """The generation of its spec."""
        value = part(self.pod, "metadata").get("generation")
        return value if isinstance(value, int) else 0

    @property
    def attempts(self) -> int:
        """How often the scheduler has tried to place it, as far as events tell."""
        return sum(
            count_of(event) for event in self.events if event.get("reason") in ATTEMPT_REASONS
        )

    def condition(self, kind: str) -> Json | None:
        """One of its conditions."""
        for condition in objects_in(part(self.pod, "status"), "conditions"):
            if condition.get("type") == kind:
                return condition
        return None

    def lines(self) -> list[str]:
        """The pod in words: where it is, what its conditions say, what has happened to it."""
        if self.pod is None:
            return [f"{self.ref} does not exist", *self._event_lines()]
        status = part(self.pod, "status")
        where = f"on node {self.node_name}" if self.node_name else "on no node"
        nominated = text_in(status, "nominatedNodeName")
        found = [f"{self.ref} is {text_in(status, 'phase') or 'without phase'}, {where}"]
        if nominated:
            found[0] += f", nominated for {nominated}"
        conditions = objects_in(status, "conditions")
        found.append("conditions:" if conditions else "conditions: none")
        found += [f"  {_condition_line(condition)}" for condition in conditions]
        return [*found, *self._event_lines()]

    def _event_lines(self) -> list[str]:
        lines = [f"  {event_line(event)}" for event in self.events]
        return ["events:" if lines else "events: none", *lines]


async def pod_sight(api: ApiClient, ref: Ref) -> PodSight:
    """Look at a pod and its events."""
    pod = await api.find(ref)
    uid = part(pod, "metadata").get("uid")
    events = [
        event
        for event in await api.list(
            "Event", api_version="events.k8s.io/v1", namespace=ref.namespace
        )
        if _is_about(event, ref, uid)
    ]
    events.sort(key=lambda event: text_in(event, "eventTime"))
    return PodSight(ref, pod, events)


def _is_about(event: Json, ref: Ref, uid: object) -> bool:
    """Whether an event is about that pod; of one that was recreated, about the one there is."""
    regarding = part(event, "regarding")
    if (regarding.get("kind"), regarding.get("name")) != (ref.kind, ref.name):
        return False
    return uid is None or regarding.get("uid") == uid


def count_of(event: Json) -> int:
    """How often an event has happened."""
    count = part(event, "series").get("count", event.get("deprecatedCount"))
    return count if isinstance(count, int) and count > 0 else 1


def event_line(event: Json) -> str:
    """An event in one line."""
    count = count_of(event)
    times = f" x{count}" if count > 1 else ""
    kind, reason = text_in(event, "type"), text_in(event, "reason")
    return f"{kind} {reason}{times} ({text_in(event, 'action')}): {text_in(event, 'note')}"


def _condition_line(condition: Json) -> str:
    reason, message = text_in(condition, "reason"), text_in(condition, "message")
    line = f"{text_in(condition, 'type')}={text_in(condition, 'status')}"
    line += f" {reason}" if reason else ""
    return f"{line}: {message}" if message else line


def part(obj: Json | None, name: str) -> Json:
    """An object inside another one; empty if it is not there."""
    value = None if obj is None else obj.get(name)
    return value if isinstance(value, dict) else {}


def objects_in(obj: Json, name: str) -> list[Json]:
    """A list of objects inside an object; empty if it is not there."""
    value = obj.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_in(obj: Json, name: str) -> str:
    """A text inside an object; empty if it is not there."""
    value = obj.get(name)
    return value if isinstance(value, str) else ""


def epoch_seconds(timestamp: str) -> float | None:
    """A `metav1.Time` in seconds since 1970; None if it is none."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return None
