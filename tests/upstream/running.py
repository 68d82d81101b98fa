"""Run a plugin on a case, by extension point, and return its answers in the form of the data."""

import functools
import operator
from typing import Any, TypeVar, cast

from scheduler.client.kinds import KINDS, kind_of_event
from scheduler.config import uses_queueing_hints
from scheduler.framework import (
    ActionType,
    CycleState,
    EventResource,
    Plugin,
    PreFilterResult,
    Status,
)
from scheduler.framework.events import QueueingHintFn
from scheduler.framework.interface import (
    EnqueueExtensions,
    FilterNodesPlugin,
    PreFilterPlugin,
    ScoreNodesPlugin,
)
from scheduler.framework.registrations import PluginEvents
from scheduler.plugins import IN_TREE
from scheduler.queue.without_hints import events_without_hints
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle
from scheduler.testing.doubles import FakeLister
from tests.plugins.running import Verdict, verdict_of
from tests.upstream.loading import (
    Case,
    Fields,
    api_object,
    feature_gates,
    node,
    pod,
    snapshot,
    version_of,
)

P = TypeVar("P", bound="Plugin")


def plugin_of(plugin_class: type[P], case: Case, args: Fields | None = None) -> P:
    """A plugin with the case's `args` and `gates`, in a cluster with its nodes, pods and `objects`.

    `objects` are lists of further API objects by their plural, `{deviceclasses: [...]}`. A case
    without `args` has those that are passed.
    """
    objects = case.get("objects") or {}
    listers = {
        plural: FakeLister([api_object(KINDS[plural].type, o) for o in objects.get(plural, ())])
        for plural in {*plugin_class.reads, *objects}
    }
    handle = FakeHandle(
        snapshot(case),
        listers=listers,
        feature_gates=feature_gates(case),
        version=version_of(case),
    )
    args = case.get("args", args)
    return cast("P", Registry([plugin_class]).create(plugin_class.name, args, handle))


def incoming(case: Case) -> PodInfo:
    """The case's `pod`: the one to be placed."""
    return PodInfo(pod(case.get("pod") or {}))


def pre_filter(plugin: PreFilterPlugin, case: Case, state: CycleState) -> Any:
    """Return the answer of PreFilter: `{nodes: [...]}`, a status as `(code, reasons)`, or None."""
    answer = plugin.pre_filter(state, incoming(case), snapshot(case).nodes)
    if isinstance(answer, PreFilterResult):
        return None if answer.node_names is None else {"nodes": sorted(answer.node_names)}
    return verdict_of(answer)


def filter_statuses(plugin: FilterNodesPlugin, case: Case, state: CycleState) -> dict[str, Verdict]:
    """Filter's statuses by node, those that are not Success."""
    nodes = cast("Plugin", plugin).handle.snapshot.nodes
    rejections = plugin.filter_nodes(state, incoming(case), nodes)
    if rejections is None:
        return {}
    statuses = [rejections.status(index) for index in range(len(nodes))]
    return {
        name: (str(status.code), status.reasons)
        for name, status in zip(nodes.names, statuses, strict=True)
        if status is not None
    }


def scores(
    plugin: ScoreNodesPlugin, case: Case, state: CycleState, *, normalized: bool = True
) -> dict[str, int]:
    """Scores by node, after PreScore if the case needs it; `normalized` as the framework has it."""
    info, nodes = incoming(case), snapshot(case).nodes
    found = plugin.score_nodes(state, info, nodes)
    if normalized and hasattr(plugin, "normalize_score"):
        found = plugin.normalize_score(state, info, found)
    return dict(zip(nodes.names, found.tolist(), strict=True))


def pre_score(plugin: Any, case: Case, state: CycleState) -> Verdict | None:
    """PreScore's status."""
    answer: Status | None = plugin.pre_score(state, incoming(case), snapshot(case).nodes)
    return verdict_of(answer)


def hint(plugin: EnqueueExtensions, case: Case, resource: EventResource) -> str:
    """Return the answer of the hint that is registered for a resource, for `old` and `new`.

    A value that is not an object is passed unchanged. The hint must raise if `case["raises"]`, and
    only then; the queue then acts as for `Queue`.
    """
    old, new = (_changed(case.get(name), resource) for name in ("old", "new"))
    ask = registered_hint(plugin, resource)
    try:
        answer = str(ask(incoming(case), old, new))
    except (TypeError, ValueError):
        assert case.get("raises"), "the hint raised"
        return "Queue"
    assert not case.get("raises"), "the hint did not raise"
    return answer


def _changed(value: Any, resource: EventResource) -> object:
    """The object of an event: a named kind's from its API form, anything else as it is."""
    if not isinstance(value, dict):
        return value
    if resource == EventResource.POD:
        return pod(value)
    if resource == EventResource.NODE:
        return node(value)
    kind = kind_of_event(resource)
    assert kind is not None
    found: object = api_object(kind.type, value)
    return found


def actions(names: str) -> ActionType:
    """The bits of several actions, `ADD DELETE`."""
    return functools.reduce(operator.or_, (ActionType[name] for name in names.split()))


def events_in_case(case: Case, registered: PluginEvents) -> PluginEvents:
    """Return what a plugin registers for with the case's gates: without hints it is more."""
    if uses_queueing_hints(feature_gates(case), version_of(case)):
        return registered
    plugin = registered.plugin
    is_in_tree = IN_TREE.get(plugin.name) is type(plugin)
    return events_without_hints(registered, is_in_tree=is_in_tree)


def registered_hint(plugin: EnqueueExtensions, resource: EventResource) -> QueueingHintFn:
    """The one hint function that a plugin has registered for a resource's events."""
    found = [
        entry.queueing_hint_fn
        for entry in plugin.events_to_register()
        if entry.event.resource == resource and entry.queueing_hint_fn is not None
    ]
    assert len(found) == 1
    return found[0]
