"""The cache's state machine: what upstream's `cache_test.go` promises, and its words."""

import logging
from collections.abc import Iterator

import pytest

from scheduler.cache import Cache, CacheCorruptedError, CacheError, CacheStatistics
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


def test_an_assumed_pod_counts_before_anybody_else_knows(cache: Cache) -> None:
    cache.add_node(make_node("n"))
    cache.assume_pod(_pod(host_ports=[80]))
    assert cache.is_assumed_pod(_pod().pod)
    node = _snapshot(cache).get("n")
    assert node.requested == {"cpu": 1000}
    assert [port.port for port in node.host_ports] == [80]
    assert cache.statistics() == CacheStatistics(nodes=1, pods=1, assumed_pods=1)


def test_a_confirmed_pod_is_the_pod_of_the_informer(cache: Cache) -> None:
    cache.add_node(make_node("n"))
    cache.assume_pod(_pod(cpu="1"))
    confirmed = _pod(cpu="2", labels={"seen": "yes"})
    cache.add_pod(confirmed)
    assert not cache.is_assumed_pod(confirmed.pod)
    assert cache.get_pod(confirmed.pod) is confirmed
    assert _snapshot(cache).get("n").requested == {"cpu": 2000}


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


def test_a_forgotten_pod_no_longer_counts(cache: Cache) -> None:
    cache.add_node(make_node("n"))
    cache.assume_pod(_pod())
    cache.forget_pod(_pod())
    assert cache.get_pod(_pod().pod) is None
    assert not cache.is_assumed_pod(_pod().pod)
    assert _snapshot(cache).get("n").requested == {}
    cache.assume_pod(_pod())


def test_forgetting_an_unknown_pod_is_no_error(cache: Cache) -> None:
    cache.forget_pod(_pod())


def test_an_update_replaces_the_cached_pod(cache: Cache) -> None:
    cache.add_node(make_node("n"))
    cache.add_pod(_pod(cpu="1", host_ports=[80]))
    cache.update_pod(_pod().pod, _pod(cpu="3", host_ports=[81]))
    node = _snapshot(cache).get("n")
    assert node.requested == {"cpu": 3000}
    assert [port.port for port in node.host_ports] == [81]


def test_a_removed_pod_no_longer_counts(cache: Cache) -> None:
    cache.add_node(make_node("n"))
    cache.add_pod(_pod())
    cache.remove_pod(_pod().pod)
    assert cache.statistics() == CacheStatistics(nodes=1, pods=0, assumed_pods=0)
    assert cache.pods == {}


def test_an_assumed_pod_can_be_removed(cache: Cache) -> None:
    cache.add_node(make_node("n"))
    cache.assume_pod(_pod())
    cache.remove_pod(_pod().pod)
    assert not cache.is_assumed_pod(_pod().pod)


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


def test_a_removed_node_is_gone_for_the_snapshot(cache: Cache) -> None:
    snapshot = Snapshot()
    cache.add_node(make_node("n"))
    cache.update_snapshot(snapshot)
    cache.remove_node(make_node("n"))
    cache.update_snapshot(snapshot)
    assert len(snapshot) == 0
    assert cache.nodes == {}


def test_an_unknown_node_cannot_be_removed(cache: Cache) -> None:
    with pytest.raises(CacheError, match=r"^node n is not found$"):
        cache.remove_node(make_node("n"))


def test_pods_may_come_before_their_node(cache: Cache) -> None:
    snapshot = Snapshot()
    cache.add_pod(_pod())
    cache.update_snapshot(snapshot)
    assert len(snapshot) == 0
    assert cache.statistics() == CacheStatistics(nodes=0, pods=1, assumed_pods=0)
    cache.add_node(make_node("n"))
    cache.update_snapshot(snapshot)
    assert snapshot.get("n").requested == {"cpu": 1000}


def test_a_node_that_goes_before_its_pods_stays_as_a_ghost_that_no_snapshot_shows(
    cache: Cache,
) -> None:
    snapshot = Snapshot()
    cache.add_node(make_node("n"))
    cache.add_pod(_pod())
    cache.remove_node(make_node("n"))
    cache.update_snapshot(snapshot)
    assert len(snapshot) == 0
    with pytest.raises(CacheError, match=r"^node n is not found$"):
        cache.remove_node(make_node("n"))
    cache.add_node(make_node("n"))
    cache.update_snapshot(snapshot)
    assert snapshot.get("n").pod_count == 1


def test_a_ghost_is_gone_with_its_last_pod(cache: Cache) -> None:
    cache.add_node(make_node("n"))
    cache.add_pod(_pod())
    cache.remove_node(make_node("n"))
    cache.remove_pod(_pod().pod)
    cache.add_node(make_node("other"))
    assert _snapshot(cache).names == ["other"]


@pytest.mark.parametrize("known", ["unknown", "ghost"])
def test_an_update_of_a_node_the_cache_does_not_show_adds_it(cache: Cache, known: str) -> None:
    """The node's addition, or its return, may have been missed; its zone has not changed."""
    if known == "ghost":
        cache.add_node(make_node("n", zone="z"))
        cache.add_pod(_pod())
        cache.remove_node(make_node("n", zone="z"))
    cache.update_node(make_node("n", zone="z"))
    assert _snapshot(cache).names == ["n"]


def test_a_node_added_again_in_another_zone_is_one_node(cache: Cache) -> None:
    cache.add_node(make_node("n", zone="a"))
    cache.add_node(make_node("n", zone="b"))
    assert _snapshot(cache).names == ["n"]


def test_nodes_are_shown_zone_by_zone_in_turn(cache: Cache) -> None:
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c"), ("b2", "b")):
        cache.add_node(make_node(name, zone=zone))
    assert _snapshot(cache).names == ["a1", "b1", "c1", "a2", "b2"]


def test_a_node_that_changes_its_zone_keeps_its_place_until_nodes_come_or_go(cache: Cache) -> None:
    snapshot = Snapshot()
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        cache.add_node(make_node(name, zone=zone))
    cache.update_snapshot(snapshot)
    cache.update_node(make_node("a1", zone="b"))
    cache.update_snapshot(snapshot)
    assert snapshot.names == ["a1", "b1", "a2"]
    assert snapshot.get("a1").labels["topology.kubernetes.io/zone"] == "b"
    cache.add_node(make_node("c1", zone="c"))
    cache.update_snapshot(snapshot)
    assert snapshot.names == ["a2", "b1", "c1", "a1"]


def test_images_follow_the_nodes_that_have_them(cache: Cache) -> None:
    snapshot = Snapshot()

    def image() -> tuple[int, int] | None:
        cache.update_snapshot(snapshot)
        found = snapshot.nodes.image("app:1")
        return None if found is None else (found.size_bytes, found.num_nodes)

    cache.add_node(make_node("a", images={"app:1": 500}))
    cache.add_node(make_node("b", images={"app:1": 700}))
    assert image() == (500, 2)
    cache.update_node(make_node("a"))
    assert image() == (500, 1)
    cache.update_node(make_node("b", images={"app:1": 700}))
    assert image() == (700, 1)
    cache.remove_node(make_node("b"))
    assert image() is None


# The snapshot.


def test_a_snapshot_shows_nothing_new_until_it_is_updated(cache: Cache) -> None:
    snapshot = Snapshot()
    cache.add_node(make_node("n"))
    cache.update_snapshot(snapshot)
    cache.assume_pod(_pod())
    cache.update_node(make_node("n", labels={"new": "yes"}))
    assert snapshot.get("n").pod_count == 0
    assert "new" not in snapshot.get("n").labels
    cache.update_snapshot(snapshot)
    assert snapshot.get("n").pod_count == 1
    assert "new" in snapshot.get("n").labels


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
