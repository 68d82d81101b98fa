"""Runs of the scheduler in virtual time: over histories, by several policies, on many workers."""
