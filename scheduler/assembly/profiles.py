"""Build the frameworks of a configuration: one for each profile, by scheduler name.

Source: `pkg/scheduler/profile/profile.go`, `pkg/scheduler/scheduler.go`.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api import field
from scheduler.assembly.watched_kinds import read_by
from scheduler.client.kinds import GroupVersionResource
from scheduler.config import DEFAULT_SCHEDULER_VERSION, ConfigError, Duration
from scheduler.config import Plugin as PluginEntry
from scheduler.plugins import IN_TREE, in_tree_plugins
from scheduler.plugins.node_resources.args import NodeResourcesFitArgs
from scheduler.runtime import Framework, PluginSetupError, Registry, load_plugin_class
from scheduler.runtime.extension_points import require_extension_point

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.config import (
        KubeSchedulerConfiguration,
        KubeSchedulerProfile,
        SchedulerVersion,
    )
    from scheduler.framework.interface import Plugin
    from scheduler.runtime.handle import MakeHandle

_log: Final = logging.getLogger(__name__)

#: Plugins in packages of their own, which are imported only if a profile names the plugin.
_ON_DEMAND: Final = {
    "FlowPlacement": "scheduler.flow:FlowPlacement",
    "Queues": "scheduler.queues.plugin:Queues",
}

#: `DefaultExtenderTimeout`.
_EXTENDER_TIMEOUT: Final = Duration.parse("5s")


def find_plugins_in_working_directory() -> None:
    """Search the working directory too for the modules of `module:Class`, as `python -m` does.

    An installed script does not search there by itself. Installed modules go first.
    """
    if "" not in sys.path:
        sys.path.append("")


def plugin_registry(
    plugins: Iterable[type[Plugin] | str], version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION
) -> tuple[Registry, list[str]]:
    """Return a registry of all plugins of a version, and the names of `plugins` in their order.

    An element of `plugins` is a class, a reference `module:Class`, or the name of a plugin that an
    installed package announces. Raises `PluginSetupError`.
    """
    registry = Registry(in_tree_plugins(version))
    for name, reference in _ON_DEMAND.items():
        registry.register_reference(name, reference)
    registry.register_entry_points()
    names = []
    for plugin in plugins:
        if isinstance(plugin, str) and ":" not in plugin:
            if plugin not in registry:
                raise PluginSetupError(
                    f'plugin "{plugin}" does not exist{field.nearest(plugin, registry)}; '
                    "a class of a module is written module:Class"
                )
            names.append(plugin)
            continue
        plugin_class = load_plugin_class(plugin) if isinstance(plugin, str) else plugin
        require_extension_point(plugin_class)
        registry.register(plugin_class)
        names.append(plugin_class.name)
    return registry, names


def untyped_kinds_of(plugins: Iterable[type[Plugin] | str]) -> frozenset[GroupVersionResource]:
    """Return the kinds without a type of ours that these or announced plugins read.

    Raises `PluginSetupError`.
    """
    registry, _ = plugin_registry(plugins)
    kinds = (
        read_by(plugin, kind)
        for plugin in registry.classes()
        for kind in (*plugin.reads, *plugin.required)
    )
    return frozenset(kind for kind in kinds if isinstance(kind, GroupVersionResource))


def with_extenders(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Return the configuration with the effects of its extenders on other parts of it.

    NodeResourcesFit ignores the resources that extenders want to check alone, and calls without a
    timeout get the default. Raises `ConfigError` for a profile without arguments of
    NodeResourcesFit. Source: `buildExtenders` in `pkg/scheduler/scheduler.go`.
    """
    replace = msgspec.structs.replace
    ignored = tuple(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    profiles = config.profiles
    if ignored:
        profiles = tuple(_ignoring(profile, ignored) for profile in profiles)
    extenders = tuple(
        extender
        if extender.http_timeout.nanoseconds
        else replace(extender, http_timeout=_EXTENDER_TIMEOUT)
        for extender in config.extenders
    )
    return replace(config, profiles=profiles, extenders=extenders)


def _ignoring(profile: KubeSchedulerProfile, resources: tuple[str, ...]) -> KubeSchedulerProfile:
    replace = msgspec.structs.replace
    entries = []
    has_fit_args = False
    for entry in profile.plugin_config:
        if isinstance(entry.args, NodeResourcesFitArgs) and not has_fit_args:
            has_fit_args = True
            entry = replace(entry, args=replace(entry.args, ignored_resources=resources))
        entries.append(entry)
    if not has_fit_args:
        raise ConfigError(
            "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"
        )
    return replace(profile, plugin_config=tuple(entries))


def build_profiles(
    config: KubeSchedulerConfiguration,
    make_handle: MakeHandle,
    *,
    plugins: Iterable[type[Plugin] | str] = (),
    version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION,
) -> dict[str, Framework]:
    """Build a framework for each profile, by scheduler name; raises `PluginSetupError`.

    `plugins` are enabled, at every point they define, in each profile that does not mention them.
    """
    config = with_extenders(config)
    registry, names = plugin_registry(plugins, version)
    profiles: dict[str, Framework] = {}
    for profile in config.profiles:
        name = profile.scheduler_name
        if name in profiles:
            raise PluginSetupError(f'duplicate profile with scheduler name "{name}"')
        try:
            profiles[name] = Framework(
                _with_plugins(profile, names), registry=registry, make_handle=make_handle
            )
        except PluginSetupError as error:
            raise PluginSetupError(
                f"initializing profiles: creating profile for scheduler name {name}: {error}"
                f"{_hint_of_missing(profile, registry)}"
            ) from error
        _require_same_queue_sort(config.profiles[0], profile, profiles)
        _warn_of_unused_args(profile, profiles[name])
    return profiles


def _hint_of_missing(profile: KubeSchedulerProfile, registry: Registry) -> str:
    """Return how to load the first plugin that the profile enables and that is not loaded."""
    sets = msgspec.structs.asdict(profile.plugins).values()
    enabled = (entry.name for plugin_set in sets for entry in plugin_set.enabled)
    missing = next((name for name in enabled if name not in registry), None)
    if missing is None:
        return ""
    nearest = field.nearest(missing, registry)
    return f"{nearest}; a plugin of your own is loaded by --plugin MODULE:{missing}"


def _warn_of_unused_args(profile: KubeSchedulerProfile, framework: Framework) -> None:
    """Log the plugins with arguments that the profile does not enable, as upstream accepts them.

    In-tree plugins are left out: their arguments are filled in by default.
    """
    enabled = [plugin.name for plugin in framework.instances]
    for entry in profile.plugin_config:
        if entry.name not in enabled and entry.name not in IN_TREE:
            _log.warning(
                'Profile "%s": pluginConfig of "%s" is not used: the plugin is not enabled%s',
                profile.scheduler_name,
                entry.name,
                field.nearest(entry.name, enabled),
            )


def _require_same_queue_sort(
    first: KubeSchedulerProfile,
    profile: KubeSchedulerProfile,
    profiles: Mapping[str, Framework],
) -> None:
    """Raise `PluginSetupError` if a profile orders the queue in another way than the first."""
    name = profile.scheduler_name
    wanted, args = _queue_sort_of(first, profiles[first.scheduler_name])
    plugin, plugin_args = _queue_sort_of(profile, profiles[name])
    if plugin != wanted:
        raise PluginSetupError(
            f'initializing profiles: different queue sort plugins for profile "{name}": '
            f'"{plugin}", first: "{wanted}"'
        )
    if plugin_args != args:
        raise PluginSetupError(
            f'initializing profiles: different queue sort plugin args for profile "{name}"'
        )


def _queue_sort_of(profile: KubeSchedulerProfile, framework: Framework) -> tuple[str, object]:
    """Return the name of the QueueSort plugin and its arguments."""
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
