"""From a configuration to frameworks: one for each profile, by scheduler name.

Source: `pkg/scheduler/profile/profile.go`, `pkg/scheduler/scheduler.go`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from scheduler.config import Plugin as PluginEntry
from scheduler.plugins import IN_TREE
from scheduler.runtime import (
    Framework,
    PluginSetupError,
    ProfileHandle,
    Registry,
    load_plugin_class,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.config import KubeSchedulerConfiguration, KubeSchedulerProfile
    from scheduler.framework.interface import Plugin
    from scheduler.runtime import SchedulerParts


def find_plugins_in_working_directory() -> None:
    """Let `module:Class` name a module of the working directory, as under `python -m`.

    For commands: an installed script does not look there by itself. Installed modules go first.
    """
    if "" not in sys.path:
        sys.path.append("")


def plugin_registry(plugins: Iterable[type[Plugin] | str]) -> tuple[Registry, list[str]]:
    """All plugins there are, and the names of those asked for here, in order.

    Besides classes, `plugins` may hold references: `module:Class`, or the name of a plugin that an
    installed package announces. Raises `PluginSetupError`.
    """
    registry = Registry(IN_TREE.values())
    registry.register_entry_points()
    names = []
    for plugin in plugins:
        if isinstance(plugin, str) and ":" not in plugin:
            if plugin not in registry:
                raise PluginSetupError(f'plugin "{plugin}" does not exist')
            names.append(plugin)
            continue
        plugin_class = load_plugin_class(plugin) if isinstance(plugin, str) else plugin
        registry.register(plugin_class)
        names.append(plugin_class.name)
    return registry, names


def build_profiles(
    config: KubeSchedulerConfiguration,
    parts: SchedulerParts,
    *,
    plugins: Iterable[type[Plugin] | str] = (),
) -> dict[str, Framework]:
    """A framework for each profile; raises `PluginSetupError`.

    `plugins` are enabled, at every point they define, in each profile that does not mention them.
    """
    registry, asked_for = plugin_registry(plugins)
    profiles: dict[str, Framework] = {}
    first: tuple[str, object] | None = None
    for profile in config.profiles:
        name = profile.scheduler_name
        if name in profiles:
            raise PluginSetupError(f'duplicate profile with scheduler name "{name}"')
        handle = ProfileHandle(name, parts)
        try:
            framework = Framework(
                _with_plugins(profile, asked_for), registry=registry, handle=handle
            )
        except PluginSetupError as error:
            raise PluginSetupError(
                f"initializing profiles: creating profile for scheduler name {name}: {error}"
            ) from error
        order = _queue_sort_of(profile, framework)
        first = first or order
        if order[0] != first[0]:
            raise PluginSetupError(
                f'initializing profiles: different queue sort plugins for profile "{name}": '
                f'"{order[0]}", first: "{first[0]}"'
            )
        if order[1] != first[1]:
            raise PluginSetupError(
                f'initializing profiles: different queue sort plugin args for profile "{name}"'
            )
        handle.filters = framework.filters
        profiles[name] = framework
    return profiles


def _queue_sort_of(profile: KubeSchedulerProfile, framework: Framework) -> tuple[str, object]:
    """The plugin that orders the queue, wherever the profile names it, and its arguments."""
    name = framework.plugins["queue_sort"][0].name
    return name, next((c.args for c in profile.plugin_config if c.name == name), None)


def _with_plugins(profile: KubeSchedulerProfile, names: Sequence[str]) -> KubeSchedulerProfile:
    mentioned = {
        entry.name
        for _, point in profile.plugins.points()
        for entry in (*point.enabled, *point.disabled)
    }
    added = tuple(PluginEntry(name=name) for name in names if name not in mentioned)
    if not added:
        return profile
    replace = msgspec.structs.replace
    multi_point = profile.plugins.multi_point
    multi_point = replace(multi_point, enabled=(*multi_point.enabled, *added))
    return replace(profile, plugins=replace(profile.plugins, multi_point=multi_point))
