"""InterPodAffinity: keep pods together or apart by topology domain."""

from scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
