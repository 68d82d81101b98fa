"""Upstream's cases for the cache, the order of its nodes and the snapshot: see `cache_stage`."""

import pytest

from scheduler.api.core import Node, Pod
from scheduler.cache import Cache, compare
from scheduler.cache.node_tree import NodeTree
from scheduler.snapshot import PodInfo
from scheduler.snapshot.nodes import zone_key
from scheduler.snapshot.pod_group_state import PodGroupState
from scheduler.testing import make_node, make_pod
from tests.upstream.cache_stage import CacheStage
from tests.upstream.loading import Case, cases, node


@pytest.mark.parametrize(
    "case", [p for t in ("pods", "pod_groups", "update_snapshot") for p in cases("cache", t)]
)
def test_the_cache_has_upstreams_state_after_each_step(case: Case) -> None:
    CacheStage(case).play(case["steps"])


@pytest.mark.parametrize(
    "case", [*cases("cache", "snapshot"), *cases("cache", "snapshot_of_cycle")]
)
def test_the_snapshot_has_upstreams_nodes(case: Case) -> None:
    CacheStage.with_snapshot_of_all(case).play(case["steps"])


@pytest.mark.parametrize("case", cases("cache", "pod_group_state"))
def test_pod_group_state(case: Case) -> None:
    """Steps: `set`, `assume` or `forget` a pod, or `copy` the state; then what must be so.

    `counts ALL SCHEDULED`, `unscheduled A..`, `assumed A..`, `scheduled A..`; with `copied` before
    it a step is about the copy. `p1@node1` is the pod p1 on a node.
    """
    states = {"": PodGroupState()}
    for step in case["steps"]:
        verb, *words = step.split()
        which = ""
        if verb == "copied":
            which, (verb, *words) = verb, words
        state, infos = states[which], [PodInfo(_on_node(word)) for word in words]
        if verb == "copy":
            states["copied"] = state.copy()
        elif verb in ("set", "assume"):
            (info,) = infos
            (state.set_pod if verb == "set" else state.assume_pod)(info)
        elif verb == "forget":
            state.forget_pod(infos[0].uid)
        elif verb == "counts":
            assert [len(state), state.scheduled_pods_count] == [int(word) for word in words]
        elif verb == "scheduled":
            assert [_named(info) for info in state.scheduled_pods] == words
        else:
            found = state.assumed_pods if verb == "assumed" else state.unscheduled_pods
            assert set(found) == {info.uid for info in infos}


def _on_node(word: str) -> Pod:
    name, _, node_name = word.partition("@")
    return make_pod(name, node_name=node_name)


def _named(info: PodInfo) -> str:
    return f"{info.name}@{info.spec.node_name}"


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
def test_the_comparer_finds_upstreams_differences(case: Case) -> None:
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
