"""The differences of cache and API, and the dump in the log."""

from collections.abc import Iterator

from scheduler.cache import Cache, CacheDifference, compare, dump_nodes, dump_pods
from scheduler.metrics import SchedulerMetrics
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod


def _cache() -> Cache:
    cache = Cache()
    cache.add_node(make_node("a", allocatable={"cpu": "4", "memory": "8Gi"}))
    cache.add_node(make_node("b"))
    pod = make_pod("p", node_name="a", requests={"cpu": "500m", "memory": "1Gi"})
    cache.add_pod(PodInfo(pod))
    cache.assume_pod(PodInfo(make_pod("assumed", node_name="b")))
    return cache


def test_a_cache_with_the_objects_of_the_api_does_not_differ() -> None:
    difference = compare(
        _cache(),
        nodes=[make_node("b"), make_node("a")],
        pods=[make_pod("p", node_name="a"), make_pod("assumed"), make_pod("waiting")],
        queued=[make_pod("waiting")],
    )
    assert not difference
    assert list(difference.lines()) == []


def test_missed_and_redundant_objects_are_named() -> None:
    difference = compare(
        _cache(),
        nodes=[make_node("a"), make_node("new")],
        pods=[make_pod("p", node_name="a"), make_pod("unheard-of", node_name="new")],
        queued=[make_pod("gone")],
    )
    assert difference == CacheDifference(
        missed_nodes=("new",),
        redundant_nodes=("b",),
        missed_pods=("default/unheard-of (uid-default-unheard-of)",),
        redundant_pods=(
            "default/assumed (uid-default-assumed)",
            "default/gone (uid-default-gone)",
        ),
    )
    nodes, pods = difference.lines()
    assert nodes == "Cache mismatch: missed nodes: [new], redundant nodes: [b]"
    assert pods.startswith("Cache mismatch: missed pods: [default/unheard-of")


def test_a_pod_recreated_with_its_name_is_a_difference() -> None:
    again = make_pod("p", node_name="a", uid="second")
    difference = compare(_cache(), nodes=[make_node("a"), make_node("b")], pods=[again], queued=[])
    assert difference.missed_pods == ("default/p (second)",)
    assert "default/p (uid-default-p)" in difference.redundant_pods


def test_a_dump_shows_nodes_with_their_pods_and_nominated_pods() -> None:
    expected = PodInfo(make_pod("soon", nominated_node_name="b"))
    first, second = _paragraphs(_cache(), {"b": [expected]})
    assert first.splitlines() == [
        "Node name: a",
        "Deleted: false",
        "Requested Resources: cpu=500m memory=1Gi",
        "Allocatable Resources: cpu=4 memory=8Gi",
        "Scheduled Pods(number: 1):",
        "name: p, namespace: default, uid: uid-default-p, phase: Pending, nominated node: ",
    ]
    assert second.splitlines()[-2:] == [
        "Nominated Pods(number: 1):",
        "name: soon, namespace: default, uid: uid-default-soon, phase: Pending, nominated node: b",
    ]


def test_a_node_that_is_gone_but_has_pods_is_shown_as_deleted() -> None:
    cache = _cache()
    cache.remove_node(make_node("a"))
    assert "Deleted: true" in next(iter(_paragraphs(cache, {})))


def test_pods_are_a_line_each() -> None:
    assert len(list(dump_pods([make_pod("p"), make_pod("q")]))) == 2


def test_a_comparison_is_counted_and_its_outcome_stands_until_the_next() -> None:
    metrics = SchedulerMetrics()
    CacheDifference(missed_nodes=("a", "b"), redundant_pods=("p",)).record(metrics)
    assert metrics.cache_divergence == {
        ("nodes", "missed"): 2,
        ("nodes", "redundant"): 0,
        ("pods", "missed"): 0,
        ("pods", "redundant"): 1,
    }
    CacheDifference().record(metrics)
    assert set(metrics.cache_divergence.values()) == {0}
    assert metrics.cache_comparisons == {("different",): 1, ("equal",): 1}


def _paragraphs(cache: Cache, nominated_on: dict[str, list[PodInfo]]) -> Iterator[str]:
    return dump_nodes(cache.nodes, cache.pods.values(), nominated_on)
