"""The in-tree plugins by name.

To add a default plugin: its file, a line here, a row in `scheduler/config/default_plugins.json`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from scheduler.config.default_plugins import later_plugins
from scheduler.config.types import PluginArgs, Scheme
from scheduler.plugins.default_binder import DefaultBinder
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.plugins.deferred_pod_scheduling import DeferredPodScheduling
from scheduler.plugins.dynamic_resources.dynamic_resources import DynamicResources
from scheduler.plugins.gang_scheduling import GangScheduling
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.node_volume_limits.csi import NodeVolumeLimits
from scheduler.plugins.pod_group_pods_count import PodGroupPodsCount
from scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.plugins.topology_placement import TopologyPlacementGenerator
from scheduler.plugins.volume_binding.volume_binding import VolumeBinding
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.config.versions import SchedulerVersion
    from scheduler.framework.interface import Plugin

__all__ = ["IN_TREE", "SCHEME", "in_tree_plugins"]

_CLASSES: Final[tuple[type[Plugin], ...]] = (
    DefaultBinder,
    DefaultPreemption,
    DeferredPodScheduling,
    DynamicResources,
    GangScheduling,
    ImageLocality,
    InterPodAffinity,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    NodeUnschedulable,
    NodeVolumeLimits,
    PodGroupPodsCount,
    PodTopologySpread,
    PrioritySort,
    SchedulingGates,
    TaintToleration,
    TopologyPlacementGenerator,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)

#: The in-tree plugins by name.
IN_TREE: Final[Mapping[str, type[Plugin]]] = MappingProxyType({p.name: p for p in _CLASSES})


def in_tree_plugins(version: SchedulerVersion) -> list[type[Plugin]]:
    """Return the in-tree plugins of a version."""
    later = later_plugins(version)
    return [plugin for name, plugin in IN_TREE.items() if name not in later]


#: The types of the in-tree plugins' arguments.
SCHEME: Final = Scheme(
    {
        name: plugin.Args
        for name, plugin in IN_TREE.items()
        if plugin.Args is not None and issubclass(plugin.Args, PluginArgs)
    }
)
