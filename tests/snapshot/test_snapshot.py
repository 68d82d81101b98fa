"""The snapshot: nodes by name and in order, brought up to date from another table."""

import pytest

from scheduler.snapshot import NodeNotFoundError, NodeTable, PodInfo, Snapshot
from scheduler.snapshot.images import Image
from scheduler.testing import make_node, make_pod, snapshot_of


def test_nodes_are_found_by_name_and_by_place() -> None:
    snapshot = snapshot_of([make_node("a"), make_node("b")], [make_pod(node_name="b")])
    assert len(snapshot) == 2
    assert snapshot.names == ["a", "b"]
    assert snapshot.nodes.names == ["a", "b"]
    assert snapshot.nodes.total == 2
    assert snapshot.row("b") == 1
    assert snapshot.get("b").pod_count == 1
    assert "a" in snapshot
    assert "c" not in snapshot


def test_an_unknown_node_is_an_error_with_upstreams_message() -> None:
    with pytest.raises(NodeNotFoundError) as not_found:
        Snapshot().get("x")
    assert str(not_found.value) == 'nodeinfo not found for node name "x"'
    assert not_found.value.name == "x"


def _source(*names: str) -> NodeTable:
    table = NodeTable()
    for name in names:
        table.set_node(table.add_row(name), make_node(name))
    return table


def test_an_update_copies_changed_rows_and_nothing_else() -> None:
    source = _source("a", "b")
    snapshot = Snapshot()
    snapshot.update(source, changed_rows=(), order=["b", "a"], images={})
    table = snapshot.table
    for row in (0, 1):
        source.add_pod(row, PodInfo(make_pod(f"p{row}")))
    snapshot.update(source, changed_rows=[1], order=None, images={})
    assert snapshot.table is table
    assert [node.pod_count for node in snapshot.nodes] == [1, 0]


def test_a_changed_row_that_the_snapshot_does_not_show_is_passed_over() -> None:
    source = _source("a", "ghost")
    snapshot = Snapshot()
    snapshot.update(source, changed_rows=(), order=["a"], images={})
    snapshot.update(source, changed_rows=[1], order=None, images={})
    assert snapshot.names == ["a"]


def test_a_new_order_names_all_nodes_there_are() -> None:
    source = _source("a", "b", "c")
    snapshot = Snapshot()
    snapshot.update(source, changed_rows=(), order=["a", "b", "c"], images={})
    snapshot.update(source, changed_rows=(), order=["c", "a"], images={})
    assert snapshot.names == ["c", "a"]
    assert "b" not in snapshot


def test_images_keep_their_nodes_when_rows_move() -> None:
    source = _source("a", "b", "c")
    snapshot = Snapshot()
    images = {"app:1": Image(5, frozenset({"c"}))}
    snapshot.update(source, changed_rows=(), order=["a", "b", "c"], images=images)
    image = snapshot.nodes.image("app:1")
    assert image is not None
    assert image.present.tolist() == [False, False, True]
    snapshot.update(source, changed_rows=(), order=["c", "a"], images={})
    image = snapshot.nodes.image("app:1")
    assert image is not None
    assert image.present.tolist() == [True, False]


def test_a_search_may_still_read_the_table_it_began_with_when_rows_move() -> None:
    source = _source("a", "b")
    snapshot = Snapshot()
    snapshot.update(source, changed_rows=(), order=["a", "b"], images={})
    nodes = snapshot.nodes
    snapshot.update(source, changed_rows=(), order=["b"], images={})
    assert nodes.names == ["a", "b"]
