"""Behaviour of v1.13's predicates and priorities that v1.13's own tables do not show."""

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.api.core import ObjectMeta, OwnerReference
from scheduler.api.workloads import EqualitySelectorSpec, Service
from scheduler.framework import CycleState
from scheduler.plugins.legacy.scores import (
    EqualPriority,
    ImageLocalityPriority,
    InterPodAffinityPriority,
    NodeAffinityPriority,
    NodePreferAvoidPodsPriority,
)
from scheduler.plugins.legacy.services import CheckServiceAffinity, ServiceSpreadingPriority
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from scheduler.testing.doubles import FakeLister

WEB = {"app": "web"}
SERVICE = Service(ObjectMeta(name="web", namespace="default"), EqualitySelectorSpec(WEB))


def cluster() -> Snapshot:
    nodes = [make_node(name, labels={"zone": zone}) for name, zone in (("a", "1"), ("b", "2"))]
    return snapshot_of(nodes, [make_pod("there", labels=WEB, node_name="a")])


def handle(snapshot: Snapshot) -> FakeHandle:
    return FakeHandle(snapshot, listers={"services": FakeLister([SERVICE])})


def test_a_victim_no_longer_binds_its_service_to_its_node() -> None:
    snapshot, state = cluster(), CycleState()
    registry = Registry([CheckServiceAffinity])
    plugin = registry.create("CheckServiceAffinity", {"labels": ["zone"]}, handle(snapshot))
    pod = PodInfo(make_pod("new", labels=WEB))
    plugin.pre_filter(state, pod, snapshot.nodes)

    def rejected() -> list[bool]:
        found = plugin.filter_nodes(state, pod, snapshot.nodes)
        return [found is not None and found.status(i) is not None for i in range(2)]

    assert rejected() == [False, True]
    there = snapshot.nodes[0].pods[0]
    other = PodInfo(make_pod("other", labels=WEB, node_name="b"))
    # In the world of node b, a pod there comes after that of node a.
    plugin.add_pod(state, pod, other, snapshot.nodes[1])
    assert rejected() == [False, True]
    # In the world of node a, no pod is left.
    plugin.remove_pod(state, pod, there, snapshot.nodes[0])
    assert rejected() == [False, True]


def test_equal_priority_gives_every_node_one_of_ten() -> None:
    snapshot = cluster()
    scores = EqualPriority().score_nodes(CycleState(), PodInfo(make_pod()), snapshot.nodes)
    assert scores.tolist() == [10, 10]


def test_services_spread_over_the_nodes_that_are_feasible() -> None:
    snapshot = cluster()
    registry = Registry([ServiceSpreadingPriority])
    plugin = registry.create("ServiceSpreadingPriority", None, handle(snapshot))
    pod = PodInfo(make_pod("new", labels=WEB))
    assert plugin.score_nodes(CycleState(), pod, snapshot.nodes).tolist() == [0, 100]
    only = snapshot.nodes.slice(1, 2)
    assert plugin.score_nodes(CycleState(), pod, only).tolist() == [100]


@pytest.mark.parametrize(
    "annotation",
    ["{", "[]", "7", '{"preferAvoidPods": [{}]}', '{"preferAvoidPods": 5}', "[" * 100_000],
)
def test_a_malformed_annotation_avoids_no_pod(annotation: str) -> None:
    key = "scheduler.alpha.kubernetes.io/preferAvoidPods"
    nodes = snapshot_of([make_node("a", annotations={key: annotation})]).nodes
    pod, owner = make_pod(), OwnerReference(kind="ReplicaSet", uid="u", controller=True)
    pod = replace(pod, metadata=replace(pod.metadata, owner_references=(owner,)))
    scores = NodePreferAvoidPodsPriority().score_nodes(CycleState(), PodInfo(pod), nodes)
    assert scores.tolist() == [100]


def preferring(**term: object) -> PodInfo:
    preferred = [{"weight": 5, "preference": term}]
    node_affinity = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return PodInfo(make_pod(affinity={"nodeAffinity": node_affinity}))


def test_a_preferred_term_without_labels_counts_nothing_and_a_malformed_one_fails() -> None:
    plugin, nodes = NodeAffinityPriority(), cluster().nodes
    of_name = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    assert plugin.score_nodes(CycleState(), preferring(matchFields=of_name), nodes).tolist() == [
        0,
        0,
    ]
    of_zone = [{"key": "zone", "operator": "In", "values": ["2"]}]
    pod = preferring(matchExpressions=of_zone)
    assert plugin.score_nodes(CycleState(), pod, nodes).tolist() == [0, 5]
    malformed = preferring(matchExpressions=[{"key": "zone", "operator": "Near"}])
    with pytest.raises(ValueError, match='"Near"'):
        plugin.score_nodes(CycleState(), malformed, nodes)


def test_without_terms_or_images_all_nodes_are_alike() -> None:
    nodes, pod = cluster().nodes, PodInfo(make_pod(image="nowhere"))
    assert ImageLocalityPriority().score_nodes(CycleState(), pod, nodes).tolist() == [0, 0]
    zeros = np.zeros(2, dtype=np.int64)
    plugin = Registry([InterPodAffinityPriority]).create(
        "InterPodAffinityPriority",
        None,
        FakeHandle(cluster(), listers={"namespaces": FakeLister()}),
    )
    assert plugin.normalize_score(CycleState(), pod, zeros).tolist() == [0, 0]
