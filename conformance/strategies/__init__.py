"""Hypothesis strategies for the input of a scheduler: API objects, clusters, histories.

    @given(case=strategies.cases(nodes_max=3))
    def test_my_scheduler(case): ...

Objects are mappings as kube-apiserver accepts them; steps and cases have the case format. Values
shrink to few nodes with short names. The package `hypothesis` is needed (`kubesched[test]`).

For a plugin of our scheduler, use `scheduler.testing.strategies` instead: it draws the scheduler's
own types, which `decide` takes without an API server. These strategies are for whole schedulers of
any make, over HTTP.
"""

from .clusters import Cluster, cases, clusters, configurations, histories
from .objects import PodValues, Volume, budgets, nodes, pods, priority_classes, volumes
from .rules import (
    affinities,
    label_selectors,
    node_affinities,
    node_selector_terms,
    pod_affinities,
    taints,
    tolerations,
    topology_spreads,
)

__all__ = [
    "Cluster",
    "PodValues",
    "Volume",
    "affinities",
    "budgets",
    "cases",
    "clusters",
    "configurations",
    "histories",
    "label_selectors",
    "node_affinities",
    "node_selector_terms",
    "nodes",
    "pod_affinities",
    "pods",
    "priority_classes",
    "taints",
    "tolerations",
    "topology_spreads",
    "volumes",
]
