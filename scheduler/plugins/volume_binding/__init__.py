"""VolumeBinding: claims are bound to volumes that the chosen node can reach."""

from scheduler.plugins.volume_binding.volume_binding import VolumeBinding

__all__ = ["VolumeBinding"]
