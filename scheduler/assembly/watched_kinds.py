"""Compute the kinds of objects to watch, and the changes of them that are cluster events.

Pods and nodes are always watched, by handlers of their own. Another kind is watched if a plugin
lists it (`Plugin.reads`) or has registered for events of it.
Source: `unionedGVKs` in `pkg/scheduler/scheduler.go`, `addAllEventHandlers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from scheduler.client import NODES, PODS, Resource
from scheduler.client.kinds import kind_of_event, resource_named
from scheduler.framework.events import ALL_EVENTS, ActionType
from scheduler.runtime import PluginSetupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.framework.interface import EnqueueExtensions, Plugin
    from scheduler.runtime import Framework

#: Kinds with handlers of their own.
_OWN_HANDLERS: Final = (PODS.plural, NODES.plural)


class WatchedKind(NamedTuple):
    """A kind, and the registered changes of it, by the name of the kind in events."""

    resource: Resource[Any]
    events: Mapping[str, ActionType]


def kinds_to_watch(profiles: Mapping[str, Framework]) -> list[WatchedKind]:
    """Return the kinds to watch beside pods and nodes, in the order of the plugins.

    Raises `PluginSetupError` for an unknown kind.
    """
    found: dict[str, tuple[Resource[Any], dict[str, ActionType]]] = {}
    for framework in profiles.values():
        for plugin in framework.instances:
            for name in plugin.reads:
                resource = _read_by(plugin, name)
                found.setdefault(resource.plural, (resource, {}))
        for plugin in framework.rejecting_plugins:
            for event_resource, actions in _registered(plugin):
                kind = _event_kind(plugin, event_resource)
                if kind is not None:
                    _, events = found.setdefault(kind.plural, (kind, {}))
                    events[event_resource] = events.get(event_resource, ActionType.NONE) | actions
    return [WatchedKind(*kind) for name, kind in found.items() if name not in _OWN_HANDLERS]


def _registered(plugin: Plugin) -> Iterable[tuple[str, ActionType]]:
    if hasattr(plugin, "events_to_register"):
        registered = cast("EnqueueExtensions", plugin).events_to_register()
    else:
        registered = ALL_EVENTS
    return [(event.resource, event.action_type) for event, _ in registered]


def _read_by(plugin: Plugin, name: str) -> Resource[Any]:
    try:
        return resource_named(name)
    except (KeyError, ValueError) as error:
        raise PluginSetupError(
            f'plugin "{plugin.name}": reads: {name!r} is no kind that is known; '
            "expected a plural or <plural>.<version>.<group>"
        ) from error


def _event_kind(plugin: Plugin, event_resource: str) -> Resource[Any] | None:
    try:
        return kind_of_event(event_resource)
    except (KeyError, ValueError) as error:
        raise PluginSetupError(
            f'plugin "{plugin.name}": events of {event_resource!r}: '
            "expected a known resource or <plural>.<version>.<group>"
        ) from error
