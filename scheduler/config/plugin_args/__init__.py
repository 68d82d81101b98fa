"""The arguments of the in-tree plugins: one file each, its plugin imports it from here.

They live with the configuration and not with the plugins, so that a file can be read, completed,
checked and written back without building a single plugin.
Source: `k8s.io/kube-scheduler/config/v1/types_pluginargs.go`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from scheduler.config.plugin_args.base import PluginArgs
from scheduler.config.plugin_args.default_preemption import DefaultPreemptionArgs
from scheduler.config.plugin_args.dynamic_resources import DynamicResourcesArgs
from scheduler.config.plugin_args.inter_pod_affinity import InterPodAffinityArgs
from scheduler.config.plugin_args.node_affinity import NodeAffinityArgs
from scheduler.config.plugin_args.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocationArgs,
)
from scheduler.config.plugin_args.node_resources_fit import NodeResourcesFitArgs
from scheduler.config.plugin_args.pod_topology_spread import PodTopologySpreadArgs
from scheduler.config.plugin_args.volume_binding import VolumeBindingArgs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "PLUGIN_ARGS",
    "DefaultPreemptionArgs",
    "DynamicResourcesArgs",
    "InterPodAffinityArgs",
    "NodeAffinityArgs",
    "NodeResourcesBalancedAllocationArgs",
    "NodeResourcesFitArgs",
    "PluginArgs",
    "PodTopologySpreadArgs",
    "VolumeBindingArgs",
    "args_kind",
]

#: The in-tree plugins that take arguments.
PLUGIN_ARGS: Final[Mapping[str, type[PluginArgs]]] = MappingProxyType(
    {
        "DefaultPreemption": DefaultPreemptionArgs,
        "DynamicResources": DynamicResourcesArgs,
        "InterPodAffinity": InterPodAffinityArgs,
        "NodeAffinity": NodeAffinityArgs,
        "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
        "NodeResourcesFit": NodeResourcesFitArgs,
        "PodTopologySpread": PodTopologySpreadArgs,
        "VolumeBinding": VolumeBindingArgs,
    }
)


def args_kind(plugin_name: str) -> str:
    """The `kind` that a plugin's arguments have on the wire."""
    return f"{plugin_name}Args"
