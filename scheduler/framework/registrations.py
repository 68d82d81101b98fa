"""The events that a plugin has registered for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.framework.events import (
    ALL_EVENTS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
)
from scheduler.framework.failures import PluginSetupError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.interface import Plugin

_POD_GROUP_EVENTS: Final = ClusterEventWithHint(
    ClusterEvent(EventResource.POD_GROUP, ActionType.ALL)
)


class PluginEvents(NamedTuple):
    """A plugin that can reject pods, and the events that it has registered for."""

    plugin: Plugin
    events: Sequence[ClusterEventWithHint]


def events_of(plugin: Plugin, *, generic_workload: bool = False) -> PluginEvents:
    """Return the events of a plugin: all events if it has no `events_to_register`.

    With `generic_workload` (the feature gate) these are events of pod groups too.
    Raises `PluginSetupError` if the method fails, or returns anything but events with hints.
    """
    if not hasattr(plugin, "events_to_register"):
        unlisted = (*ALL_EVENTS, _POD_GROUP_EVENTS) if generic_workload else ALL_EVENTS
        return PluginEvents(plugin, unlisted)
    try:
        answer: object = plugin.events_to_register()
    except Exception as error:
        raise PluginSetupError(f'plugin "{plugin.name}": events_to_register: {error}') from error
    if isinstance(answer, Iterable) and not isinstance(answer, ClusterEventWithHint):
        entries = tuple(answer)
        registered = [entry for entry in entries if isinstance(entry, ClusterEventWithHint)]
        if len(registered) == len(entries):
            return PluginEvents(plugin, registered)
    raise PluginSetupError(
        f'plugin "{plugin.name}": events_to_register returned {answer!r}: '
        "return a list of ClusterEventWithHint"
    )
