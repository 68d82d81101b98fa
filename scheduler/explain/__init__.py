"""`kubesched-explain`: what the scheduler decides, and why.

Builds a cluster in memory from scenarios, manifests or an API server, and runs the scheduler's own
cache, snapshot, framework and algorithm over it; nothing here decides anything.
"""
