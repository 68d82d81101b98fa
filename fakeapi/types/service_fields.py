"""What the fields of a Service say about it, for whoever fills them in, judges or counts them.

All functions take its spec. Source: pkg/api/service/util.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.objects import Json, integer, mappings, text, texts

SERVICES: Final = ("", "services")
NONE: Final = "None"
EXTERNAL_NAME: Final = "ExternalName"
LOAD_BALANCER: Final = "LoadBalancer"
_NODE_PORT: Final = "NodePort"


def type_of(spec: Json) -> str:
    """Its type; the default is filled in before anybody asks."""
    return text(spec.get("type"))


def needs_cluster_ip(spec: Json) -> bool:
    """Whether it is more than a name; headless counts, too."""
    return type_of(spec) != EXTERNAL_NAME


def is_headless(spec: Json) -> bool:
    """Whether it has no address by its own wish."""
    return cluster_ips(spec) == [NONE]


def opens_node_ports(spec: Json) -> bool:
    """Whether its type is one that is reached through nodes."""
    return type_of(spec) in (_NODE_PORT, LOAD_BALANCER)


def wants_node_ports(spec: Json) -> bool:
    """Whether ports on nodes are handed out for it."""
    if type_of(spec) == LOAD_BALANCER:
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return type_of(spec) == _NODE_PORT


def needs_health_check(spec: Json) -> bool:
    """Whether nodes tell a load balancer if they have endpoints of it."""
    return type_of(spec) == LOAD_BALANCER and spec.get("externalTrafficPolicy") == "Local"


def is_reached_from_outside(spec: Json) -> bool:
    """Whether there is traffic for externalTrafficPolicy to be about."""
    return opens_node_ports(spec) or (
        type_of(spec) == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def cluster_ips(spec: Json) -> list[str]:
    """All its addresses, the first of them its clusterIP."""
    return texts(spec.get("clusterIPs"))


def ports_of(spec: Json) -> list[Json]:
    """Its ports."""
    return mappings(spec.get("ports"))


def node_ports(spec: Json) -> list[int]:
    """The ports on nodes that its ports have."""
    numbers = [integer(port.get("nodePort")) for port in ports_of(spec)]
    return [number for number in numbers if number]
