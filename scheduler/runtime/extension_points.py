"""The extension points: their names in a profile, in error texts, and in a plugin's methods.

A plugin takes part in a point if it defines one of the point's methods. Which plugins of a profile
run there, and in which order, is computed by `expand`.
Source: `pkg/scheduler/framework/runtime/framework.go` (`getExtensionPoints`, `updatePluginList`,
`expandMultiPointPlugins`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.runtime.errors import PluginSetupError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.config.types import Plugins, PluginSet
    from scheduler.framework.interface import Plugin


class ExtensionPoint(NamedTuple):
    """One point at which plugins are called."""

    #: The field of `config.types.Plugins`.
    field: str
    #: Upstream's name of the interface, as error texts have it.
    interface: str
    #: A plugin that defines any of these takes part.
    methods: tuple[str, ...]


EXTENSION_POINTS: Final = (
    ExtensionPoint("pre_filter", "PreFilterPlugin", ("pre_filter",)),
    ExtensionPoint("filter", "FilterPlugin", ("filter", "filter_nodes")),
    ExtensionPoint("post_filter", "PostFilterPlugin", ("post_filter",)),
    ExtensionPoint("reserve", "ReservePlugin", ("reserve", "unreserve")),
    ExtensionPoint("pre_score", "PreScorePlugin", ("pre_score",)),
    ExtensionPoint("score", "ScorePlugin", ("score", "score_nodes")),
    ExtensionPoint("pre_bind", "PreBindPlugin", ("pre_bind",)),
    ExtensionPoint("bind", "BindPlugin", ("bind",)),
    ExtensionPoint("post_bind", "PostBindPlugin", ("post_bind",)),
    ExtensionPoint("permit", "PermitPlugin", ("permit",)),
    ExtensionPoint("pre_enqueue", "PreEnqueuePlugin", ("pre_enqueue",)),
    ExtensionPoint("queue_sort", "QueueSortPlugin", ("less",)),
    ExtensionPoint("placement_generate", "PlacementGeneratePlugin", ("generate_placements",)),
    ExtensionPoint("placement_score", "PlacementScorePlugin", ("score_placement",)),
)


def implements(plugin: Plugin | type[Plugin], point: ExtensionPoint) -> bool:
    """True if a plugin defines a method of the point."""
    return any(callable(getattr(plugin, method, None)) for method in point.methods)


def expand(
    point: ExtensionPoint, plugins: Plugins, instances: Mapping[str, Plugin]
) -> list[Plugin]:
    """Return the plugins that run at a point, in order.

    First those named both here and in `multiPoint`, in the order given here; then the others of
    `multiPoint` that implement the point and are not disabled for it; then the rest named here.
    Raises `PluginSetupError`.
    """
    specific = _specific(point, getattr(plugins, point.field), instances)
    disabled = {plugin.name for plugin in getattr(plugins, point.field).disabled}
    if "*" in disabled:
        return [instances[name] for name in specific]
    multi_point: dict[str, None] = {}
    overridden: set[str] = set()
    for entry in plugins.multi_point.enabled:
        if (plugin := instances.get(entry.name)) is None:
            raise PluginSetupError(f'{point.interface} "{entry.name}" does not exist')
        if not implements(plugin, point) or entry.name in disabled:
            continue
        if entry.name in specific:
            overridden.add(entry.name)
        elif entry.name in multi_point:
            raise PluginSetupError(
                f'plugin "{entry.name}" already registered as "{point.interface}"'
            )
        else:
            multi_point[entry.name] = None
    order = [
        *(name for name in specific if name in overridden),
        *multi_point,
        *(name for name in specific if name not in overridden),
    ]
    return [instances[name] for name in order]


def _specific(
    point: ExtensionPoint, plugin_set: PluginSet, instances: Mapping[str, Plugin]
) -> list[str]:
    names: list[str] = []
    for entry in plugin_set.enabled:
        if (plugin := instances.get(entry.name)) is None:
            raise PluginSetupError(f'{point.interface} "{entry.name}" does not exist')
        if not implements(plugin, point):
            raise PluginSetupError(
                f'plugin "{entry.name}" does not extend {point.interface} plugin'
            )
        if entry.name in names:
            raise PluginSetupError(
                f'plugin "{entry.name}" already registered as "{point.interface}"'
            )
        names.append(entry.name)
    return names
