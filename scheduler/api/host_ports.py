"""Host ports of pods, and conflicts between them.

Source: `pkg/scheduler/util/utils.go` (`GetHostPorts`), `k8s.io/kube-scheduler/framework/types.go`
(`HostPortInfo`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.resources import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Collection

    from scheduler.api.core import Pod

_ANY_IP: Final = "0.0.0.0"  # noqa: S104 - a value of the API


class HostPort(NamedTuple):
    """One port on a node; the address 0.0.0.0 means all addresses."""

    protocol: str
    ip: str
    port: int


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports of regular containers and sidecars."""
    spec = pod.spec
    containers = [c for c in spec.init_containers if c.ports and is_sidecar(c)]
    containers += [c for c in spec.containers if c.ports]
    return tuple(
        HostPort(port.protocol or "TCP", port.host_ip or _ANY_IP, port.host_port)
        for container in containers
        for port in container.ports
        if port.host_port > 0
    )


def conflicts(wanted: Collection[HostPort], used: Collection[HostPort]) -> bool:
    """Return True if a wanted port is used: the same protocol and number, on a common address."""
    return any(
        want.port == use.port
        and want.protocol == use.protocol
        and (want.ip == use.ip or _ANY_IP in (want.ip, use.ip))
        for want in wanted
        for use in used
    )
