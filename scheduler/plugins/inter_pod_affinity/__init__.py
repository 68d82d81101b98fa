"""InterPodAffinity: pods attract and repel one another by topology domain."""

from scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
