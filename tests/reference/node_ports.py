"""NodePorts: `nodeports/node_ports.go`, `HostPortInfo` in `framework/types.go`."""

from __future__ import annotations

from scheduler.api.core import Node, Pod
from tests.reference.cluster import UNSCHEDULABLE, Cluster, Verdict


def ports_of(pod: Pod) -> list[tuple[str, str, int]]:
    lasting = [c for c in pod.spec.init_containers if c.restart_policy == "Always"]
    return [
        (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for container in (*lasting, *pod.spec.containers)
        for port in container.ports
        if port.host_port > 0
    ]


def filter_node(pod: Pod, node: Node, cluster: Cluster) -> Verdict | None:
    used = [port for other in cluster.pods_on(node) for port in ports_of(other)]
    for ip, protocol, number in ports_of(pod):
        for used_ip, used_protocol, used_number in used:
            same = (protocol, number) == (used_protocol, used_number)
            if same and (ip == used_ip or ip == "0.0.0.0" or used_ip == "0.0.0.0"):
                reason = "node(s) didn't have free ports for the requested pod ports"
                return UNSCHEDULABLE, (reason,)
    return None
