"""Host ports: upstream's `TestGetHostPorts` and `TestHostPortInfo_Check`."""

import pytest

from scheduler.api.core import Container, ContainerPort
from scheduler.api.host_ports import HostPort, conflicts, host_ports
from scheduler.testing import make_pod


def _container(*ports: ContainerPort, restart_policy: str | None = None) -> Container:
    return Container(ports=ports, restart_policy=restart_policy)


def test_only_ports_taken_on_the_node_count() -> None:
    pod = make_pod(
        containers=[
            _container(ContainerPort(container_port=80), ContainerPort(host_port=8001)),
            _container(ContainerPort(host_port=-1), ContainerPort(host_port=8002, protocol="UDP")),
        ]
    )
    assert host_ports(pod) == (
        HostPort("TCP", "0.0.0.0", 8001),
        HostPort("UDP", "0.0.0.0", 8002),
    )


def test_of_init_containers_only_sidecars_count_and_they_come_first() -> None:
    pod = make_pod(
        containers=[_container(ContainerPort(host_port=1, host_ip="10.0.0.1"))],
        init_containers=[
            _container(ContainerPort(host_port=2)),
            _container(ContainerPort(host_port=3), restart_policy="Always"),
        ],
    )
    assert host_ports(pod) == (HostPort("TCP", "0.0.0.0", 3), HostPort("TCP", "10.0.0.1", 1))


USED = (
    HostPort("TCP", "127.0.0.1", 80),
    HostPort("UDP", "0.0.0.0", 81),
)


@pytest.mark.parametrize(
    ("wanted", "clash"),
    [
        (HostPort("TCP", "127.0.0.1", 80), True),
        (HostPort("TCP", "0.0.0.0", 80), True),
        (HostPort("TCP", "10.0.0.1", 80), False),
        (HostPort("UDP", "127.0.0.1", 80), False),
        (HostPort("TCP", "127.0.0.1", 82), False),
        (HostPort("UDP", "10.0.0.1", 81), True),
        (HostPort("UDP", "0.0.0.0", 81), True),
    ],
)
def test_ports_clash_where_protocol_number_and_address_meet(
    wanted: HostPort, *, clash: bool
) -> None:
    assert conflicts((wanted,), USED) is clash


def test_one_of_several_wanted_ports_is_enough_for_a_clash() -> None:
    free = HostPort("TCP", "0.0.0.0", 1)
    assert conflicts((free, USED[0]), USED)
    assert not conflicts((free,), USED)
    assert not conflicts((), USED)
    assert not conflicts((free,), ())
