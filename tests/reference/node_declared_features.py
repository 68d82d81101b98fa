"""NodeDeclaredFeatures: `nodedeclaredfeatures.go`, `component-helpers/nodedeclaredfeatures`."""

from __future__ import annotations

from scheduler.api.core import Node, Pod
from tests.reference.cluster import UNRESOLVABLE, Cluster, Verdict

#: In the order of their names, as upstream's registry keeps them.
KNOWN = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
]


def required(pod: Pod) -> set[str]:
    names = set()
    for container in list(pod.spec.containers) + list(pod.spec.init_containers):
        for rule in container.restart_policy_rules:
            if rule.action == "RestartAllContainers":
                names.add("RestartAllContainersOnContainerExits")
    if pod.spec.host_network and pod.spec.host_users is not None and not pod.spec.host_users:
        names.add("UserNamespacesHostNetworkSupport")
    return names


def declared(node: Node) -> set[str]:
    """Upstream merges two sorted lists; a node whose list is not sorted loses some of it."""
    features, names = list(node.status.declared_features), set()
    i = j = 0
    while i < len(features) and j < len(KNOWN):
        if features[i] == KNOWN[j]:
            names.add(KNOWN[j])
            i, j = i + 1, j + 1
        elif features[i] < KNOWN[j]:
            i += 1
        else:
            j += 1
    return names


def filter_node(pod: Pod, node: Node, cluster: Cluster) -> Verdict | None:
    missing = required(pod) - declared(node)
    return (UNRESOLVABLE, ("node(s) didn't match Pod's required features",)) if missing else None
