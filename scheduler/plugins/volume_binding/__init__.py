"""VolumeBinding: claims are bound to volumes that the chosen node can reach."""
