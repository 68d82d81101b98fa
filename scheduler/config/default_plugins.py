"""The plugins a profile has if nothing is said, and how a profile's own words change them.

Source: `pkg/scheduler/apis/config/v1/default_plugins.go`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.config.types import Plugin, Plugins, PluginSet

if TYPE_CHECKING:
    from scheduler.config.feature_gates import FeatureGates

_logger = logging.getLogger(__name__)

#: Among disabled plugins: every default one.
ALL_PLUGINS: Final = "*"

#: The order is the order of the calls, at every point a plugin has. User preferences weigh double;
#: taints triple, since whole groups of nodes are set apart with them.
_MULTI_POINT: Final = (
    Plugin("SchedulingGates"),
    Plugin("PrioritySort"),
    Plugin("NodeUnschedulable"),
    Plugin("NodeName"),
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

#: What gates add at the end, in this order.
_GATED: Final = (
    ("NodeDeclaredFeatures", (Plugin("NodeDeclaredFeatures"),)),
    ("GangScheduling", (Plugin("GangScheduling"),)),
    (
        "TopologyAwareWorkloadScheduling",
        (Plugin("TopologyPlacementGenerator"), Plugin("PodGroupPodsCount", 1)),
    ),
)

_PREEMPTION: Final = "DefaultPreemption"
_DYNAMIC_RESOURCES: Final = Plugin("DynamicResources", 2)


def default_plugins(gates: FeatureGates) -> Plugins:
    """Everything by `multiPoint`, as these feature gates have it."""
    enabled: list[Plugin] = []
    for plugin in _MULTI_POINT:
        if plugin.name == _PREEMPTION and "DynamicResourceAllocation" in gates:
            # To free an idle claim is better than to end a pod that works.
            enabled.append(_DYNAMIC_RESOURCES)
        enabled.append(plugin)
    for gate, plugins in _GATED:
        if gate in gates:
            enabled += plugins
    return Plugins(multi_point=PluginSet(enabled=tuple(enabled)))


def merge_plugins(defaults: Plugins, custom: Plugins) -> Plugins:
    """The default plugins as a profile changes them, point by point.

    A disabled default goes (`*`: all of them), an enabled one takes the default's place with the
    profile's weight, all others come after the defaults in the profile's order. Names disabled
    are kept: multiPoint must not bring such a plugin back. Each default that is given anew is
    logged.
    """
    merged = {
        field.name: _merge_sets(getattr(defaults, field.name), getattr(custom, field.name))
        for field in msgspec.structs.fields(Plugins)
    }
    return Plugins(**merged)


def _merge_sets(defaults: PluginSet, custom: PluginSet) -> PluginSet:
    disabled = [plugin.name for plugin in (*custom.disabled, *defaults.disabled)]
    # Of a name given twice the last one counts here; what is left over is appended, and refused
    # when the profile is built.
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
        _logger.info(
            '"Default plugin is explicitly re-configured; overriding" plugin="%s"', plugin.name
        )
        enabled.append(custom.enabled[index])
        replacements.add(index)
    enabled += [p for index, p in enumerate(custom.enabled) if index not in replacements]
    return PluginSet(enabled=tuple(enabled), disabled=tuple(Plugin(name) for name in disabled))
