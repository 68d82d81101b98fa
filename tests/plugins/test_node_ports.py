"""NodePorts."""

import pytest

from scheduler.api.core import Container, ContainerPort, Pod
from scheduler.framework import Code, CycleState
from scheduler.plugins.node_ports import NodePorts
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.plugins.running import QUEUE, SKIP, UNSCHEDULABLE, hint, rejected

from .volumes import plugin_with

PLUGIN: NodePorts = plugin_with(NodePorts, FakeHandle())


TAKEN = (UNSCHEDULABLE, ("node(s) didn't have free ports for the requested pod ports",))


def ports(*texts: str) -> tuple[ContainerPort, ...]:
    """Host ports, as in `UDP/127.0.0.1/8080`."""
    split = [text.split("/") for text in texts]
    return tuple(ContainerPort(host_ip=ip, host_port=int(n), protocol=p) for p, ip, n in split)


def pod(*texts: str, name: str = "pod", node_name: str = "", nominated: str = "") -> Pod:
    container = Container(name="c", ports=ports(*texts))
    return make_pod(
        name, node_name=node_name, nominated_node_name=nominated, containers=[container]
    )


@pytest.mark.parametrize(
    ("wanted", "used", "fits"),
    [
        (["UDP/127.0.0.1/8080"], ["UDP/127.0.0.1/9090"], True),
        (["UDP/127.0.0.1/8080"], ["UDP/127.0.0.1/8080"], False),
        (["TCP/127.0.0.1/8080"], ["TCP/127.0.0.1/8080"], False),
        (["TCP/127.0.0.1/8080"], ["TCP/127.0.0.2/8080"], True),
        (["UDP/127.0.0.1/8080"], ["TCP/127.0.0.1/8080"], True),
        (["UDP/127.0.0.1/8000", "UDP/127.0.0.1/8080"], ["UDP/127.0.0.1/8080"], False),
        (["TCP/0.0.0.0/8001"], ["TCP/127.0.0.1/8001"], False),
        (["TCP/10.0.10.10/8001", "TCP/0.0.0.0/8001"], ["TCP/127.0.0.1/8001"], False),
        (["TCP/127.0.0.1/8001"], ["TCP/0.0.0.0/8001"], False),
        (["UDP/127.0.0.1/8001"], ["TCP/0.0.0.0/8001"], True),
        (["UDP/127.0.0.1/8001"], ["TCP/0.0.0.0/8001", "UDP/0.0.0.0/8001"], False),
        (["//8001"], ["TCP/0.0.0.0/8001"], False),
    ],
)
def test_two_ports_clash_where_number_protocol_and_address_meet(
    wanted: list[str], used: list[str], fits: bool
) -> None:
    """`TestNodePorts`."""
    snapshot = snapshot_of([make_node("n")], [pod(*used, name="other", node_name="n")])
    assert rejected(PLUGIN, pod(*wanted), snapshot) == ({} if fits else {"n": TAKEN})


@pytest.mark.parametrize(("restart_policy", "counts"), [(None, False), ("Always", True)])
def test_of_init_containers_only_sidecars_count(restart_policy: str | None, counts: bool) -> None:
    init = Container(name="i", ports=ports("TCP//8001"), restart_policy=restart_policy)
    wanting = make_pod(init_containers=[init])
    snapshot = snapshot_of([make_node("n")], [pod("TCP//8001", name="o", node_name="n")])
    assert rejected(PLUGIN, wanting, snapshot) == ({"n": TAKEN} if counts else {})


def test_only_nodes_on_which_the_port_is_taken_are_rejected() -> None:
    others = [pod("TCP//80", name="one", node_name="a"), pod("TCP//81", name="two", node_name="c")]
    snapshot = snapshot_of([make_node("a"), make_node("b"), make_node("c")], others)
    assert rejected(PLUGIN, pod("TCP//80"), snapshot) == {"a": TAKEN}


def test_a_pod_without_host_ports_is_skipped() -> None:
    snapshot = snapshot_of([make_node("n")])
    status = PLUGIN.pre_filter(CycleState(), PodInfo(make_pod()), snapshot.nodes)
    assert status is not None
    assert status.code == Code.SKIP


def test_without_pre_filter_the_filter_fails() -> None:
    """`TestPreFilterDisabled`."""
    snapshot = snapshot_of([make_node("n")])
    with pytest.raises(LookupError) as caught:
        PLUGIN.filter_nodes(CycleState(), PodInfo(make_pod()), snapshot.nodes)
    assert str(caught.value) == 'reading "PreFilterNodePorts" from cycleState: not found'


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        (pod("TCP//8080", name="gone"), SKIP),
        (pod(name="gone", node_name="n"), SKIP),
        (pod("TCP//8081", name="gone", node_name="n"), SKIP),
        (pod("TCP//8080", name="gone", node_name="n"), QUEUE),
        (pod("TCP//8080", name="gone", nominated="n"), QUEUE),
    ],
)
def test_a_deleted_pod_helps_if_it_held_a_wanted_port(deleted: Pod, expected: str) -> None:
    """`Test_isSchedulableAfterPodDeleted`."""
    assert hint(PLUGIN, pod("TCP//8080"), old=deleted) == expected


def test_any_new_node_is_worth_a_try() -> None:
    assert hint(PLUGIN, pod("TCP//8080"), new=make_node()) == QUEUE
