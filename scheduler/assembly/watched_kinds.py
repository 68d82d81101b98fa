"""Compute the kinds of objects to watch, and the changes of them that are cluster events.

Pods and nodes are always watched, by handlers of their own. Another kind is watched if a plugin
lists it (`Plugin.reads`, `Plugin.required`) or has registered for events of it. After an extender's
rejection any event may help, so that with extenders all kinds with events are watched.
Source: `unionedGVKs` in `pkg/scheduler/scheduler.go`, `addAllEventHandlers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from scheduler.client import NODES, PODS, Resource
from scheduler.client.informer import Required
from scheduler.client.kinds import (
    DEVICE_TAINT_RULES,
    POD_GROUPS,
    WORKLOADS,
    GroupVersionResource,
    kind_of_event,
    resource_named,
)
from scheduler.config import (
    DYNAMIC_RESOURCE_ALLOCATION,
    GENERIC_WORKLOAD,
    SchedulerVersion,
)
from scheduler.devices.taint_rules import gate_of_rules
from scheduler.framework.events import ActionType
from scheduler.plugins import IN_TREE
from scheduler.runtime import PluginSetupError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.unstructured import Kind
    from scheduler.framework.interface import Plugin
    from scheduler.runtime import Framework

#: Kinds with handlers of their own.
_OWN_HANDLERS: Final = (PODS.plural, NODES.plural)


#: The feature gates of kinds, equal in all versions.
_GATES: Final[Mapping[str, str]] = {
    POD_GROUPS.key: GENERIC_WORKLOAD,
    WORKLOADS.key: GENERIC_WORKLOAD,
    **dict.fromkeys(
        ("deviceclasses", "resourceclaims", "resourceslices"), DYNAMIC_RESOURCE_ALLOCATION
    ),
}


class WatchedKind(NamedTuple):
    """A kind, and the registered changes of it, by the name of the kind in events.

    `plugins` are the names of those that read it or have registered for it, in their order.
    """

    resource: Resource[Any] | GroupVersionResource
    events: dict[str, ActionType]
    required: Required
    plugins: dict[str, None]


def kinds_to_watch(profiles: Mapping[str, Framework]) -> list[WatchedKind]:
    """Return the kinds to watch beside pods and nodes, in the order of the plugins.

    The kinds of in-tree plugins are required, and those in a plugin's `required`. Kinds that need
    a feature gate are left out without it. In-tree plugins require pod groups only if
    the server has the kind: without it there are no gangs. Upstream waits for ever. Raises
    `PluginSetupError` for a kind that cannot exist.
    """
    kinds: dict[str, WatchedKind] = {}

    def watch(
        plugin: Plugin, resource: Resource[Any] | GroupVersionResource, *, required: Required
    ) -> dict[str, ActionType]:
        kind = kinds.get(resource.key) or WatchedKind(resource, {}, required, {})
        kinds[resource.key] = kind._replace(required=max(kind.required, required))
        kind.plugins[plugin.name] = None
        return kind.events

    for framework in profiles.values():
        gates, version = framework.handle.feature_gates, framework.handle.version
        gated = {**_GATES, DEVICE_TAINT_RULES.key: gate_of_rules(version)}
        left_out = {key for key, gate in gated.items() if gate not in gates}
        has_pod_groups = version >= SchedulerVersion.V1_36
        left_out.add((WORKLOADS if has_pod_groups else POD_GROUPS).key)
        for plugin in framework.instances:
            for name in plugin.reads:
                resource = read_by(plugin, name)
                if resource.key not in left_out:
                    watch(plugin, resource, required=_required(plugin, resource))
            for name in plugin.required:
                watch(plugin, read_by(plugin, name), required=Required.YES)
        for plugin, registered in framework.registered_events:
            for (event_resource, actions, _), _ in registered:
                kind = _event_kind(plugin, event_resource)
                if kind is not None and kind.key not in left_out:
                    events = watch(plugin, kind, required=_required(plugin, kind))
                    events[event_resource] = events.get(event_resource, ActionType.NONE) | actions
    return [kind for key, kind in kinds.items() if key not in _OWN_HANDLERS]


def _required(plugin: Plugin, kind: Resource[Any] | GroupVersionResource) -> Required:
    """Return the need of a plugin for a kind that it reads or has registered for."""
    if IN_TREE.get(plugin.name) is not type(plugin):
        return Required.NO
    return Required.IF_SERVED if kind in (POD_GROUPS, WORKLOADS) else Required.YES


def read_by(plugin: Plugin | type[Plugin], kind: Kind) -> Resource[Any] | GroupVersionResource:
    """Return a kind that a plugin reads; raises `PluginSetupError` if it cannot exist."""
    try:
        return resource_named(kind)
    except ValueError as error:
        raise PluginSetupError(f'plugin "{plugin.name}": reads: {error}') from error


def _event_kind(plugin: Plugin, event_resource: str) -> Resource[Any] | GroupVersionResource | None:
    try:
        return kind_of_event(event_resource)
    except ValueError as error:
        raise PluginSetupError(f'plugin "{plugin.name}": events: {error}') from error
