"""NodeVolumeLimits: a node attaches a limited number of volumes per CSI driver."""

from scheduler.plugins.node_volume_limits.csi import NodeVolumeLimits

__all__ = ["NodeVolumeLimits"]
