"""`kubesched-explain`: show the scheduler's decisions and their reasons.

The command builds a cluster in memory from scenarios, manifests or an API server, and runs the
scheduler's own cache, snapshot, framework and algorithm on it. This package contains no scheduling
rule.
"""
