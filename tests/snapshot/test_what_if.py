"""Hypothetical nodes: they act like real ones, and the snapshot does not contain them."""

import numpy as np
import pytest

from scheduler.api.core import Node
from scheduler.snapshot import PodInfo
from scheduler.snapshot.node_table import NO_PRIORITY
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing import make_node, make_pod, snapshot_of

SNAPSHOT = snapshot_of(
    [make_node("a", zone="z"), make_node("b"), make_node("c", zone="y")],
    [make_pod("p", node_name="c", requests={"cpu": "1"}, host_ports=[80])],
)
ZONE = "topology.kubernetes.io/zone"


def test_a_what_if_has_the_given_nodes_in_their_order() -> None:
    what_if = WhatIf(SNAPSHOT.nodes.take(np.array([2, 0])))
    assert what_if.nodes.names == ["c", "a"]
    assert what_if.nodes.total == 3
    assert [what_if.nodes.labels(ZONE)[i] for i in range(2)] == ["y", "z"]
    assert what_if.nodes.requested("cpu").tolist() == [1000, 0]
    assert what_if.nodes.allocatable("cpu").tolist() == [4000, 4000]
    assert what_if.node(0).pod_count == 1
    assert what_if.nodes.image("any") is None


def test_pods_are_added_and_removed_in_the_what_if_only() -> None:
    what_if = WhatIf(SNAPSHOT.nodes)
    removed = what_if.remove_pod(2, "uid-default-p")
    assert removed.name == "p"
    what_if.add_pod(0, PodInfo(make_pod("q", requests={"cpu": "2"})))
    assert what_if.nodes.requested("cpu").tolist() == [2000, 0, 0]
    assert what_if.nodes.host_ports.present.tolist() == [False, False, False]
    assert [pod.name for pod in what_if.node(0).pods] == ["q"]
    assert SNAPSHOT.nodes.requested("cpu").tolist() == [0, 0, 1000]
    assert SNAPSHOT.nodes.host_ports.present.tolist() == [False, False, True]
    SNAPSHOT.table.check()


def test_a_pod_that_is_not_there_cannot_be_taken_away() -> None:
    with pytest.raises(KeyError):
        WhatIf(SNAPSHOT.nodes).remove_pod(0, "uid-default-p")


def test_a_what_if_of_a_what_if_starts_from_its_changed_nodes() -> None:
    without_pod = WhatIf(SNAPSHOT.nodes)
    without_pod.remove_pod(2, "uid-default-p")
    what_if = WhatIf(without_pod.nodes.slice(2, 3))
    what_if.add_pod(0, PodInfo(make_pod("q", requests={"cpu": "3"})))
    assert what_if.nodes.requested("cpu").tolist() == [3000]
    assert without_pod.nodes.requested("cpu").tolist() == [0, 0, 0]


def test_hypothetical_nodes_know_which_nodes_they_are_versions_of() -> None:
    what_if = WhatIf(SNAPSHOT.nodes.take(np.array([2, 1])))
    assert what_if.nodes.base_rows.tolist() == [2, 1]
    assert what_if.node(0).base_row == 2
    again = WhatIf(what_if.nodes.slice(1, 2))
    assert again.nodes.base_rows.tolist() == [1]
    assert again.nodes[0].base_row == 1


def test_many_pods_come_and_go_at_once() -> None:
    p = SNAPSHOT.get("c").pods[0]
    small = PodInfo(make_pod("small", requests={"cpu": "1", "gpu.io/x": "2"}, host_ports=[81]))
    large = PodInfo(make_pod("large", requests={"cpu": "2", "memory": "1Gi"}))
    what_if = WhatIf(SNAPSHOT.nodes)
    nodes = what_if.nodes
    what_if.remove_pods([2], [p])
    what_if.add_pods([0, 0, 2], [small, large, large])
    assert nodes.pod_count.tolist() == [2, 0, 1]
    assert nodes.requested("cpu").tolist() == [3000, 0, 2000]
    assert nodes.requested("gpu.io/x").tolist() == [2, 0, 0]
    assert nodes.requested("memory").tolist() == [2**30, 0, 2**30]
    assert nodes.non_zero_requested("cpu").tolist() == [3000, 0, 2000]
    assert nodes.host_ports.present.tolist() == [True, False, False]
    assert (nodes.lowest_priority[[0, 2]] <= 0).all()
    what_if.remove_pods([0, 0, 2], [large, small, large])
    what_if.add_pods([2], [p])
    for resource in ("cpu", "memory", "gpu.io/x"):
        assert nodes.requested(resource).tolist() == SNAPSHOT.nodes.requested(resource).tolist()
    assert nodes.host_ports.present.tolist() == [False, False, True]
    assert [[*pods] for pods in nodes.pods] == [[], [], ["uid-default-p"]]
    SNAPSHOT.table.check()


def test_ports_that_changed_before_anybody_asked_for_them_are_right() -> None:
    what_if = WhatIf(SNAPSHOT.nodes)
    what_if.remove_pods([2], SNAPSHOT.get("c").pods)
    what_if.add_pod(1, PodInfo(make_pod("q", host_ports=[80])))
    assert what_if.nodes.host_ports.present.tolist() == [False, True, False]


def test_columns_derived_from_node_objects_are_shared_with_the_snapshot() -> None:
    asked: list[str] = []

    def rule(node: Node) -> str:
        asked.append(node.metadata.name)
        return node.metadata.name.upper()

    snapshot = snapshot_of([make_node("a"), make_node("b"), make_node("c")])
    what_if = WhatIf(snapshot.nodes.take(np.array([2, 0])))
    derived = what_if.nodes.derive(rule)
    assert [derived[i] for i in range(2)] == ["C", "A"]
    assert [WhatIf(what_if.nodes.slice(1, 2)).nodes.derive(rule)[0]] == ["A"]
    assert derived.isin(["A"]).tolist() == [False, True]
    assert sorted(asked) == ["a", "b", "c"]
    assert what_if.nodes.allocatable_bounds("cpu") == snapshot.nodes.allocatable_bounds("cpu")


def test_the_lowest_priority_on_a_node_follows_its_pods() -> None:
    pods = [make_pod(f"p{n}", node_name="a", priority=n) for n in (5, -3)]
    snapshot = snapshot_of([make_node("a"), make_node("b")], pods)
    assert snapshot.nodes.lowest_priority.tolist() == [-3, NO_PRIORITY]
    what_if = WhatIf(snapshot.nodes)
    what_if.remove_pod(0, "uid-default-p-3")
    assert what_if.nodes.lowest_priority.tolist() == [5, NO_PRIORITY]
    snapshot.table.check()
