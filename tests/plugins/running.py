"""Run one plugin alone on a snapshot, as the framework does."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, cast

import numpy as np

from scheduler.api.core import Node, Pod
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    Code,
    CycleState,
    EventResource,
    Plugin,
    PreFilterResult,
    QueueingHint,
    Status,
)
from scheduler.framework.events import match_cluster_events
from scheduler.framework.interface import EnqueueExtensions, FilterNodesPlugin, ScoreNodesPlugin
from scheduler.queue.property_changes import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from scheduler.runtime.registry import Registry
from scheduler.snapshot import IntArray, PodInfo, Snapshot
from scheduler.testing import FakeHandle
from scheduler.testing.doubles import FakeLister

P = TypeVar("P", bound="Plugin")

#: A verdict as tests write it: upstream's code, and the reasons.
Verdict = tuple[str, tuple[str, ...]]

QUEUE, SKIP = "Queue", "QueueSkip"
UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"


def build(plugin_class: type[P], args: Mapping[str, object] | None = None) -> P:
    """Return a plugin built as for a profile; `args` in the form of a configuration file."""
    registry = Registry([plugin_class])
    given = dict(args) if args is not None else None
    return cast("P", registry.create(plugin_class.name, given, _HANDLE))


_HANDLE = FakeHandle(listers={"deviceclasses": FakeLister()})


def verdict_of(status: Status | None) -> Verdict | None:
    return (str(status.code), status.reasons) if status is not None else None


def rejected(
    plugin: FilterNodesPlugin, pod: Pod, snapshot: Snapshot, *, only: Iterable[str] | None = None
) -> dict[str, Verdict]:
    """Return the nodes that a plugin's PreFilter and Filter reject; `only` narrows the view."""
    info, state, nodes = PodInfo(pod), CycleState(), snapshot.nodes
    if only is not None:
        rows = [row for row, name in enumerate(nodes.names) if name in set(only)]
        nodes = nodes.take(np.array(rows, dtype=np.int64))
    answer = plugin.pre_filter(state, info, nodes) if hasattr(plugin, "pre_filter") else None
    found: dict[str, Verdict] = {}
    if isinstance(answer, Status):
        if answer.code != Code.SKIP:
            found.update(dict.fromkeys(nodes.names, (str(answer.code), answer.reasons)))
        return found
    if isinstance(answer, PreFilterResult) and answer.node_names is not None:
        allowed = np.array([name in answer.node_names for name in nodes.names], dtype=np.bool_)
        found.update(dict.fromkeys(nodes.take(~allowed).names, (UNRESOLVABLE, ())))
        nodes = nodes.take(allowed)
    rejections = plugin.filter_nodes(state, info, nodes)
    for index, name in enumerate(nodes.names if rejections else ()):
        if rejections and (verdict := verdict_of(rejections.status(index))):
            found[name] = verdict
    return found


def scores(plugin: ScoreNodesPlugin, pod: Pod, snapshot: Snapshot) -> dict[str, int]:
    """Every node's normalised score; empty if the plugin skips the pod."""
    info, state, nodes = PodInfo(pod), CycleState(), snapshot.nodes
    answer = plugin.pre_score(state, info, nodes) if hasattr(plugin, "pre_score") else None
    if answer is not None:
        assert answer.code == Code.SKIP
        return {}
    result: IntArray = plugin.score_nodes(state, info, nodes)
    if hasattr(plugin, "normalize_score"):
        result = plugin.normalize_score(state, info, result)
    assert result.dtype == np.int64
    return dict(zip(nodes.names, result.tolist(), strict=True))


def hint(
    plugin: EnqueueExtensions, pod: Pod, *, old: object = None, new: object = None
) -> str | None:
    """Return the answer of a plugin's hint to a change of a pod or node.

    None if the plugin has not registered for the event, `Queue` if it has, without a hint.
    """
    for event in events_of(old, new):
        for registered in plugin.events_to_register():
            if match_cluster_events(registered.event, event):
                if registered.queueing_hint_fn is None:
                    return str(QueueingHint.QUEUE)
                return str(registered.queueing_hint_fn(PodInfo(pod), old, new))
    return None


def events_of(old: object, new: object) -> Sequence[ClusterEvent]:
    """Return the cluster events of a change, as the event handlers do."""
    if isinstance(old, Pod) and isinstance(new, Pod):
        return pod_scheduling_properties_change(new, old)
    if isinstance(old, Node) and isinstance(new, Node):
        return node_scheduling_properties_change(new, old)
    changed, action = (new, ActionType.ADD) if old is None else (old, ActionType.DELETE)
    if isinstance(changed, Node):
        return [ClusterEvent(EventResource.NODE, action)]
    assert isinstance(changed, Pod)
    assigned = bool(changed.spec.node_name)
    resource = EventResource.ASSIGNED_POD if assigned else EventResource.UNSCHEDULABLE_POD
    return [ClusterEvent(resource, action)]
