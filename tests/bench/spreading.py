"""Scheduling cycles with hard and soft topology spread constraints, with running pods.

All running pods match, two on each node: the pods to come keep zones and hosts even.
"""

from scheduler.testing import make_pod
from tests.bench.cycles import Workload, basic_workload

__all__ = ["spreading_workload"]

_ZONE, _HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_LABELS = {"app": "web"}
_REQUESTS = {"cpu": "100m", "memory": "500Mi"}
_PODS_PER_NODE = 2


def spreading_workload(nodes_total: int, pods_total: int, when_unsatisfiable: str) -> Workload:
    """Nodes in three zones with two matching pods each, and pods to be spread over both."""
    spread = [
        {
            "maxSkew": max_skew,
            "topologyKey": key,
            "whenUnsatisfiable": when_unsatisfiable,
            "labelSelector": {"matchLabels": _LABELS},
        }
        for key, max_skew in ((_ZONE, 1), (_HOSTNAME, 2))
    ]
    nodes = basic_workload(nodes_total, 0).nodes
    running = [
        make_pod(
            f"running-{i}",
            labels=_LABELS,
            requests=_REQUESTS,
            node_name=nodes[i % nodes_total].metadata.name,
        )
        for i in range(nodes_total * _PODS_PER_NODE)
    ]
    pods = [
        make_pod(f"pod-{i}", labels=_LABELS, requests=_REQUESTS, spread=spread)
        for i in range(pods_total)
    ]
    return Workload(f"spread {when_unsatisfiable}", nodes, running, pods)
