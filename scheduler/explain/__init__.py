"""`kubesched-explain`: show the scheduler's decisions and their reasons.

The command builds a cluster in memory from manifests, an API server or lines of JSON, and runs the
scheduler's own core on it. This package contains no scheduling rule.
"""
