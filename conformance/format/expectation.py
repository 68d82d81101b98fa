"""An expectation of a case: its subject and the fields that must hold for it."""

from __future__ import annotations

from typing import Final

import msgspec

from ..api import Json, Ref
from ..errors import InputError
from .objects import POD_GROUPS


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all parts of a case. Unknown fields are errors."""


class Bounds(Part, frozen=True, kw_only=True):
    """Bounds of a number that is not known exactly."""

    at_least: int | None = None
    at_most: int | None = None


class TimeBounds(Part, frozen=True, kw_only=True):
    """Bounds of a time that is not known exactly, as durations since the scheduler started."""

    at_least: str | None = None
    at_most: str | None = None


class TextMatch(Part, frozen=True, kw_only=True):
    """The expected message of a pod's PodScheduled=False condition."""

    reason: str = "Unschedulable"
    message: str | None = None
    message_prefix: str | None = None
    message_contains: str | None = None


class ConditionMatch(Part, frozen=True, kw_only=True):
    """An expected condition of a pod. `observed_generation: current` means the pod's generation."""

    type: str
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    message_prefix: str | None = None
    message_contains: str | None = None
    observed_generation: int | str | None = None
    transitioned: TimeBounds | None = None


class EventMatch(Part, frozen=True, kw_only=True):
    """An expected event about a pod. `count` is the number of occurrences, also within a series.

    `series_count` is the count of one event's series. `related` is the name of the other object to
    which the event refers, empty for none.
    """

    reason: str
    type: str | None = None
    action: str | None = None
    note: str | None = None
    note_prefix: str | None = None
    note_contains: str | None = None
    reporting_controller: str | None = None
    related: str | None = None
    count: int | Bounds | None = None
    series_count: int | Bounds | None = None


class ObjectName(Part, frozen=True, kw_only=True, rename="camel"):
    """A reference to an object in the API's terms."""

    kind: str
    name: str
    api_version: str = "v1"
    namespace: str = "default"

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, self.name, self.namespace, self.api_version)


class Expectation(Part, frozen=True, kw_only=True):
    """An expectation. One of its first fields, up to `metric`, is its subject.

    All other fields must hold; None means no expectation. `labels` select samples of a metric.
    """

    pod: str | None = None
    pods: list[str] | None = None
    pod_group: str | None = None
    node: str | None = None
    nodes: str | None = None
    fault: str | None = None
    extender: str | None = None
    object: ObjectName | None = None
    metric: str | None = None
    bound_to: str | None = None
    bound_to_one_of: list[str] | None = None
    not_bound: bool | None = None
    unschedulable: TextMatch | None = None
    gated: bool | None = None
    condition: ConditionMatch | None = None
    no_condition: str | None = None
    event: EventMatch | None = None
    no_event: EventMatch | None = None
    nominated_node_name: str | None = None
    phase: str | None = None
    attempts: int | Bounds | None = None
    requeued_by: str | list[str] | None = None
    not_requeued_by: str | list[str] | None = None
    scheduled_after_flush: int | Bounds | None = None
    deleted: bool | None = None
    bound_count: int | Bounds | None = None
    pod_count: int | Bounds | None = None
    injected: int | Bounds | None = None
    calls: dict[str, int | Bounds] | None = None
    received: dict[str, Json] | None = None
    labels: dict[str, str] | None = None
    value: int | Bounds | None = None
    has: Json | None = None

    @property
    def refs(self) -> list[Ref]:
        """The objects whose fields, conditions and events the expectation is about."""
        if self.object is not None:
            return [self.object.ref]
        if self.pod_group is not None:
            return [pod_group_ref(self.pod_group)]
        return [pod_ref(name) for name in ([self.pod] if self.pod else self.pods or [])]

    @property
    def reads_metrics(self) -> bool:
        """True if only the scheduler's own metrics have the answer."""
        return self.metric is not None or self.reads_moves

    @property
    def reads_moves(self) -> bool:
        """True if the expectation is about counts of the queue since the last look."""
        fields = (self.requeued_by, self.not_requeued_by, self.scheduled_after_flush)
        return any(value is not None for value in fields)

    def check(self) -> None:
        """Check that there is one subject and that the fields fit it. Raises InputError."""
        subjects = {name: getattr(self, name) for name in _SUBJECTS}
        one_of(**subjects)
        used = [
            name
            for name in self.__struct_fields__
            if name not in subjects and getattr(self, name) is not None
        ]
        if self.nodes is not None and used:
            raise InputError(f"nothing else goes with nodes, got {', '.join(used)}")
        if (self.fault is not None) != (used == ["injected"]):
            raise InputError("expected injected, and nothing else, for a fault")
        if (self.metric is not None) != ("value" in used) or (
            self.metric is not None and not {*used} <= {"labels", "value"}
        ):
            raise InputError("expected value, perhaps labels, and nothing else, for a metric")
        for kind in ("pod_group", "object"):
            if subjects[kind] is not None and not {*used} <= _OF_OBJECTS:
                fields = ", ".join(sorted(_OF_OBJECTS))
                raise InputError(f"expected only {fields} of {kind}")
        if (self.extender is not None) != (bool(used) and {*used} <= {"calls", "received"}):
            raise InputError("expected calls, received, and nothing else, for an extender")
        if self.node is not None and used != ["pod_count"]:
            raise InputError("expected pod_count, and nothing else, of a node")
        if self.node is None and self.pod_count is not None:
            raise InputError("expected pod_count only with node")
        if self.pods is None and self.bound_count is not None:
            raise InputError("expected bound_count only with pods")
        if self.nodes is None and not used:
            raise InputError("nothing is expected")


_SUBJECTS: Final = (
    "pod", "pods", "pod_group", "node", "nodes", "fault", "extender", "object", "metric",
)  # fmt: skip
#: The fields that an expectation can have for any object; others are for pods.
_OF_OBJECTS: Final = frozenset({"condition", "no_condition", "event", "no_event", "deleted", "has"})


def one_of(**values: object) -> None:
    """Raise InputError unless exactly one of the values is given."""
    names = [name for name, value in values.items() if value is not None]
    if len(names) != 1:
        raise InputError(f"expected exactly one of {', '.join(values)}, got {len(names)}")


def pod_ref(name: str) -> Ref:
    """Return the reference of the pod `name` or `namespace/name`."""
    namespace, _, short = name.rpartition("/")
    return Ref("Pod", short, namespace or "default")


def pod_group_ref(name: str) -> Ref:
    """Return the reference of the PodGroup `name` or `namespace/name`."""
    return pod_ref(name)._replace(kind="PodGroup", api_version=POD_GROUPS)
