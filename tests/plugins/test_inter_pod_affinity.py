"""InterPodAffinity, beyond upstream's tables (`tests/upstream/test_inter_pod_affinity.py`)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import cast

import pytest

from scheduler.api.core import Namespace, ObjectMeta, Pod
from scheduler.framework import CycleState
from scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from scheduler.testing.doubles import FakeLister
from tests.plugins.running import UNRESOLVABLE, UNSCHEDULABLE, Verdict, rejected, scores, verdict_of

NOT_NEAR = (UNRESOLVABLE, ("node(s) didn't match pod affinity rules",))
TOO_NEAR = (UNSCHEDULABLE, ("node(s) didn't match pod anti-affinity rules",))
UNWELCOME = (UNSCHEDULABLE, ("node(s) didn't satisfy existing pods anti-affinity rules",))

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def about(app: str, key: str = "zone", **more: object) -> dict[str, object]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: Mapping[str, object]) -> Mapping[str, object]:
    return {"podAffinity": {REQUIRED: terms}}


def far(*terms: Mapping[str, object]) -> Mapping[str, object]:
    return {"podAntiAffinity": {REQUIRED: terms}}


def pod(
    app: str = "", affinity: Mapping[str, object] | None = None, *, name: str = "pod", on: str = ""
) -> Pod:
    labels = {"app": app} if app else {}
    return make_pod(name, labels=labels, affinity=affinity, node_name=on)


def cluster(*pods: Pod) -> Snapshot:
    """Nodes a and b in one zone, c in another, d in none."""
    zones = {"a": "1", "b": "1", "c": "2", "d": ""}
    nodes = [
        make_node(name, labels={"host": name, **({"zone": zone} if zone else {})})
        for name, zone in zones.items()
    ]
    return snapshot_of(nodes, pods)


def plugin_in(
    snapshot: Snapshot,
    namespaces: Sequence[Namespace] = (),
    args: Mapping[str, object] | None = None,
) -> InterPodAffinity:
    handle = FakeHandle(snapshot, listers={"namespaces": FakeLister(namespaces)})
    created = Registry([InterPodAffinity]).create("InterPodAffinity", dict(args or {}), handle)
    return cast("InterPodAffinity", created)


def verdicts_after(
    waiting: Pod,
    snapshot: Snapshot,
    *,
    gone: Mapping[str, str] | None = None,
    come: Sequence[Pod] = (),
) -> list[Verdict | None]:
    """Return the verdict on each node, in a world in which pods are added to it or removed."""
    plugin, state, info = plugin_in(snapshot), CycleState(), PodInfo(waiting)
    assert plugin.pre_filter(state, info, snapshot.nodes) is None
    what_if = WhatIf(snapshot.nodes)
    for uid, name in (gone or {}).items():
        row = snapshot.row(name)
        plugin.remove_pod(state, info, what_if.remove_pod(row, uid), what_if.node(row))
    for other in come:
        row = snapshot.row(other.spec.node_name)
        what_if.add_pod(row, PodInfo(other))
        plugin.add_pod(state, info, PodInfo(other), what_if.node(row))
    found = plugin.filter_nodes(state, info, what_if.nodes)
    assert found is not None
    return [verdict_of(found.status(row)) for row in range(len(snapshot))]


def test_in_a_dry_run_only_the_changed_node_sees_the_change() -> None:
    db = pod("db", on="a")
    snapshot = cluster(db)
    waiting = pod("web", far(about("db")))
    gone = verdicts_after(waiting, snapshot, gone={db.metadata.uid: "a"})
    assert gone == [None, TOO_NEAR, None, None]
    come = verdicts_after(waiting, snapshot, come=[pod("db", name="next", on="c")])
    assert come == [TOO_NEAR, TOO_NEAR, TOO_NEAR, None]


def test_a_pod_with_self_affinity_fits_where_the_last_matching_pod_is_removed() -> None:
    db = pod("db", on="a")
    waiting = pod("db", near(about("db")))
    gone = verdicts_after(waiting, cluster(db), gone={db.metadata.uid: "a"})
    assert gone == [None, None, NOT_NEAR, NOT_NEAR]
    come = verdicts_after(waiting, cluster(), come=[pod("db", name="next", on="d")])
    assert come == [None, None, None, NOT_NEAR]


def test_a_pod_that_comes_may_bring_a_topology_key_of_its_own() -> None:
    waiting = pod("db", near(about("db")))
    hermit = pod("", far(about("db", "host")), name="hermit", on="c")
    come = verdicts_after(waiting, cluster(), come=[hermit])
    assert come == [None, None, UNWELCOME, NOT_NEAR]


def test_a_state_that_is_cloned_changes_alone() -> None:
    snapshot = cluster(pod("db", on="a"))
    plugin, state, info = plugin_in(snapshot), CycleState(), PodInfo(pod("", far(about("db"))))
    plugin.pre_filter(state, info, snapshot.nodes)
    clone = state.clone()
    plugin.remove_pod(clone, info, snapshot.get("a").pods[0], snapshot.get("a"))
    clone_of_clone = clone.clone()
    plugin.add_pod(clone_of_clone, info, PodInfo(pod("db")), snapshot.get("c"))
    for which, expected in ((state, [0, 1]), (clone, [1]), (clone_of_clone, [1, 2])):
        found = plugin.filter_nodes(which, info, snapshot.nodes)
        assert found is not None
        assert (found.codes >= 0).nonzero()[0].tolist() == expected


def namespace(name: str, **labels: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


def in_namespace(name: str) -> Pod:
    return make_pod("there", namespace=name, labels={"app": "db"}, node_name="a")


class Namespaces(FakeLister):
    """A lister over a list that changes."""

    def __init__(self) -> None:
        self.there: list[Namespace] = []
        self.changes: list[str] = []

    def get(self, name: str, namespace: str = "") -> object | None:
        return FakeLister(self.there).get(name)

    def list(self, namespace: str = "") -> Iterable[object]:
        return self.there

    def changes_since(self, cursor: int) -> tuple[int, Collection[str] | None]:
        return len(self.changes), self.changes[cursor:] if cursor >= 0 else None


def test_namespaces_are_looked_up_in_every_cycle() -> None:
    snapshot, namespaces = cluster(in_namespace("team")), Namespaces()
    handle = FakeHandle(snapshot, listers={"namespaces": namespaces})
    plugin = cast(
        "InterPodAffinity", Registry([InterPodAffinity]).create("InterPodAffinity", None, handle)
    )
    term = about("db", namespaceSelector={"matchLabels": {"env": "x"}})
    preference = {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}
    waiting = pod(affinity={**far(term), **preference})
    kept = PodInfo(waiting).kind  # results that are kept for a kind live as long as the kind
    for there, out, score in (
        (None, 0, []),
        (namespace("team"), 0, []),
        (namespace("team", env="x"), 2, [100, 100, 0, 0]),
    ):
        namespaces.there = [there] if there else []
        namespaces.changes.append("team")
        assert len(rejected(plugin, waiting, snapshot)) == out
        assert list(scores(plugin, waiting, snapshot).values()) == score
    assert PodInfo(waiting).kind is kept


def test_a_selector_that_a_namespace_without_labels_meets_selects_all_of_them() -> None:
    selector = {"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]}
    snapshot = cluster(in_namespace("team"))
    plugin = plugin_in(snapshot, [namespace("team", env="x")])
    waiting = pod(affinity=far(about("db", namespaceSelector=selector)))
    assert rejected(plugin, waiting, snapshot) == dict.fromkeys("ab", TOO_NEAR)


def test_all_malformed_terms_are_in_one_message() -> None:
    bad = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a"}]}}
    snapshot = cluster()
    plugin, info = plugin_in(snapshot), PodInfo(pod(affinity={**near(bad), **far(bad)}))
    status = plugin.pre_filter(CycleState(), info, snapshot.nodes)
    text = '"" is not a valid label selector operator'
    assert verdict_of(status) == (
        UNRESOLVABLE,
        (f"parsing pod: [requiredAffinityTerms: {text}, requiredAntiAffinityTerms: {text}]",),
    )
    with pytest.raises(ValueError, match="failed to parse pod"):
        plugin.pre_score(CycleState(), info, snapshot.nodes)
    running = pod("db", on="a")
    with pytest.raises(ValueError, match="not a valid label selector operator"):
        plugin.is_schedulable_after_pod_change(info, None, running)
    with pytest.raises(ValueError, match="not a valid label selector operator"):
        plugin.is_schedulable_after_node_change(info, None, make_node("n"))
