"""Models of kubelets, owners of pods, disruption budgets and volumes.

`docs/simulate.md` describes the models and their limits. A model reaches the cluster through
`SimulatedCluster` only.
"""
