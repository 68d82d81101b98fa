"""The cache's state machine, beyond upstream's tables (`tests/upstream/test_cache.py`)."""

import logging
from collections.abc import Iterator

import pytest

from scheduler.cache import Cache, CacheCorruptedError, CacheError
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.testing import make_node, make_pod


@pytest.fixture
def cache() -> Iterator[Cache]:
    """A cache whose invariants must hold when the test is over."""
    cache = Cache()
    yield cache
    cache.check()


def _pod(name: str = "p", node: str = "n", cpu: str = "1", **more: object) -> PodInfo:
    return PodInfo(make_pod(name, node_name=node, requests={"cpu": cpu}, **more))


def _snapshot(cache: Cache) -> Snapshot:
    snapshot = Snapshot()
    cache.update_snapshot(snapshot)
    return snapshot


# Pods.


def test_a_pod_confirmed_on_another_node_moves_there(
    cache: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("assumed", "actual"):
        cache.add_node(make_node(name))
    cache.assume_pod(_pod(node="assumed"))
    with caplog.at_level(logging.WARNING):
        cache.add_pod(_pod(node="actual"))
    assert caplog.messages == ["Pod default/p was added to node actual, but was assumed on assumed"]
    snapshot = _snapshot(cache)
    assert (snapshot.get("assumed").pod_count, snapshot.get("actual").pod_count) == (0, 1)


def test_forgetting_an_unknown_pod_is_no_error(cache: Cache) -> None:
    cache.forget_pod(_pod())


def test_a_last_known_state_without_a_node_removes_the_pod_where_it_is(cache: Cache) -> None:
    cache.add_node(make_node("n"))
    cache.add_pod(_pod(node="n"))
    cache.remove_pod(_pod(node="").pod)
    assert _snapshot(cache).get("n").pod_count == 0


NAMED = "uid-default-p(default/p)"


@pytest.mark.parametrize(
    ("setting", "mistake", "text"),
    [
        ("assume", "assume", "pod {} is in the cache, so can't be assumed"),
        ("add", "assume", "pod {} is in the cache, so can't be assumed"),
        ("add", "add", "pod {} was already in added state"),
        ("add", "forget", "pod {} wasn't assumed so cannot be forgotten"),
        ("assume", "forget elsewhere", "pod {} was assumed on other but assigned to n"),
        ("", "update", "pod {} is not added to scheduler cache, so cannot be updated"),
        ("assume", "update", "assumed pod {} should not be updated"),
        ("", "remove", "pod {} is not found in scheduler cache, so cannot be removed from it"),
        ("add", "update elsewhere", "pod {} was updated on node other, but was added to n"),
        ("add", "remove elsewhere", "pod {} was removed from node other, but was added to n"),
    ],
)
def test_a_call_that_does_not_fit_the_pods_state_is_refused_and_changes_nothing(
    cache: Cache, setting: str, mistake: str, text: str
) -> None:
    cache.add_node(make_node("n"))
    if setting:
        getattr(cache, f"{setting}_pod")(_pod())
    before = (cache.pods, cache.statistics())
    verb, *elsewhere = mistake.split()
    pod = _pod(node="other" if elsewhere else "n", cpu="7")
    arguments = {"update": (_pod().pod, pod), "remove": (pod.pod,)}.get(verb, (pod,))
    with pytest.raises(CacheError) as refusal:
        getattr(cache, f"{verb}_pod")(*arguments)
    assert str(refusal.value) == text.format(NAMED)
    assert (cache.pods, cache.statistics()) == before
    moved = bool(elsewhere) and verb != "forget"
    assert isinstance(refusal.value, CacheCorruptedError) is moved


@pytest.mark.parametrize(
    "method", ["assume_pod", "forget_pod", "add_pod", "remove_pod", "get_pod", "is_assumed_pod"]
)
def test_a_pod_without_a_uid_has_no_place_in_the_cache(cache: Cache, method: str) -> None:
    info = PodInfo(make_pod(uid="", node_name="n"))
    pod = info if method in ("assume_pod", "forget_pod", "add_pod") else info.pod
    with pytest.raises(CacheError, match=r"^cannot get cache key for pod with empty UID$"):
        getattr(cache, method)(pod)


def test_a_pod_recreated_with_the_same_name_is_another_pod(cache: Cache) -> None:
    cache.add_node(make_node("n"))
    cache.add_pod(_pod(uid="first"))
    cache.assume_pod(_pod(uid="second"))
    assert cache.statistics().pods == 2


# Nodes.


def test_an_unknown_node_cannot_be_removed(cache: Cache) -> None:
    with pytest.raises(CacheError, match=r"^node n is not found$"):
        cache.remove_node(make_node("n"))


@pytest.mark.parametrize("known", ["unknown", "ghost"])
def test_an_update_of_a_node_the_cache_does_not_show_adds_it(cache: Cache, known: str) -> None:
    """The node's addition, or its return, may have been missed; its zone has not changed."""
    if known == "ghost":
        cache.add_node(make_node("n", zone="z"))
        cache.add_pod(_pod())
        cache.remove_node(make_node("n", zone="z"))
    cache.add_node(make_node("n", zone="z"))
    assert _snapshot(cache).names == ["n"]


def test_a_node_added_again_in_another_zone_is_one_node(cache: Cache) -> None:
    cache.add_node(make_node("n", zone="a"))
    cache.add_node(make_node("n", zone="b"))
    assert _snapshot(cache).names == ["n"]


def test_a_node_that_changes_its_zone_keeps_its_place_until_nodes_come_or_go(cache: Cache) -> None:
    snapshot = Snapshot()
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        cache.add_node(make_node(name, zone=zone))
    cache.update_snapshot(snapshot)
    cache.add_node(make_node("a1", zone="b"))
    cache.update_snapshot(snapshot)
    assert snapshot.names == ["a1", "b1", "a2"]
    assert snapshot.get("a1").labels["topology.kubernetes.io/zone"] == "b"
    cache.add_node(make_node("c1", zone="c"))
    cache.update_snapshot(snapshot)
    assert snapshot.names == ["a2", "b1", "c1", "a1"]


def test_images_follow_the_nodes_that_have_them(cache: Cache) -> None:
    snapshot = Snapshot()
    found = []
    for node in (make_node("n", images={"app:1": 500}), make_node("n")):
        cache.add_node(node)
        cache.update_snapshot(snapshot)
        found.append(snapshot.nodes.image("app:1") is not None)
    assert found == [True, False]


# The snapshot.


def test_one_cache_fills_one_snapshot(cache: Cache) -> None:
    cache.update_snapshot(Snapshot())
    with pytest.raises(AssertionError, match="a cache fills one snapshot"):
        cache.update_snapshot(Snapshot())


def test_check_finds_differences_of_tree_and_table() -> None:
    cache = Cache()
    cache.add_node(make_node("n"))
    cache._tree.remove_node(make_node("n"))
    with pytest.raises(AssertionError, match="tree and table differ"):
        cache.check()
