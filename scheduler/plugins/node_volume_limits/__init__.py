"""NodeVolumeLimits: a node attaches a limited number of volumes per CSI driver."""
