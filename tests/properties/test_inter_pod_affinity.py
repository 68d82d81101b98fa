"""InterPodAffinity agrees with the reference: verdicts, scores, and verdicts in dry runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from scheduler.api import core
from scheduler.framework import CycleState, Rejections, Status
from scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from scheduler.runtime.registry import Registry
from scheduler.snapshot import Nodes, PodInfo
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing import FakeHandle, make_node, make_pod
from scheduler.testing.doubles import FakeLister
from tests.plugins.running import Verdict, rejected, scores, verdict_of
from tests.properties.strategies import repeatable, snapshot, subset
from tests.reference import inter_pod_affinity as reference
from tests.reference.cluster import Cluster

pytestmark = pytest.mark.slow

KEYS = ("host", "zone", "rack")
NAMESPACES = {"a": {"team": "x"}, "b": {"team": "y", "env": "z"}, "c": {}}

#: The last one is not there.
namespace_names = st.sampled_from((*NAMESPACES, "d"))
pod_labels = subset({"app": ("web", "db"), "tier": ("front", "back")})


def selectors(labels: Mapping[str, tuple[str, ...]]) -> st.SearchStrategy[core.LabelSelector]:
    """Selectors over these labels; some select everything, some nothing, some by absence."""
    expressions = st.one_of(
        *(
            st.builds(
                core.LabelSelectorRequirement,
                key=st.just(key),
                operator=st.sampled_from(("In", "NotIn")),
                values=st.sampled_from([(value,) for value in values] + [values]),
            )
            for key, values in labels.items()
        ),
        st.builds(
            core.LabelSelectorRequirement,
            key=st.sampled_from(list(labels)),
            operator=st.sampled_from(("Exists", "DoesNotExist")),
        ),
    )
    return st.builds(
        core.LabelSelector,
        match_labels=subset(labels),
        match_expressions=st.lists(expressions, max_size=1).map(tuple),
    )


terms = st.builds(
    core.PodAffinityTerm,
    label_selector=st.none() | selectors({"app": ("web", "db"), "tier": ("front",)}),
    topology_key=st.sampled_from(KEYS),
    namespaces=st.lists(namespace_names, max_size=2).map(tuple),
    namespace_selector=st.none() | selectors({"team": ("x", "y"), "env": ("z",)}),
)
weighted_terms = st.builds(
    core.WeightedPodAffinityTerm, weight=st.sampled_from((1, 7, 100)), pod_affinity_term=terms
)
halves = st.none() | st.builds(
    core.PodAffinity,
    required_during_scheduling_ignored_during_execution=st.lists(terms, max_size=2).map(tuple),
    preferred_during_scheduling_ignored_during_execution=st.lists(weighted_terms, max_size=2).map(
        tuple
    ),
)
affinities = st.none() | st.builds(core.Affinity, pod_affinity=halves, pod_anti_affinity=halves)


@st.composite
def pods(draw: DrawFn, name: str = "pod", *, node_name: str = "") -> core.Pod:
    return make_pod(
        name,
        namespace=draw(namespace_names),
        labels=draw(pod_labels),
        affinity=draw(affinities),
        node_name=node_name,
    )


@st.composite
def clusters(draw: DrawFn) -> Cluster:
    count = draw(st.integers(1, 5))
    nodes = [
        make_node(
            f"node-{i}",
            labels={
                **draw(st.sampled_from(({}, {"host": f"node-{i}"}))),
                **draw(subset({"zone": ("1", "2"), "rack": ("1", "2")})),
            },
        )
        for i in range(count)
    ]
    names = draw(st.lists(st.sampled_from(nodes), max_size=5))
    running = [
        draw(pods(f"running-{i}", node_name=node.metadata.name)) for i, node in enumerate(names)
    ]
    return Cluster(tuple(nodes), tuple(running))


def plugin_in(
    cluster: Cluster, args: Mapping[str, object] | None = None
) -> tuple[InterPodAffinity, FakeHandle]:
    namespaces = [
        core.Namespace(metadata=core.ObjectMeta(name=name, labels=labels))
        for name, labels in NAMESPACES.items()
    ]
    handle = FakeHandle(snapshot(cluster), listers={"namespaces": FakeLister(namespaces)})
    plugin = Registry([InterPodAffinity]).create("InterPodAffinity", dict(args or {}), handle)
    return cast("InterPodAffinity", plugin), handle


def expected_in(cluster: Cluster, pod: core.Pod, node: core.Node) -> Verdict | None:
    return reference.filter_node(pod, node, cluster, NAMESPACES)


@repeatable
@given(clusters(), pods(), st.data())
def test_the_filter_agrees_with_the_reference(
    cluster: Cluster, pod: core.Pod, data: st.DataObject
) -> None:
    plugin, handle = plugin_in(cluster)
    names = [node.metadata.name for node in cluster.nodes]
    view = data.draw(st.sets(st.sampled_from(names), min_size=1))
    verdicts = {
        node.metadata.name: expected_in(cluster, pod, node)
        for node in cluster.nodes
        if node.metadata.name in view
    }
    expected = {name: verdict for name, verdict in verdicts.items() if verdict}
    assert rejected(plugin, pod, handle.snapshot, only=view) == expected
    status = plugin.pre_filter(CycleState(), PodInfo(pod), handle.snapshot.nodes)
    assert (status is not None) == reference.skips_filter(pod, cluster, NAMESPACES)


@repeatable
@given(clusters(), pods(), st.sampled_from((0, 1, 50)), st.booleans())
def test_scores_agree_with_the_reference(
    cluster: Cluster, pod: core.Pod, hard_weight: int, ignores: bool
) -> None:
    args = {
        "hardPodAffinityWeight": hard_weight,
        "ignorePreferredTermsOfExistingPods": ignores,
    }
    plugin, handle = plugin_in(cluster, args)
    raw = [reference.score(pod, node, cluster, NAMESPACES, hard_weight) for node in cluster.nodes]
    expected = reference.normalize(raw)
    if reference.skips_score(pod, ignore_preferred_terms_of_existing_pods=ignores):
        expected = [0] * len(raw)
    found = scores(plugin, pod, handle.snapshot)
    assert (list(found.values()) or [0] * len(raw)) == expected


@repeatable
@given(clusters(), pods(), st.data())
def test_filter_in_worlds_in_which_one_node_has_changed(
    cluster: Cluster, pod: core.Pod, data: st.DataObject
) -> None:
    plugin, handle = plugin_in(cluster)
    info, state, nodes = PodInfo(pod), CycleState(), handle.snapshot.nodes
    status = plugin.pre_filter(state, info, nodes)
    if isinstance(status, Status):
        return
    before = plugin.filter_nodes(state, info, nodes)
    dry_run, what_if = state.clone(), WhatIf(nodes)
    worlds: list[Cluster] = []
    for row, node in enumerate(cluster.nodes):
        name = node.metadata.name
        there = cluster.pods_on(node)
        gone = data.draw(st.lists(st.sampled_from(there), unique_by=id)) if there else []
        come = data.draw(st.lists(pods(f"come-{row}", node_name=name), max_size=1))
        for other in gone:
            removed = what_if.remove_pod(row, other.metadata.uid)
            plugin.remove_pod(dry_run, info, removed, what_if.node(row))
        for other in come:
            added = PodInfo(other)
            what_if.add_pod(row, added)
            plugin.add_pod(dry_run, info, added, what_if.node(row))
        left = [p for p in cluster.pods if p not in gone]
        worlds.append(Cluster(cluster.nodes, (*left, *come)))
    expected = [
        expected_in(world, pod, node) for world, node in zip(worlds, cluster.nodes, strict=True)
    ]
    some = data.draw(st.permutations(range(len(nodes))))
    view = what_if.nodes.take(np.array(sorted(some[: len(some) // 2 + 1])))
    found = plugin.filter_nodes(dry_run, info, view)
    assert _verdicts(found, view) == [expected[row] for row in view.rows]
    assert _verdicts(plugin.filter_nodes(state, info, nodes), nodes) == _verdicts(before, nodes)


def _verdicts(found: Rejections | None, nodes: Nodes) -> list[Verdict | None]:
    return [
        verdict_of(found.status(index)) if found is not None else None
        for index in range(len(nodes))
    ]
