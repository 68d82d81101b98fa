"""The first of many volumes that each node can reach."""

from scheduler.api.core import Node
from scheduler.api.selectors import Requirement
from scheduler.plugins.volume_binding.reachability import (
    ALL_NODES,
    NO_NODES,
    FirstReachable,
    NodeTerms,
)
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing import make_node, snapshot_of

ZONES = ("a", "b", "b", None)
NODES = [make_node(f"node-{i}", zone=zone or "") for i, zone in enumerate(ZONES)]
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def within(key: str, *values: str) -> tuple[Requirement, ...]:
    return (Requirement(key, "In", values),)


def ranks(reach: list[NodeTerms], nodes: list[Node] = NODES) -> list[int]:
    best: list[int] = FirstReachable(reach).find(snapshot_of(nodes).nodes).tolist()
    return best


def test_every_node_gets_the_first_thing_within_its_reach() -> None:
    assert ranks([(within(ZONE, "b"),), (within(HOSTNAME, "node-0", "node-1"),)]) == [1, 0, 0, 2]
    assert ranks([NO_NODES, (within(ZONE, "a", "b"),), ALL_NODES]) == [1, 1, 1, 2]


def test_terms_with_several_requirements_and_operators_are_supported() -> None:
    not_b = (Requirement(ZONE, "NotIn", ("b",)),)
    either = (within(HOSTNAME, "node-1"), not_b)
    both = ((*within(ZONE, "b"), *within(HOSTNAME, "node-2")),)
    assert ranks([(not_b,)]) == [0, 1, 1, 0]
    assert ranks([both, either]) == [1, 1, 0, 1]
    assert ranks([]) == [0, 0, 0, 0]


def test_a_volume_that_is_taken_on_a_node_is_skipped() -> None:
    nodes = snapshot_of(NODES).nodes
    in_b = (within(ZONE, "b"),)
    reachable = FirstReachable([in_b, in_b, in_b, ALL_NODES, ALL_NODES])
    first = reachable.find(nodes)
    second = reachable.find(nodes, [first])
    third = reachable.find(nodes, [first, second])
    assert (first.tolist(), second.tolist()) == ([3, 0, 0, 3], [4, 1, 1, 4])
    assert third.tolist() == [5, 2, 2, 5]


def test_results_for_other_nodes_are_computed_again() -> None:
    reachable = FirstReachable([(within(HOSTNAME, "node-1"),)])
    few, turned = snapshot_of(NODES[:2]).nodes, snapshot_of(NODES[1::-1]).nodes
    more = snapshot_of(NODES).nodes
    assert reachable.find(few).tolist() == [1, 0]
    assert reachable.find(turned).tolist() == [0, 1]
    assert reachable.find(more).tolist() == [1, 0, 1, 1]
    assert reachable.find(WhatIf(more.slice(1, 3)).nodes).tolist() == [0, 1]
