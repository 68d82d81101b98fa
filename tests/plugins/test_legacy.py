"""Behaviour of v1.13's predicates and priorities that v1.13's own tables do not show."""

from scheduler.api.core import ObjectMeta
from scheduler.api.workloads import EqualitySelectorSpec, Service
from scheduler.framework import CycleState
from scheduler.plugins.legacy.scores import EqualPriority
from scheduler.plugins.legacy.services import CheckServiceAffinity, ServiceSpreadingPriority
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from scheduler.testing.doubles import FakeLister

WEB = {"app": "web"}
SERVICE = Service(ObjectMeta(name="web", namespace="default"), EqualitySelectorSpec(WEB))


def cluster() -> Snapshot:
    nodes = [make_node(name, labels={"zone": zone}) for name, zone in (("a", "1"), ("b", "2"))]
    return snapshot_of(nodes, [make_pod("there", labels=WEB, node_name="a")])


def handle(snapshot: Snapshot) -> FakeHandle:
    return FakeHandle(snapshot, listers={"services": FakeLister([SERVICE])})


def test_a_victim_no_longer_binds_its_service_to_its_node() -> None:
    snapshot, state = cluster(), CycleState()
    registry = Registry([CheckServiceAffinity])
    plugin = registry.create("CheckServiceAffinity", {"labels": ["zone"]}, handle(snapshot))
    pod = PodInfo(make_pod("new", labels=WEB))
    plugin.pre_filter(state, pod, snapshot.nodes)

    def rejected() -> list[bool]:
        found = plugin.filter_nodes(state, pod, snapshot.nodes)
        return [found is not None and found.status(i) is not None for i in range(2)]

    assert rejected() == [False, True]
    there = snapshot.nodes[0].pods[0]
    other = PodInfo(make_pod("other", labels=WEB, node_name="b"))
    # In the world of node b, a pod there comes after that of node a.
    plugin.add_pod(state, pod, other, snapshot.nodes[1])
    assert rejected() == [False, True]
    # In the world of node a, no pod is left.
    plugin.remove_pod(state, pod, there, snapshot.nodes[0])
    assert rejected() == [False, True]


def test_equal_priority_gives_every_node_one_of_ten() -> None:
    snapshot = cluster()
    scores = EqualPriority().score_nodes(CycleState(), PodInfo(make_pod()), snapshot.nodes)
    assert scores.tolist() == [10, 10]


def test_services_spread_over_the_nodes_that_are_feasible() -> None:
    snapshot = cluster()
    registry = Registry([ServiceSpreadingPriority])
    plugin = registry.create("ServiceSpreadingPriority", None, handle(snapshot))
    pod = PodInfo(make_pod("new", labels=WEB))
    assert plugin.score_nodes(CycleState(), pod, snapshot.nodes).tolist() == [0, 100]
    only = snapshot.nodes.slice(1, 2)
    assert plugin.score_nodes(CycleState(), pod, only).tolist() == [100]
