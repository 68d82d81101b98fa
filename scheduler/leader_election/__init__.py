"""Leader election over a Lease: one of several schedulers is active."""
