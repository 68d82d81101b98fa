"""PodTopologySpread over all nodes at once agrees with its reference on each node in turn."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from scheduler.api import core, workloads
from scheduler.api.core import Node, Pod
from scheduler.framework import CycleState
from scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from scheduler.testing.doubles import FakeLister
from tests.plugins.running import rejected, verdict_of
from tests.properties.strategies import repeatable
from tests.reference import pod_topology_spread as reference
from tests.reference.cluster import Cluster, Verdict
from tests.thoroughness import examples

pytestmark = pytest.mark.slow

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NOBODY = reference.Owners()
thorough = settings(repeatable, max_examples=examples(200))

LEAVING = datetime(2026, 1, 1, tzinfo=UTC)
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


def _expression(key: str, operator: str, *values: str) -> core.LabelSelectorRequirement:
    return core.LabelSelectorRequirement(key, operator, values)


#: Most pods are alike, most nodes have all labels, most constraints match pods that exist: where
#: hardly anything matches, no domain is fuller than another one.
WEB = {"app": "web", "tier": "a", "rev": "1"}
POD_LABELS = [WEB, WEB, WEB, {**WEB, "rev": "2"}, {**WEB, "tier": "b"}, {"app": "db"}, {}]
SELECTORS = [
    *[core.LabelSelector(match_labels={"app": "web"})] * 4,
    core.LabelSelector(match_labels={"tier": "a"}),
    core.LabelSelector(match_expressions=(_expression("app", "In", "web", "db"),)),
    core.LabelSelector({"app": "web"}, (_expression("tier", "NotIn", "b"),)),
    core.LabelSelector(match_expressions=(_expression("rev", "DoesNotExist"),)),
    core.LabelSelector(match_expressions=(_expression("rev", "Exists"),)),
    core.LabelSelector(),
    None,
]
MALFORMED = core.LabelSelector(match_expressions=(_expression("app", "Has"),))
POLICIES = (None, None, None, "Honor", "Ignore")
TAINT = core.Taint(key="gpu", effect="NoSchedule")
TAINTS = [(), (), (), (TAINT,), (core.Taint(key="gpu", effect="PreferNoSchedule"),)]
TOLERATIONS = [(), (), (core.Toleration(key="gpu", operator="Exists"),)]


def constraints(*actions: str) -> st.SearchStrategy[core.TopologySpreadConstraint]:
    return st.builds(
        core.TopologySpreadConstraint,
        max_skew=st.sampled_from((1, 1, 1, 2, 3)),
        topology_key=st.sampled_from((ZONE, ZONE, HOSTNAME, "rack")),
        when_unsatisfiable=st.sampled_from(actions),
        label_selector=st.sampled_from(SELECTORS),
        min_domains=st.sampled_from((None, None, None, 1, 2, 3, 4)),
        node_affinity_policy=st.sampled_from(POLICIES),
        node_taints_policy=st.sampled_from(POLICIES),
        match_label_keys=st.sampled_from(((), (), (), ("rev",), ("missing", "tier"))),
    )


def _required(*terms: core.NodeSelectorTerm) -> core.Affinity:
    selector = core.NodeSelector(node_selector_terms=terms)
    required = core.NodeAffinity(required_during_scheduling_ignored_during_execution=selector)
    return core.Affinity(node_affinity=required)


def _term(operator: str, *values: str) -> core.NodeSelectorTerm:
    requirement = core.NodeSelectorRequirement("disk", operator, values)
    return core.NodeSelectorTerm(match_expressions=(requirement,))


AFFINITIES = [
    *[None] * 4,
    _required(_term("In", "ssd")),
    _required(_term("DoesNotExist"), _term("Has")),
    _required(),
]


@st.composite
def nodes(draw: DrawFn, name: str) -> Node:
    """A node that may lack any label, its hostname too, and may have empty ones."""
    labels = {
        ZONE: draw(st.sampled_from(("a", "a", "b", "b", "c", "", None))),
        HOSTNAME: draw(st.sampled_from((*[name] * 6, "shared", None))),
        "rack": draw(st.sampled_from(("1", "1", "2", "", None))),
        "disk": draw(st.sampled_from(("ssd", "hdd", None))),
    }
    made = make_node(name, taints=draw(st.sampled_from(TAINTS)))
    present = {key: value for key, value in labels.items() if value is not None}
    metadata = msgspec.structs.replace(made.metadata, labels=present)
    return msgspec.structs.replace(made, metadata=metadata)


@st.composite
def pods(draw: DrawFn, name: str, node_name: str = "", *, may_leave: bool = True) -> Pod:
    leaving = may_leave and draw(st.sampled_from((False, False, False, False, True)))
    return make_pod(
        name,
        namespace=draw(st.sampled_from((*["default"] * 5, "other"))),
        labels=draw(st.sampled_from(POD_LABELS)),
        node_name=node_name,
        deletion_timestamp=LEAVING if leaving else None,
    )


@st.composite
def clusters(draw: DrawFn, *, may_leave: bool = True) -> Cluster:
    names = [f"node-{i}" for i in range(draw(st.integers(3, 6)))]
    places = draw(st.lists(st.sampled_from(names), min_size=3, max_size=12))
    running = [draw(pods(f"pod-{i}", place, may_leave=may_leave)) for i, place in enumerate(places)]
    return Cluster(tuple(draw(nodes(name)) for name in names), tuple(running))


@st.composite
def incoming_pods(draw: DrawFn, *actions: str) -> Pod:
    """The pod to be placed, with constraints of its own if actions are given."""
    own = st.lists(constraints(*actions), min_size=1, max_size=3) if actions else st.just([])
    return make_pod(
        "incoming",
        labels=draw(st.sampled_from(POD_LABELS)),
        node_selector=draw(st.sampled_from(({}, {}, {}, {"disk": "ssd"}))),
        affinity=draw(st.sampled_from(AFFINITIES)),
        tolerations=draw(st.sampled_from(TOLERATIONS)),
        spread=draw(own),
    )


def build(
    snapshot: Snapshot, args: object = None, owners: reference.Owners = NOBODY
) -> PodTopologySpread:
    listers = {
        "services": FakeLister(owners.services),
        "replicationcontrollers": FakeLister(owners.replication_controllers),
        "replicasets": FakeLister(owners.replica_sets),
        "statefulsets": FakeLister(owners.stateful_sets),
    }
    handle = FakeHandle(snapshot, listers=listers)
    plugin = Registry([PodTopologySpread]).create("PodTopologySpread", args, handle)
    assert isinstance(plugin, PodTopologySpread)
    return plugin


def snapshot(cluster: Cluster) -> Snapshot:
    return snapshot_of(cluster.nodes, cluster.pods)


def scores(plugin: PodTopologySpread, pod: Pod, names: list[str]) -> list[int] | None:
    """The normalised scores of some of the nodes, in the snapshot's order."""
    info, state, all_nodes = PodInfo(pod), CycleState(), plugin.handle.snapshot.nodes
    feasible = all_nodes.take(np.array([name in names for name in all_nodes.names]))
    if plugin.pre_score(state, info, feasible) is not None:
        return None
    raw = plugin.score_nodes(state, info, feasible)
    return plugin.normalize_score(state, info, raw).tolist()


def some_nodes(cluster: Cluster, data: st.DataObject) -> list[Node]:
    return [node for node in cluster.nodes if data.draw(st.booleans())] or [cluster.nodes[0]]


def expected_verdicts(pod: Pod, cluster: Cluster, state: reference.State) -> dict[str, Verdict]:
    found = {n.metadata.name: reference.filter_node(pod, n, state) for n in cluster.nodes}
    return {name: verdict for name, verdict in found.items() if verdict is not None}


@thorough
@given(clusters(), incoming_pods(HARD, HARD, HARD, SOFT))
def test_the_filter_agrees_with_the_reference(cluster: Cluster, pod: Pod) -> None:
    there = snapshot(cluster)
    expected = expected_verdicts(pod, cluster, reference.pre_filter(pod, cluster))
    assert rejected(build(there), pod, there) == expected


@thorough
@given(clusters(), incoming_pods(SOFT, SOFT, SOFT, HARD), st.data())
def test_scores_agree_with_the_reference(cluster: Cluster, pod: Pod, data: st.DataObject) -> None:
    feasible = some_nodes(cluster, data)
    expected = reference.scores(pod, feasible, cluster)
    plugin = build(snapshot(cluster))
    assert scores(plugin, pod, [node.metadata.name for node in feasible]) == expected


class Change(NamedTuple):
    """A change in the world of one node: a pod is added, or one of its pods removed."""

    row: int
    arriving: Pod | None
    leaving: str = ""


@st.composite
def changes_to(draw: DrawFn, cluster: Cluster, *, may_leave: bool) -> list[Change]:
    changes, gone = [], set()
    for index in range(draw(st.integers(1, 5))):
        row = draw(st.integers(0, len(cluster.nodes) - 1))
        node = cluster.nodes[row]
        leaving = [p for p in cluster.pods_on(node) if p.metadata.uid not in gone]
        if leaving and draw(st.booleans()):
            gone.add(leaving[0].metadata.uid)
            changes.append(Change(row, None, leaving[0].metadata.uid))
        else:
            guest = pods(f"guest-{index}", node.metadata.name, may_leave=may_leave)
            changes.append(Change(row, draw(guest)))
    return changes


def status_codes_after(
    plugin: PodTopologySpread, pod: Pod, cluster: Cluster, changes: list[Change]
) -> list[Verdict | None]:
    """The plugin's verdict on each node in its own world, in one dry run."""
    info, outer, there = PodInfo(pod), CycleState(), plugin.handle.snapshot
    if plugin.pre_filter(outer, info, there.nodes) is not None:
        return [None] * len(cluster.nodes)
    state, what_if = outer.clone(), WhatIf(there.nodes)
    for row, arriving, leaving in changes:
        if arriving is not None:
            added = PodInfo(arriving)
            what_if.add_pod(row, added)
            plugin.add_pod(state, info, added, what_if.node(row))
        else:
            removed = what_if.remove_pod(row, leaving)
            plugin.remove_pod(state, info, removed, what_if.node(row))
    answer = plugin.filter_nodes(state, info, what_if.nodes)
    rows = range(len(cluster.nodes))
    return [verdict_of(answer.status(row)) if answer else None for row in rows]


@thorough
@given(clusters(), incoming_pods(HARD), st.data())
def test_a_dry_run_changes_each_world_as_upstream_changes_its_copy(
    cluster: Cluster, pod: Pod, data: st.DataObject
) -> None:
    changes = data.draw(changes_to(cluster, may_leave=True))
    running = {p.metadata.uid: p for p in cluster.pods}
    expected = []
    for row, node in enumerate(cluster.nodes):
        state = reference.pre_filter(pod, cluster)
        for change in changes:
            if change.row == row and change.arriving is not None:
                reference.add_pod(state, pod, change.arriving, node)
            elif change.row == row:
                reference.remove_pod(state, pod, running[change.leaving], node)
        expected.append(reference.filter_node(pod, node, state))
    plugin = build(snapshot(cluster))
    assert status_codes_after(plugin, pod, cluster, changes) == expected


@thorough
@given(clusters(may_leave=False), incoming_pods(HARD), st.data())
def test_a_dry_run_equals_a_run_on_the_changed_cluster(
    cluster: Cluster, pod: Pod, data: st.DataObject
) -> None:
    # Upstream counts pods by an empty selector when they come or go, but not when they are there.
    empty = core.LabelSelector()
    own = [c for c in pod.spec.topology_spread_constraints if c.label_selector != empty]
    spec = msgspec.structs.replace(pod.spec, topology_spread_constraints=tuple(own))
    pod = msgspec.structs.replace(pod, spec=spec)
    changes = data.draw(changes_to(cluster, may_leave=False))
    expected = []
    for row, node in enumerate(cluster.nodes):
        mine = [change for change in changes if change.row == row]
        gone = {change.leaving for change in mine}
        arriving = tuple(change.arriving for change in mine if change.arriving is not None)
        left = tuple(p for p in cluster.pods if p.metadata.uid not in gone)
        changed = cluster._replace(pods=left + arriving)
        expected.append(reference.filter_node(pod, node, reference.pre_filter(pod, changed)))
    plugin = build(snapshot(cluster))
    assert status_codes_after(plugin, pod, cluster, changes) == expected


def named(name: str, namespace: str = "default") -> core.ObjectMeta:
    return core.ObjectMeta(name=name, namespace=namespace)


equality_specs = st.builds(
    workloads.EqualitySelectorSpec,
    selector=st.sampled_from(({"app": "web"}, {"app": "web"}, {"tier": "a"}, {"app": "db"}, {})),
)
selector_specs = st.builds(
    workloads.LabelSelectorSpec, selector=st.sampled_from((*SELECTORS, MALFORMED))
)
PLACES = [("a", "default"), ("b", "default"), ("a", "other")]


@st.composite
def owners(draw: DrawFn) -> reference.Owners:
    def some(kind: type, specs: st.SearchStrategy[object]) -> tuple[object, ...]:
        places = draw(st.lists(st.sampled_from(PLACES), min_size=1, unique=True))
        return tuple(kind(metadata=named(*place), spec=draw(specs)) for place in places)

    return reference.Owners(
        some(workloads.Service, equality_specs),
        some(workloads.ReplicationController, equality_specs),
        some(workloads.ReplicaSet, selector_specs),
        some(workloads.StatefulSet, selector_specs),
    )


OWNER_KINDS = [
    ("v1", "ReplicationController"),
    *[("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")] * 2,
    ("apps/v1beta1", "ReplicaSet"),
    ("batch/v1", "Job"),
]
owner_references = st.lists(
    st.builds(
        lambda kind, name, controller: core.OwnerReference(
            api_version=kind[0], kind=kind[1], name=name, controller=controller
        ),
        st.sampled_from(OWNER_KINDS),
        st.sampled_from("aaab"),
        st.sampled_from((True, True, False, None)),
    ),
    min_size=1,
    max_size=2,
).map(tuple)

SYSTEM = (
    core.TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    core.TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)
listed_constraints = st.lists(
    st.builds(
        core.TopologySpreadConstraint,
        max_skew=st.integers(1, 3),
        topology_key=st.sampled_from((ZONE, HOSTNAME, "rack")),
        when_unsatisfiable=st.sampled_from((HARD, SOFT)),
        min_domains=st.sampled_from((None, 2)),
        node_taints_policy=st.sampled_from(POLICIES),
    ),
    unique_by=lambda c: (c.topology_key, c.when_unsatisfiable),
    max_size=3,
).map(tuple)


@thorough
@given(clusters(), incoming_pods(), owner_references, owners(), st.data())
def test_constraints_of_the_profile(
    cluster: Cluster,
    pod: Pod,
    references: tuple[core.OwnerReference, ...],
    owners: reference.Owners,
    data: st.DataObject,
) -> None:
    metadata = msgspec.structs.replace(pod.metadata, owner_references=references)
    pod = msgspec.structs.replace(pod, metadata=metadata)
    listed = data.draw(st.none() | listed_constraints)
    defaults = reference.Defaults(SYSTEM if listed is None else listed, listed is None, owners)
    args = {"defaultingType": "System" if listed is None else "List"}
    if listed:
        args["defaultConstraints"] = msgspec.to_builtins(listed)
    there = snapshot(cluster)
    plugin = build(there, args, owners)
    expected = expected_verdicts(pod, cluster, reference.pre_filter(pod, cluster, defaults))
    assert rejected(plugin, pod, there) == expected
    feasible = some_nodes(cluster, data)
    names = [node.metadata.name for node in feasible]
    assert scores(plugin, pod, names) == reference.scores(pod, feasible, cluster, defaults)
