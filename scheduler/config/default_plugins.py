"""The default plugins of a profile, and the changes a profile makes to them.

`default_plugins.json` has them in the order in which they are called, with their weights; a plugin
may have a feature gate, and a row may be for the versions 1.`since` to 1.`until`. Users'
preferences have weight 2; taints have 3, because they reserve whole groups of nodes. Deallocating
an idle claim is better than evicting a running pod, so DynamicResources is before
DefaultPreemption.
Source: `pkg/scheduler/apis/config/v1/default_plugins.go`.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.config.types import Plugin, Plugins, PluginSet, fields_of
from scheduler.config.versions import SchedulerVersion

if TYPE_CHECKING:
    from scheduler.config.types import FeatureGates

_log: Final = logging.getLogger(__name__)

#: Among disabled plugins: all default plugins.
ALL_PLUGINS: Final = "*"


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    weight: int = 0
    gate: str = ""
    since: int = 0
    until: int = max(SchedulerVersion)


_TABLE: Final = msgspec.json.decode(
    Path(__file__).with_name("default_plugins.json").read_bytes(), type=tuple[_Row, ...]
)


def default_plugins(gates: FeatureGates, version: SchedulerVersion) -> Plugins:
    """Return the default plugins under these feature gates, all by `multiPoint`."""
    enabled = tuple(
        Plugin(row.name, row.weight)
        for row in _TABLE
        if row.since <= version <= row.until and (not row.gate or row.gate in gates)
    )
    return Plugins(multi_point=PluginSet(enabled=enabled))


def later_plugins(version: SchedulerVersion) -> frozenset[str]:
    """Return the plugins that only later versions have."""
    known = {row.name for row in _TABLE if row.since <= version}
    return frozenset(row.name for row in _TABLE) - known


def merge_plugins(defaults: Plugins, custom: Plugins) -> Plugins:
    """Apply a profile's plugins to the default plugins, point by point.

    A disabled default is removed (`*`: all defaults). An enabled default keeps its place and gets
    the profile's weight; this is logged. All other plugins follow in the profile's order. Disabled
    names are kept: `multiPoint` must not enable such a plugin again.
    """
    merged = {
        field.name: _merge_sets(getattr(defaults, field.name), getattr(custom, field.name))
        for field in fields_of(Plugins)
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
