"""Hypothetical nodes: they answer like real ones, and the snapshot never hears of them."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.snapshot import PodInfo
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing import make_node, make_pod, snapshot_of

SNAPSHOT = snapshot_of(
    [make_node("a", zone="z"), make_node("b"), make_node("c", zone="y")],
    [make_pod("p", node_name="c", requests={"cpu": "1"}, host_ports=[80])],
)
ZONE = "topology.kubernetes.io/zone"


def test_a_what_if_shows_the_nodes_asked_for_in_their_order() -> None:
    what_if = WhatIf(SNAPSHOT.nodes.take(np.array([2, 0])))
    assert what_if.nodes.names == ["c", "a"]
    assert what_if.nodes.total == 3
    assert [what_if.nodes.labels(ZONE)[i] for i in range(2)] == ["y", "z"]
    assert what_if.nodes.requested("cpu").tolist() == [1000, 0]
    assert what_if.nodes.allocatable("cpu").tolist() == [4000, 4000]
    assert what_if.node(0).pod_count == 1
    assert what_if.nodes.image("any") is None


def test_pods_come_and_go_in_the_what_if_alone() -> None:
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


def test_a_what_if_of_a_what_if_starts_from_what_was_supposed() -> None:
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
