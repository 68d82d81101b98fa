"""The order of nodes, beyond upstream's tables (`tests/upstream/test_cache.py`)."""

import pytest

from scheduler.api.core import Node
from scheduler.cache.node_tree import NodeTree
from scheduler.snapshot.nodes import zone_key
from scheduler.testing import make_node

BETA = "failure-domain.beta.kubernetes.io"


def _beta(name: str, **labels: str) -> Node:
    return make_node(name, labels={f"{BETA}/{key}": value for key, value in labels.items()})


NODES = [
    make_node("n0"),
    make_node("n1", region="r1"),
    make_node("n2", zone="z2"),
    make_node("n3", region="r1", zone="z2"),
    make_node("n4", region="r1", zone="z2"),
    make_node("n5", region="r1", zone="z3"),
    make_node("n6", region="r2", zone="z2"),
    make_node("n7", region="r2", zone="z2"),
    make_node("n8", region="r2", zone="z2"),
]


@pytest.mark.parametrize(
    ("node", "key"),
    [
        (NODES[0], ""),
        (NODES[1], "r1:\x00:"),
        (NODES[2], ":\x00:z2"),
        (NODES[3], "r1:\x00:z2"),
        (_beta("n", region="r", zone="z"), "r:\x00:z"),
        (make_node(labels={f"{BETA}/zone": "old"}, region="r", zone="new"), "r:\x00:old"),
        (make_node(labels={f"{BETA}/zone": ""}, zone="new"), ""),
    ],
)
def test_a_zone_is_a_region_and_a_zone_beta_labels_first(node: Node, key: str) -> None:
    assert zone_key(node) == key


def _tree(nodes: list[Node]) -> NodeTree:
    tree = NodeTree()
    for node in nodes:
        tree.add_node(node)
    return tree


def test_a_node_added_to_an_exhausted_zone_has_its_turn() -> None:
    tree = _tree([*NODES[4:9], NODES[3]])
    assert tree.list() == ["n4", "n5", "n6", "n3", "n7", "n8"]


def test_a_zone_that_was_empty_is_added_at_the_end() -> None:
    tree = _tree([NODES[3], NODES[6]])
    tree.remove_node(NODES[3])
    tree.add_node(NODES[4])
    assert tree.list() == ["n6", "n4"]


def test_a_node_that_is_not_there_is_not_removed() -> None:
    tree = _tree(NODES[:1])
    assert not tree.remove_node(NODES[3])
    assert not tree.remove_node(make_node("n9"))
    assert tree.list() == ["n0"]
