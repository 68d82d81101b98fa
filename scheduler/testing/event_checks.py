"""Check a plugin in the queue: its events, hints and order.

A pod that a plugin has rejected waits for an event that the plugin has registered for. So an event
that makes the plugin accept the pod must match a registration, and its hint must return QUEUE;
otherwise the pod waits for minutes.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from scheduler.client.kinds import KINDS
from scheduler.framework.events import (
    ALL_EVENTS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    match_cluster_events,
)
from scheduler.queue.property_changes import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing.object_changes import object_changes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from scheduler.api.core import Node, Pod
    from scheduler.api.unstructured import Kind
    from scheduler.testing.random_cluster import RandomCluster
    from scheduler.testing.trial import Trial

    T = TypeVar("T", Node, Pod)

#: The hints are called with so many objects of each kind.
_OBJECTS_MAX: Final = 2
_NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
_POD_DELETE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)


def check_hints(trial: Trial, pod: PodInfo) -> None:
    """Check the hints of a waiting pod for changes of the cluster that make the plugin accept it.

    Changes are new nodes, deleted pods, other labels, and objects that come, change or go.
    """
    registered = trial.registered
    if registered is ALL_EVENTS:
        return
    for entry in registered:
        if entry.queueing_hint_fn is not None:
            trial.seen.hints.add(_hint_name(entry.event))
        for old, new in _changes(trial, entry.event):
            _hint(trial, entry, pod, old, new)
    fitting = trial.fitting_nodes(pod)
    cluster = _without_nodes(trial.cluster, fitting)
    before = trial.on_cluster(cluster)
    if cluster.nodes and not before.fitting_nodes(pod):
        arriving = [node for node in trial.cluster.nodes if node.metadata.name in fitting]
        for after, events, old, new in _cluster_changes(before, arriving):
            _check_event(before, after, registered, pod, events, old, new)
        _check_own_changes(before, registered, pod)
    _check_objects(trial, pod, fitting)


def _without_nodes(cluster: RandomCluster, names: Collection[str]) -> RandomCluster:
    """Return the cluster of the nodes that reject a pod, in which it waits."""
    return cluster._replace(
        nodes=[node for node in cluster.nodes if node.metadata.name not in names],
        running=[pod for pod in cluster.running if pod.spec.node_name not in names],
    )


def _cluster_changes(
    before: Trial, arriving: Sequence[Node]
) -> Iterator[tuple[RandomCluster, Sequence[ClusterEvent], object, object]]:
    """Yield clusters after one change, with its events and the object before and after."""
    cluster, rng = before.cluster, random.Random(0)
    nodes, running = cluster.nodes, cluster.running
    for node in arriving:  # without pods
        yield cluster._replace(nodes=[*nodes, node]), [_NODE_ADD], None, node
    for index, gone in enumerate(running):
        left = [*running[:index], *running[index + 1 :]]
        yield cluster._replace(running=left), [_POD_DELETE], gone, None
    for index, node in enumerate(nodes):
        several = [*nodes, *arriving]
        for changed in (*_relabelled(node, several, rng), _respecified(node, several, rng)):
            others = [*nodes[:index], changed, *nodes[index + 1 :]]
            events = node_scheduling_properties_change(changed, node)
            yield cluster._replace(nodes=others), events, node, changed
    for index, pod in enumerate(running):
        for relabelled in _relabelled(pod, [*running, *cluster.incoming], rng):
            pods = [*running[:index], relabelled, *running[index + 1 :]]
            events = pod_scheduling_properties_change(relabelled, pod)
            yield cluster._replace(running=pods), events, pod, relabelled


def _relabelled(obj: T, others: Sequence[T], rng: random.Random) -> Iterator[T]:
    """Yield an object with the labels of another one, and without one of its labels.

    Then the same for annotations.
    """
    for part in ("labels", "annotations"):
        own: Mapping[str, str] = getattr(obj.metadata, part)
        choices = [getattr(rng.choice(others).metadata, part)]
        if own:
            dropped = rng.choice(sorted(own))
            choices.append({key: value for key, value in own.items() if key != dropped})
        for choice in choices:
            if choice != own:
                yield replace(obj, metadata=replace(obj.metadata, **{part: choice}))


def _respecified(node: Node, others: Sequence[Node], rng: random.Random) -> Node:
    """Return a node with the resources or the taints of another one, or cordoned otherwise."""
    other = rng.choice(others)
    return rng.choice(
        (
            replace(node, status=replace(node.status, allocatable=other.status.allocatable)),
            replace(node, spec=replace(node.spec, taints=other.spec.taints)),
            replace(node, spec=replace(node.spec, unschedulable=not node.spec.unschedulable)),
        )
    )


def _check_own_changes(
    before: Trial, registered: Sequence[ClusterEventWithHint], pod: PodInfo
) -> None:
    """Check the hints for changes of the waiting pod's own labels and annotations."""
    cluster = before.cluster
    for changed in _relabelled(pod.pod, cluster.incoming, random.Random(0)):
        incoming = [changed if other is pod.pod else other for other in cluster.incoming]
        events = pod_scheduling_properties_change(changed, pod.pod)
        after = cluster._replace(incoming=incoming)
        _check_event(before, after, registered, PodInfo(changed), events, pod.pod, changed)


def _check_objects(trial: Trial, pod: PodInfo, fitting: Collection[str]) -> None:
    """Check the hints for objects of further kinds that are added, changed or deleted.

    `fitting` are the nodes that take the pod.
    """
    for kind, items in trial.objects.items():
        for obj, changed, now in object_changes(items):
            trial.seen.changed_kinds.add(kind)
            after = trial.on_cluster(trial.cluster, objects={**trial.objects, kind: now})
            fitting_after = after.fitting_nodes(pod)
            # One event leads from these objects to the others, another one back.
            for first, names, then, names_then, old, new in (
                (trial, fitting, after, fitting_after, obj, changed),
                (after, fitting_after, trial, fitting, changed, obj),
            ):
                if not set(names_then) <= set(names):
                    event = ClusterEvent(_resource_of(kind), _action(old, new))
                    _check_object_event(first, then, names, pod, event, old, new)


def _check_object_event(
    first: Trial,
    then: Trial,
    fitting: Collection[str],
    pod: PodInfo,
    event: ClusterEvent,
    old: object,
    new: object,
) -> None:
    """Check the hints for a changed object after which one of the other nodes takes the pod.

    The pod waits in a cluster without the nodes that take it before the change.
    """
    waiting_in = _without_nodes(first.cluster, fitting)
    after = then.on_cluster(waiting_in)
    if not first.on_cluster(waiting_in).fitting_nodes(pod) and after.fitting_nodes(pod):
        _expect_retry(after, after.registered, pod, [event], old, new)


def _action(old: object, new: object) -> ActionType:
    if old is None:
        return ActionType.ADD
    return ActionType.DELETE if new is None else ActionType.UPDATE


def _resource_of(kind: Kind) -> str:
    """Return the name of a kind in events."""
    if isinstance(kind, str) and kind in KINDS:
        kind = KINDS[kind].type
    return ClusterEventWithHint.on(kind, ActionType.ALL).event.resource


def _changes(trial: Trial, event: ClusterEvent) -> Iterator[tuple[object, object]]:
    """Yield changes that an event stands for, with objects of the trial."""
    objects: dict[str, Sequence[object]] = {
        EventResource.POD: trial.cluster.running,
        EventResource.NODE: trial.cluster.nodes,
    }
    for kind, items in trial.objects.items():
        objects[_resource_of(kind)] = items
    for obj in objects.get(event.resource, ())[:_OBJECTS_MAX]:
        if event.action_type & ActionType.ADD:
            yield None, obj
        if event.action_type & ActionType.UPDATE:
            yield obj, obj
        if event.action_type & ActionType.DELETE:
            yield obj, None


def _check_event(
    before: Trial,
    after: RandomCluster,
    registered: Sequence[ClusterEventWithHint],
    pod: PodInfo,
    events: Sequence[ClusterEvent],
    old: object,
    new: object,
) -> None:
    """Check the hints for a change after which the plugin accepts the pod."""
    if before.on_cluster(after).fitting_nodes(pod):
        _expect_retry(before, registered, pod, events, old, new)


def _expect_retry(
    before: Trial,
    registered: Sequence[ClusterEventWithHint],
    pod: PodInfo,
    events: Sequence[ClusterEvent],
    old: object,
    new: object,
) -> None:
    """Fail if no hint for one of the events of a change returns QUEUE."""
    answers = [
        _hint(before, entry, pod, old, new)
        for entry in registered
        if any(match_cluster_events(entry.event, event) for event in events)
    ]
    if QueueingHint.QUEUE not in answers:
        what = "its hint returns QUEUE_SKIP" if answers else "it has not registered for the event"
        named = new if new is not None else old
        name = getattr(getattr(named, "metadata", None), "name", "")
        labels = " or ".join(event.label for event in events)
        before.fail(f"accepts the pod after the event {labels} of {name}, but {what}")


def _hint(
    trial: Trial, entry: ClusterEventWithHint, pod: PodInfo, old: object, new: object
) -> QueueingHint:
    if entry.queueing_hint_fn is None:
        return QueueingHint.QUEUE
    trial.seen.called.add(_hint_name(entry.event))
    try:
        answer = entry.queueing_hint_fn(pod, old, new)
    except Exception as error:  # noqa: BLE001 - code of a plugin; `fail` raises
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
