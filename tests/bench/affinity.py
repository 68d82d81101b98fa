"""Scheduling cycles with affinity, in a cluster with running pods.

Each node runs two pods, and all of them have the same sort of terms as the pods to come. They are
of ten colours, and the terms are about pods of one's own colour; pods of one colour are alike but
for a name of their own, as those of a StatefulSet are.
"""

from collections.abc import Mapping

from scheduler.api.core import Pod
from scheduler.testing import make_pod
from tests.bench.cycles import Workload, basic_workload

__all__ = ["AFFINITIES", "affinity_workload"]

_ZONE, _HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_REQUESTS = {"cpu": "100m", "memory": "500Mi"}
_PODS = 2
_COLOURS = 10

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _about(colour: str, topology_key: str) -> dict[str, object]:
    return {"topologyKey": topology_key, "labelSelector": {"matchLabels": {"colour": colour}}}


def _anti_affinity(colour: str) -> Mapping[str, object]:
    return {"podAntiAffinity": {_REQUIRED: [_about(colour, _HOSTNAME)]}}


def _required(colour: str) -> Mapping[str, object]:
    return {"podAffinity": {_REQUIRED: [_about(colour, _ZONE)]}}


def _preferred(colour: str) -> Mapping[str, object]:
    terms = [
        {"weight": weight, "podAffinityTerm": _about(colour, key)}
        for weight, key in ((1, _HOSTNAME), (10, _ZONE))
    ]
    return {"podAffinity": {_PREFERRED: terms}}


def _node_affinity(colour: str) -> Mapping[str, object]:
    zones = {"key": _ZONE, "operator": "In", "values": ["zone-0", "zone-1"]}
    return {
        "nodeAffinity": {
            _REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zones]}]},
            _PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [zones]}}],
        }
    }


#: The affinity of the pods of a workload, by its name; the argument is a colour.
AFFINITIES = {
    "anti-affinity": _anti_affinity,
    "affinity": _required,
    "preferred": _preferred,
    "node affinity": _node_affinity,
}


def affinity_workload(name: str, nodes_total: int, pods_total: int) -> Workload:
    """Two pods to each node, of ten colours, and pods of the first colour to come.

    Those that keep apart find room on four nodes of five.
    """
    nodes = basic_workload(nodes_total, 0).nodes

    def pod(prefix: str, index: int, colour: str, node_name: str = "") -> Pod:
        return make_pod(
            f"{prefix}-{index}",
            labels={"colour": colour, "statefulset.kubernetes.io/pod-name": f"{prefix}-{index}"},
            requests=_REQUESTS,
            affinity=AFFINITIES[name](colour),
            node_name=node_name,
        )

    # The second pod of a node is of another colour than the first.
    colours = [f"colour-{(i + i // nodes_total) % _COLOURS}" for i in range(nodes_total * _PODS)]
    running = [
        pod("running", i, colour, nodes[i % nodes_total].metadata.name)
        for i, colour in enumerate(colours)
    ]
    return Workload(name, nodes, running, [pod("pod", i, "colour-0") for i in range(pods_total)])
