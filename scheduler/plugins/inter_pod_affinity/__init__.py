"""InterPodAffinity: keep pods together or apart by topology domain."""
