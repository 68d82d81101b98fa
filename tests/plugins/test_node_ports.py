"""NodePorts: a case that upstream's tables (`tests/upstream`) do not have."""

from scheduler.api.core import Container, ContainerPort
from scheduler.plugins.node_ports import NodePorts
from scheduler.testing import make_plugin, make_pod
from tests.plugins.running import SKIP, hint


def test_a_deleted_pod_that_was_on_no_node_held_no_port() -> None:
    ports = (ContainerPort(host_port=8080, protocol="TCP"),)
    waiting, gone = (make_pod(name, containers=[Container(ports=ports)]) for name in ("a", "b"))
    assert hint(make_plugin(NodePorts), waiting, old=gone) == SKIP
