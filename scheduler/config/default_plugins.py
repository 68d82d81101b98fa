"""The default plugins of a profile, and the changes a profile makes to them.

Source: `pkg/scheduler/apis/config/v1/default_plugins.go`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.config.types import RESIZE_PREEMPTION, Plugin, Plugins, PluginSet
from scheduler.config.versions import DEFAULT_SCHEDULER_VERSION, SchedulerVersion

if TYPE_CHECKING:
    from scheduler.config.types import FeatureGates

_log: Final = logging.getLogger(__name__)

#: Among disabled plugins: all default plugins.
ALL_PLUGINS: Final = "*"

#: The first plugins by version.
_FIRST_OF_1_34: Final = ("SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName")
_FIRST_OF_1_37: Final = ("SchedulingGates", "PrioritySort", "NodeName", "NodeUnschedulable")
_FIRST: Final = {
    SchedulerVersion.V1_34: _FIRST_OF_1_34,
    SchedulerVersion.V1_35: _FIRST_OF_1_34,
    SchedulerVersion.V1_36: _FIRST_OF_1_34,
    SchedulerVersion.V1_37: _FIRST_OF_1_37,
}
#: The plugins after them, in the order in which they are called. Users' preferences have weight 2;
#: taints have 3, because they reserve whole groups of nodes.
_MULTI_POINT: Final = (
    Plugin("TaintToleration", 3),
    Plugin("NodeAffinity", 2),
    Plugin("NodePorts"),
    Plugin("NodeResourcesFit", 1),
    Plugin("VolumeRestrictions"),
    Plugin("NodeVolumeLimits"),
    Plugin("VolumeBinding"),
    Plugin("VolumeZone"),
    Plugin("PodTopologySpread", 2),
    Plugin("InterPodAffinity", 2),
    Plugin("DefaultPreemption"),
    Plugin("NodeResourcesBalancedAllocation", 1),
    Plugin("ImageLocality", 1),
    Plugin("DefaultBinder"),
)

#: Plugins that feature gates add at the end, in this order.
_GATED: Final = (
    ("NodeDeclaredFeatures", (Plugin("NodeDeclaredFeatures"),)),
    ("GangScheduling", (Plugin("GangScheduling"),)),
    (
        "TopologyAwareWorkloadScheduling",
        (Plugin("TopologyPlacementGenerator"), Plugin("PodGroupPodsCount", 1)),
    ),
)

_FIT: Final = "NodeResourcesFit"
_PREEMPTION: Final = "DefaultPreemption"
#: By version; the plugin scores nodes since 1.35.
_DYNAMIC_RESOURCES: Final = {
    version: Plugin("DynamicResources", weight)
    for version, weight in zip(SchedulerVersion, (0, 2, 2, 2), strict=True)
}


def default_plugins(
    gates: FeatureGates, version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION
) -> Plugins:
    """Return the default plugins under these feature gates, all by `multiPoint`."""
    enabled = [Plugin(name) for name in _FIRST[version]]
    for plugin in _MULTI_POINT:
        if plugin.name == _FIT and RESIZE_PREEMPTION in gates:
            enabled.append(Plugin("DeferredPodScheduling"))
        if plugin.name == _PREEMPTION and "DynamicResourceAllocation" in gates:
            # Deallocating an idle claim is better than evicting a running pod.
            enabled.append(_DYNAMIC_RESOURCES[version])
        enabled.append(plugin)
    for gate, plugins in _GATED:
        if gate in gates:
            enabled += plugins
    return Plugins(multi_point=PluginSet(enabled=tuple(enabled)))


def merge_plugins(defaults: Plugins, custom: Plugins) -> Plugins:
    """Apply a profile's plugins to the default plugins, point by point.

    A disabled default is removed (`*`: all defaults). An enabled default keeps its place and gets
    the profile's weight; this is logged. All other plugins follow in the profile's order. Disabled
    names are kept: `multiPoint` must not enable such a plugin again.
    """
    merged = {
        field.name: _merge_sets(getattr(defaults, field.name), getattr(custom, field.name))
        for field in msgspec.structs.fields(Plugins)
    }
    return Plugins(**merged)


def _merge_sets(defaults: PluginSet, custom: PluginSet) -> PluginSet:
    disabled = [plugin.name for plugin in (*custom.disabled, *defaults.disabled)]
    # Of entries with the same name the last one is used here. The others are appended; building
    # the profile fails because of them.
    last = {plugin.name: index for index, plugin in enumerate(custom.enabled)}
    replacements: set[int] = set()
    enabled: list[Plugin] = []
    for plugin in defaults.enabled:
        if ALL_PLUGINS in disabled or plugin.name in disabled:
            continue
        index = last.get(plugin.name)
        if index is None:
            enabled.append(plugin)
            continue
        _log.info(
            '"Default plugin is explicitly re-configured; overriding" plugin="%s"', plugin.name
        )
        enabled.append(custom.enabled[index])
        replacements.add(index)
    enabled += [p for index, p in enumerate(custom.enabled) if index not in replacements]
    return PluginSet(enabled=tuple(enabled), disabled=tuple(Plugin(name) for name in disabled))
