"""`kubesched-simulate`: what would the scheduler do, in virtual time.

The package contains no scheduling rule: `SimulatedCluster` runs the scheduler's own core on an API
server in memory.
"""
