"""PodTopologySpread: spread pods evenly over topology domains."""

from scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
