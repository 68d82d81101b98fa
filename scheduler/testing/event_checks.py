"""Check a plugin in the queue: its events, hints and order.

A pod that a plugin has rejected waits for an event that the plugin has registered for. So an event
that makes the plugin accept the pod must match a registration, and its hint must return QUEUE;
otherwise the pod waits for minutes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    match_cluster_events,
)
from scheduler.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduler.testing.trial import Trial

#: The hints are called with so many objects of each kind.
_OBJECTS_MAX: Final = 2
_NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
_POD_DELETE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)


def _registrations_of(trial: Trial) -> Sequence[ClusterEventWithHint] | None:
    """Return the events of a plugin, or None for every event; fail for other values."""
    events = trial.call("events_to_register")
    if events is None:
        return None
    if not isinstance(events, Iterable):
        trial.wrong("events_to_register", events, "events with hints")
    found = list(events)
    for event in found:
        if not isinstance(event, ClusterEventWithHint):
            trial.wrong("events_to_register", event, "a ClusterEventWithHint")
        if event.queueing_hint_fn is not None:
            trial.seen.hints.add(_hint_name(event.event))
    return found


def check_hints(trial: Trial, pod: PodInfo) -> None:
    """Check the hints of a waiting pod for new nodes and for deletions of running pods."""
    registered = _registrations_of(trial)
    if registered is None:
        return
    for entry in registered:
        for old, new in _changes(trial, entry.event):
            _hint(trial, entry, pod, old, new)
    verdicts = trial.results(pod).verdicts
    by_name = dict(zip((node.metadata.name for node in trial.cluster.nodes), verdicts, strict=True))
    nodes = [node for node in trial.cluster.nodes if by_name[node.metadata.name] is not None]
    names = {node.metadata.name for node in nodes}
    running = [each for each in trial.cluster.running if each.spec.node_name in names]
    # A cluster of the nodes that reject the pod, in which it waits.
    cluster = trial.cluster._replace(nodes=nodes, running=running)
    before = trial.on_cluster(cluster)
    for node in trial.cluster.nodes:
        if node.metadata.name not in names:  # it arrives without pods
            after = trial.on_cluster(cluster._replace(nodes=[*nodes, node]))
            _check_event(before, after, registered, pod, _NODE_ADD, None, node)
    for index, gone in enumerate(running):
        left = [*running[:index], *running[index + 1 :]]
        after = trial.on_cluster(cluster._replace(running=left))
        _check_event(before, after, registered, pod, _POD_DELETE, gone, None)


def _changes(trial: Trial, event: ClusterEvent) -> Iterator[tuple[object, object]]:
    """Yield changes that an event stands for, with objects of the trial."""
    objects: dict[str, Sequence[object]] = {
        EventResource.POD: trial.cluster.running,
        EventResource.NODE: trial.cluster.nodes,
    }
    for kind, found in trial.objects.items():
        objects[ClusterEventWithHint.on(kind, ActionType.ALL).event.resource] = found
    for obj in objects.get(event.resource, ())[:_OBJECTS_MAX]:
        if event.action_type & ActionType.ADD:
            yield None, obj
        if event.action_type & ActionType.UPDATE:
            yield obj, obj
        if event.action_type & ActionType.DELETE:
            yield obj, None


def _check_event(
    before: Trial,
    after: Trial,
    registered: Sequence[ClusterEventWithHint],
    pod: PodInfo,
    event: ClusterEvent,
    old: object,
    new: object,
) -> None:
    """Check the hints for one event, if the plugin rejected the pod before it."""
    if not before.cluster.nodes or before.accepts(pod):
        return
    answers = [
        _hint(before, entry, pod, old, new)
        for entry in registered
        if match_cluster_events(entry.event, event)
    ]
    if QueueingHint.QUEUE not in answers and after.accepts(pod):
        what = "its hint returns QUEUE_SKIP" if answers else "it has not registered for the event"
        named = new if new is not None else old
        name = getattr(getattr(named, "metadata", None), "name", "")
        before.fail(f"accepts the pod after the event {event.label} of {name}, but {what}")


def _hint(
    trial: Trial, entry: ClusterEventWithHint, pod: PodInfo, old: object, new: object
) -> QueueingHint:
    if entry.queueing_hint_fn is None:
        return QueueingHint.QUEUE
    trial.seen.called.add(_hint_name(entry.event))
    try:
        answer = entry.queueing_hint_fn(pod, old, new)
    except Exception as error:
        label = entry.event.label
        trial.fail(f"hint for {label} raised {type(error).__name__}: {error}", error)
    if not isinstance(answer, QueueingHint):
        trial.fail(f"hint for {entry.event.label} returned {answer!r}: expected a QueueingHint")
    return answer


def _hint_name(event: ClusterEvent) -> str:
    """Return the name of a hint in messages."""
    return f"the hint for {event.label}"


class _Queued:
    """A pod in the queue."""

    attempts = 0

    def __init__(self, pod_info: PodInfo, timestamp: float) -> None:
        self.pod_info = pod_info
        self.timestamp = timestamp
        self.initial_attempt_timestamp: float | None = timestamp


def check_order(trial: Trial) -> None:
    """Check that `less` is a strict order, and that `sort_key` gives the same order."""
    if not hasattr(trial.plugin, "less"):
        return
    pods = [_Queued(PodInfo(pod), float(n % 2)) for n, pod in enumerate(trial.cluster.incoming)]
    for first in pods:
        for second in pods:
            less, more = (trial.call("less", a, b) for a, b in ((first, second), (second, first)))
            if type(less) is not bool:
                trial.wrong("less", less, "a bool")
            if less and more:
                trial.fail("orders pods both ways: less(a, b) and less(b, a)")
            if hasattr(trial.plugin, "sort_key"):
                keys = [trial.call("sort_key", each) for each in (first, second)]
                if (keys[0] < keys[1]) != less:  # type: ignore[operator] # tuples of floats
                    trial.fail("orders pods by sort_key in another way than by less")
