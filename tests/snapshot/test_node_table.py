"""The node table: rows added and removed, counts of pods, columns derived from node objects."""

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from scheduler.api.core import Node
from scheduler.snapshot import node_table
from scheduler.snapshot.columns import IntArray, Row
from scheduler.snapshot.node_table import DERIVED_COLUMNS_MAX, NodeTable
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_node, make_pod

GPU = "example.com/gpu"


def _zone(node: Node) -> str | None:
    return node.metadata.labels.get("zone")


def _table(*names: str, **labels: str) -> NodeTable:
    table = NodeTable()
    for name in names:
        table.set_node(table.add_row(name), make_node(name, labels=labels))
    return table


def _pod(name: str, cpu: str = "1", **more: object) -> PodInfo:
    return PodInfo(make_pod(name, requests={"cpu": cpu}, **more))


def _column(table: NodeTable, kind: str, resource: str) -> list[int]:
    columns = getattr(table, kind)
    return table.column(columns, resource)[: len(table)].tolist()


def _values(table: NodeTable, rule: Callable[[Node], object] = _zone) -> list[object]:
    codes = table.derive(rule).view(slice(0, len(table)))
    return [codes[row] for row in range(len(codes))]


# Rows.


def test_rows_are_given_out_in_order() -> None:
    table = _table("a", "b")
    assert table.row_of == {"a": 0, "b": 1}
    assert table.names == ["a", "b"]
    assert len(table) == 2


def test_a_freed_row_is_used_again_and_remembers_nothing() -> None:
    table = _table("a", "b", "c", zone="z")
    table.derive(_zone)
    table.free_row(1)
    assert table.row_of == {"a": 0, "c": 2}
    row = table.add_row("d")
    assert row == 1
    assert len(table) == 3
    assert _column(table, "allocatable", "cpu") == [4000, 0, 4000]
    assert _values(table) == ["z", None, "z"]
    table.set_node(row, make_node("d", labels={"zone": "y"}, allocatable={"cpu": "1"}))
    assert _column(table, "allocatable", "cpu") == [4000, 1000, 4000]
    assert _values(table) == ["z", "y", "z"]
    table.check()


def test_a_row_with_pods_cannot_be_freed() -> None:
    table = _table("a")
    table.add_pod(0, _pod("p"))
    with pytest.raises(AssertionError, match="a row with pods cannot be freed"):
        table.free_row(0)


def test_a_table_that_grows_keeps_its_values() -> None:
    table = _table("n0", zone="z")
    table.derive(_zone)
    table.port_column()
    table.add_pod(0, PodInfo(make_pod("p", requests={GPU: "1"}, host_ports=[80])))
    for number in range(1, 100):
        row = table.add_row(f"n{number}")
        table.set_node(row, make_node(f"n{number}", labels={"zone": f"z{number % 3}"}))
        table.add_pod(row, _pod(f"p{number}", cpu=str(number)))
    assert _column(table, "requested", "cpu") == list(range(0, 100_000, 1000))
    assert _column(table, "requested", GPU) == [1] + [0] * 99
    assert _column(table, "allocatable", "cpu") == [4000] * 100
    assert _column(table, "requested", "never mentioned") == [0] * 100
    assert _values(table) == ["z"] + [f"z{number % 3}" for number in range(1, 100)]
    ports = table.port_column().view(slice(0, 100))
    assert ports.present.tolist() == [True] + [False] * 99
    table.check()


# Pods.


def test_a_pod_is_counted_once() -> None:
    table = _table("a")
    table.add_pod(0, _pod("p"))
    with pytest.raises(AssertionError, match="is on a already"):
        table.add_pod(0, _pod("p"))


def test_a_pod_that_is_not_there_cannot_be_removed() -> None:
    with pytest.raises(KeyError):
        _table("a").remove_pod(0, "uid-default-p")


def test_the_last_pod_takes_the_place_of_a_removed_one() -> None:
    """Upstream's order of a node's pods decides between equally important units of pod groups."""
    table = _table("n")
    for name in "abcd":
        table.add_pod(Row(0), _pod(name))
    table.remove_pod(Row(0), _pod("a").uid)
    assert [pod.name for pod in table.pods[0].values()] == ["d", "b", "c"]
    table.remove_pod(Row(0), _pod("c").uid)
    assert [pod.name for pod in table.pods[0].values()] == ["d", "b"]


def test_check_finds_a_count_that_is_no_sum() -> None:
    table = _table("a")
    table.add_pod(0, _pod("p"))
    table.requested["cpu"][0] += 1
    with pytest.raises(AssertionError, match="requested cpu of a"):
        table.check()


# Node objects.


def test_a_derived_column_is_computed_again_only_where_the_object_changed() -> None:
    asked = []

    def rule(node: Node) -> str:
        asked.append(node.metadata.name)
        return str(asked[-1])

    table = _table("a", "b")
    table.derive(rule)
    table.derive(rule)
    assert asked == ["a", "b"]
    table.set_node(1, make_node("b", labels={"new": "yes"}))
    table.add_pod(0, _pod("p"))
    assert asked == ["a", "b", "b"]


def test_the_least_recently_used_columns_are_dropped_first() -> None:
    table = _table("a", zone="z")
    rules = [lambda node, n=n: n for n in range(DERIVED_COLUMNS_MAX)]
    table.derive(_zone)
    kept = table.derive(_zone)
    for rule in rules[:-1]:
        table.derive(rule)
    assert table.derive(_zone) is kept
    first = table.derive(rules[0])
    table.derive(rules[-1])
    # rules[1] was the one least recently used.
    assert table.derive(_zone) is kept
    assert table.derive(rules[0]) is first
    dropped = table.derive(rules[1])
    assert table.derive(rules[1]) is dropped


def test_a_rule_that_fails_loses_its_own_column_and_no_other() -> None:
    def rule(node: Node) -> str:
        return node.metadata.labels["rack"]

    table = NodeTable()
    table.set_node(table.add_row("a"), make_node("a", labels={"rack": "1", "zone": "z"}))
    table.derive(rule)
    table.derive(_zone)
    table.set_node(0, make_node("a", labels={"zone": "y"}))
    assert _values(table) == ["y"]
    assert _column(table, "allocatable", "cpu") == [4000]
    with pytest.raises(KeyError, match="rack"):
        table.derive(rule)
    table.set_node(0, make_node("a", labels={"rack": "2", "zone": "y"}))
    assert _values(table, rule) == ["2"]


# Copies.


def test_a_copied_row_is_equal_and_independent() -> None:
    source, target = _table("a", "b", zone="z"), _table("x")
    source.add_pod(1, _pod("p", host_ports=[80]))
    target.add_pod(0, PodInfo(make_pod("old", requests={GPU: "1"})))
    target.derive(_zone)
    target.copy_row(0, source, 1)
    assert target.nodes[0] is source.nodes[1]
    assert target.pods[0] == source.pods[1]
    assert target.host_ports[0] == source.host_ports[1]
    assert _values(target) == ["z"]
    assert _column(target, "requested", "cpu") == [1000]
    assert _column(target, "requested", GPU) == [0]
    assert target.pod_count[0] == 1
    target.check()
    source.remove_pod(1, "uid-default-p")
    assert _column(target, "requested", "cpu") == [1000]
    assert target.pods[0]


def test_a_rearranged_table_holds_the_nodes_named_in_the_order_given() -> None:
    source = _table("a", "b", "c")
    source.add_pod(2, PodInfo(make_pod("p", requests={"cpu": "1", GPU: "1"}, host_ports=[80])))
    table = NodeTable().rearranged(source, ["c", "a"])
    assert table.names == ["c", "a"]
    assert table.row_of == {"c": 0, "a": 1}
    assert _column(table, "requested", GPU) == [1, 0]
    assert _column(table, "allocatable", "cpu") == [4000, 4000]
    assert table.host_ports == [source.host_ports[2], frozenset()]
    table.check()


def test_a_rearranged_table_keeps_derived_values_of_the_same_objects() -> None:
    asked = []

    def rule(node: Node) -> str:
        asked.append(node.metadata.name)
        return str(asked[-1])

    source = _table("a", "b", "c")
    old = NodeTable().rearranged(source, ["a", "b", "c"])
    old.derive(rule)
    source.set_node(1, msgspec.structs.replace(source.nodes[1]))
    source.set_node(source.add_row("d"), make_node("d"))
    asked.clear()
    new = old.rearranged(source, ["d", "c", "b"])
    assert _values(new, rule) == ["d", "c", "b"]
    assert sorted(asked) == ["b", "d"]
    assert _column(new, "allocatable", "cpu") == [4000, 4000, 4000]


# The least and the most on offer.


def test_bounds_follow_nodes_as_they_come_change_and_go() -> None:
    table = NodeTable()
    assert table.allocatable_bounds("cpu") == (0, 0)
    for name, cpu in (("a", "4"), ("b", "8")):
        table.set_node(table.add_row(name), make_node(name, allocatable={"cpu": cpu}))
    assert table.allocatable_bounds("cpu") == (4000, 8000)
    assert table.allocatable_bounds(GPU) == (0, 0)
    table.set_node(table.row_of["b"], make_node("b", allocatable={"cpu": "2", GPU: "1"}))
    assert table.allocatable_bounds("cpu") == (2000, 4000)
    assert table.allocatable_bounds(GPU) == (0, 1)
    table.add_row("c")
    assert table.allocatable_bounds("cpu") == (0, 4000)


def test_a_cached_result_is_computed_again_for_changed_rows_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_table, "CHANGES_MAX", 4)
    table, computed = _table("a", "b", "c"), []

    def count(rows: slice | IntArray) -> IntArray:
        found: IntArray = np.arange(len(table))[rows]
        computed.append(found.tolist())
        counts: IntArray = table.pod_count[: len(table)][rows].copy()
        return counts

    def cached() -> list[int]:
        values: list[int] = table.cached("key", count).tolist()
        return values

    assert cached() == cached() == [0, 0, 0]
    first = table.cached("key", count)
    table.add_pod(table.row_of["b"], _pod("p"))
    assert cached() == cached() == [0, 1, 0]
    assert first.tolist() == [0, 0, 0]
    table.set_node(table.row_of["c"], make_node("c", allocatable={"cpu": "1"}))
    assert cached() == [0, 1, 0]
    assert computed == [[0, 1, 2], [1], [2]]
    for number in range(6):
        table.add_pod(table.row_of["a"], _pod(f"q{number}"))
    assert cached() == [6, 1, 0]
    assert computed[-1] == [0, 1, 2]
    table.add_row("d")
    assert cached() == [6, 1, 0, 0]
