"""Rules about loads: asked once per distinct load, and right whatever has happened since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cache import Cache
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.snapshot import loads as loads_module
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing import make_node, make_pod

if TYPE_CHECKING:
    import pytest

    from scheduler.snapshot import IntArray, Nodes

GPU = "example.com/gpu"


class Free:
    """How much of a resource is free; counts how many nodes it was asked about."""

    def __init__(self, resource: str = "cpu") -> None:
        self.resource = resource
        self.asked = 0

    def __call__(self, nodes: Nodes) -> IntArray:
        self.asked += len(nodes)
        return nodes.allocatable(self.resource) - nodes.requested(self.resource)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Free) and self.resource == other.resource

    def __hash__(self) -> int:
        return hash(self.resource)


class Cluster:
    """A cache and its snapshot."""

    def __init__(self, nodes_total: int = 0) -> None:
        self.cache = Cache()
        self.snapshot = Snapshot()
        for number in range(nodes_total):
            self.cache.add_node(make_node(f"n{number}"))

    def look(self) -> Nodes:
        self.cache.update_snapshot(self.snapshot)
        return self.snapshot.nodes

    def add(self, name: str, node: str, **requests: str) -> None:
        names = {"gpu": GPU}
        asked = {names.get(key, key): value for key, value in requests.items()}
        self.cache.add_pod(PodInfo(make_pod(name, node_name=node, requests=asked)))


def test_equal_loads_are_asked_about_once() -> None:
    cluster, rule = Cluster(21), Free()
    cluster.add("there", "n20", cpu="4")
    kept, free = cluster.look().by_load(rule)
    assert kept is rule
    assert sorted(free.tolist()) == [0] + [4000] * 20
    assert rule.asked == 2
    for number in range(3):
        cluster.add(f"p{number}", f"n{number}", cpu="1")
        kept, free = cluster.look().by_load(Free())
        assert kept is rule
        assert sorted(free.tolist()) == [0] + [3000] * (number + 1) + [4000] * (19 - number)
    assert rule.asked == 3, "once for an empty node, once for a full one, once for one in between"
    kept, free = cluster.look().slice(5, 7).by_load(Free())
    assert free.tolist() == [4000, 4000]


def test_a_new_resource_makes_new_loads() -> None:
    cluster = Cluster(3)
    cluster.look().by_load(Free())
    assert cluster.look().by_load(Free(GPU))[1].tolist() == [0, 0, 0]
    cluster.add("p", "n1", gpu="2")
    nodes = cluster.look()
    assert dict(zip(nodes.names, nodes.by_load(Free(GPU))[1].tolist(), strict=True)) == {
        "n0": 0,
        "n1": -2,
        "n2": 0,
    }


def test_the_least_recently_asked_rule_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads_module, "RULES_MAX", 1)
    nodes = Cluster(2).look()
    first = Free()
    nodes.by_load(first)
    nodes.by_load(Free("memory"))
    again = Free()
    assert nodes.by_load(again)[0] is again


def test_hypothetical_nodes_are_asked_about_as_they_are() -> None:
    cluster = Cluster(2)
    cluster.look().by_load(Free())
    what_if = WhatIf(cluster.snapshot.nodes)
    what_if.add_pod(1, PodInfo(make_pod("p", requests={"cpu": "3"})))
    assert what_if.nodes.by_load(Free())[1].tolist() == [4000, 1000]
    assert cluster.snapshot.nodes.by_load(Free())[1].tolist() == [4000, 4000]


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "remove", "node", "gone", "look"]), st.integers(0, 200)),
        max_size=60,
    )
)
def test_answers_are_right_after_any_history(steps: list[tuple[str, int]]) -> None:
    cluster, pods = Cluster(4), dict[str, PodInfo]()
    for number, (step, choice) in enumerate(steps):
        node = f"n{choice % 6}"
        if step == "add" and node in cluster.cache.nodes:
            requests = {"cpu": f"{choice}m", **({GPU: "1"} if choice % 3 else {})}
            pod = PodInfo(make_pod(f"p{number}", node_name=node, requests=requests))
            pods[pod.uid] = pod
            cluster.cache.add_pod(pod)
        elif step == "remove" and pods:
            cluster.cache.remove_pod(pods.popitem()[1].pod)
        elif step == "node":
            cluster.cache.add_node(make_node(node, allocatable={"cpu": str(choice % 7)}))
        elif step == "gone" and node in cluster.cache.nodes and len(cluster.cache.nodes) > 1:
            cluster.cache.remove_node(make_node(node))
        nodes = cluster.look()
        for resource in ("cpu", GPU):
            expected = nodes.allocatable(resource) - nodes.requested(resource)
            assert nodes.by_load(Free(resource))[1].tolist() == expected.tolist()
