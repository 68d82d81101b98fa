"""Upstream's cases for the cache, the order of its nodes and the snapshot: see `cache_stage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduler.cache import Cache, compare
from scheduler.cache.node_tree import NodeTree, zone_key
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod
from tests.upstream.cache_stage import CacheStage
from tests.upstream.loading import cases, node

if TYPE_CHECKING:
    from scheduler.api.core import Node
    from tests.upstream.loading import Case


@pytest.mark.parametrize("case", [*cases("cache", "pods"), *cases("cache", "update_snapshot")])
def test_cache(case: Case) -> None:
    CacheStage(case).play(case["steps"])


@pytest.mark.parametrize("case", cases("cache", "snapshot"))
def test_snapshot(case: Case) -> None:
    CacheStage.with_snapshot_of_all(case).play(case["steps"])


@pytest.mark.parametrize("case", cases("cache", "node_tree"))
def test_node_tree(case: Case) -> None:
    """If a case has zones, only the order within each zone is compared."""
    nodes = {name: _labelled(name, labels) for name, labels in case["nodes"].items()}
    changed = {name: _labelled(name, labels) for name, labels in case.get("changed", {}).items()}
    tree = NodeTree()
    for step in [*case.get("start", []), *case["steps"]]:
        verb, name = step.split()
        if verb == "add":
            tree.add_node(nodes[name])
        elif verb == "update":
            tree.update_node(nodes[name], changed[name])
        else:
            assert tree.remove_node(nodes[name]) == (verb == "remove")
    order = tree.list()
    assert len(tree) == len(order)
    if "order" in case.fields:
        assert order == case["order"]
    else:
        zones: dict[str, list[str]] = {}
        for name in order:
            zones.setdefault(zone_key({**nodes, **changed}[name]), []).append(name)
        assert zones == case["zones"]


def _labelled(name: str, labels: dict[str, str]) -> Node:
    return node({"metadata": {"labels": labels}}, name=name)


@pytest.mark.parametrize("case", cases("cache", "comparer"))
def test_comparer(case: Case) -> None:
    nodes, pods = case.get("nodes", {}), case.get("pods", {})
    cache = Cache()
    for name in nodes.get("cached", ()):
        cache.add_node(make_node(name))
    for name in pods.get("cached", ()):
        cache.add_pod(PodInfo(make_pod(name, node_name="n")))
    difference = compare(
        cache,
        nodes=map(make_node, nodes.get("actual", ())),
        pods=map(make_pod, pods.get("actual", ())),
        queued=map(make_pod, pods.get("queued", ())),
    )
    assert difference.missed_nodes == tuple(nodes.get("missed", ()))
    assert difference.redundant_nodes == tuple(nodes.get("redundant", ()))
    for found, expected in (
        (difference.missed_pods, pods.get("missed", ())),
        (difference.redundant_pods, pods.get("redundant", ())),
    ):
        assert [text.split()[0] for text in found] == [f"default/{name}" for name in expected]
