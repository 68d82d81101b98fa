"""The in-tree plugins, one rule per file, and their registry."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from scheduler.plugins.default_binder import DefaultBinder
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.plugins.dynamic_resources.plugin import DynamicResources
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_declared_features.plugin import NodeDeclaredFeatures
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits
from scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.plugins.volume_binding.plugin import VolumeBinding
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.framework.interface import Plugin

__all__ = ["IN_TREE"]

#: Every in-tree plugin by the name that profiles know it by.
IN_TREE: Final[Mapping[str, type[Plugin]]] = MappingProxyType(
    {
        "DefaultBinder": DefaultBinder,
        "DefaultPreemption": DefaultPreemption,
        "DynamicResources": DynamicResources,
        "ImageLocality": ImageLocality,
        "InterPodAffinity": InterPodAffinity,
        "NodeAffinity": NodeAffinity,
        "NodeDeclaredFeatures": NodeDeclaredFeatures,
        "NodeName": NodeName,
        "NodePorts": NodePorts,
        "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocation,
        "NodeResourcesFit": NodeResourcesFit,
        "NodeUnschedulable": NodeUnschedulable,
        "NodeVolumeLimits": NodeVolumeLimits,
        "PodTopologySpread": PodTopologySpread,
        "PrioritySort": PrioritySort,
        "SchedulingGates": SchedulingGates,
        "TaintToleration": TaintToleration,
        "VolumeBinding": VolumeBinding,
        "VolumeRestrictions": VolumeRestrictions,
        "VolumeZone": VolumeZone,
    }
)
