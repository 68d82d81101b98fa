"""Preemption over all what-if rows at once equals upstream's, node by node."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec.structs import replace

from scheduler.api import core
from scheduler.api.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from scheduler.cycle.schedule_pod import FirstInOrder, SchedulingAlgorithm
from scheduler.framework import CycleState, NominatingInfo, NominatingMode
from scheduler.framework.types import FitError
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.preemption import PREEMPTION
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, make_pod
from scheduler.testing.doubles import FakeLister
from tests.cycle.running import schedule_pod
from tests.properties.strategies import repeatable, snapshot, subset
from tests.reference import (
    default_preemption,
    inter_pod_affinity,
    node_ports,
    node_resources_fit,
    pod_topology_spread,
    taint_toleration,
)
from tests.reference.cluster import Cluster, Verdict
from tests.runtime.profiles import framework_of
from tests.thoroughness import examples

pytestmark = pytest.mark.slow

FILTERS = (TaintToleration, NodePorts, NodeResourcesFit, PodTopologySpread, InterPodAffinity)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

priorities = st.sampled_from((None, -5, 0, 1, 1, 2))
names = st.sampled_from(("default", "default", "default", "other"))
#: Few stages are worth looking at where taints, ports and affinity rule everything out.
_rarely = st.sampled_from((False, False, False, False, False, True))
apps = st.sampled_from(("web", "db"))


class Stage(NamedTuple):
    cluster: Cluster
    pod: core.Pod
    budgets: list[PodDisruptionBudget]
    nominated: dict[str, list[core.Pod]]
    wanted: int
    seed: int


@st.composite
def pods(draw: DrawFn, name: str, *, node_name: str = "", busy: bool = False) -> core.Pod:
    """A pod that may be near or far from others, spread, or hold a port; `busy` ones want much."""
    selector = {"matchLabels": {"app": draw(apps)}}
    term = {"topologyKey": draw(st.sampled_from(("zone", "host"))), "labelSelector": selector}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    kind = draw(st.sampled_from(("podAntiAffinity", "podAntiAffinity", "podAffinity")))
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    cpu = st.sampled_from(("500m", "1", "2") if busy else ("0", "500m", "1", "1", "2"))
    pod = make_pod(
        name,
        namespace=draw(names),
        node_name=node_name,
        priority=draw(st.sampled_from((1, 2, 3)) if busy else priorities),
        labels={"app": draw(apps), **draw(subset({"tier": ("front", "back")}))},
        requests={"cpu": draw(cpu)},
        host_ports=[80] if draw(_rarely) else (),
        affinity={kind: required} if draw(_rarely) else None,
        spread=[spread | {"labelSelector": selector}] if draw(_rarely) else (),
        tolerations=[{"key": "k", "operator": "Exists"}] if draw(st.booleans()) else (),
    )
    seconds = draw(st.sampled_from((None, 0, 0, 1, 2)))
    started = None if seconds is None else LONG_AGO + timedelta(seconds=seconds)
    return replace(pod, status=replace(pod.status, start_time=started))


@st.composite
def budgets(draw: DrawFn) -> PodDisruptionBudget:
    labels = st.sampled_from(({"app": "web"}, {"app": "db"}, {"tier": "front"}, {}))
    selectors = st.builds(core.LabelSelector, match_labels=labels)
    selector = draw(st.none() if draw(_rarely) else selectors)
    going = draw(st.lists(st.sampled_from(("p0", "p1", "p2")), max_size=1))
    return PodDisruptionBudget(
        metadata=core.ObjectMeta(name="budget", namespace=draw(names)),
        spec=PodDisruptionBudgetSpec(selector=selector),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=draw(st.integers(0, 2)),
            disrupted_pods=dict.fromkeys(going, LONG_AGO),
        ),
    )


@st.composite
def stages(draw: DrawFn) -> Stage:
    """Nodes that are nearly full of pods, and a pod that mostly fits on none of them."""
    nodes = [
        make_node(
            f"node-{i}",
            labels={"host": f"node-{i}", **draw(subset({"zone": ("1", "2")}))},
            allocatable={"cpu": "2", "pods": draw(st.sampled_from(("2", "9", "9")))},
            taints=[{"key": "k", "effect": "NoSchedule"}] if draw(_rarely) else (),
        )
        for i in range(draw(st.integers(1, 5)))
    ]
    there = st.sampled_from([node.metadata.name for node in nodes])
    count = draw(st.integers(2 * len(nodes), 3 * len(nodes)))
    running = [draw(pods(f"p{i}", node_name=draw(there))) for i in range(count)]
    nominated: dict[str, list[core.Pod]] = {}
    for i in range(draw(st.sampled_from((0, 0, 1, 2)))):
        nominated.setdefault(draw(there), []).append(draw(pods(f"n{i}")))
    return Stage(
        Cluster(tuple(nodes), tuple(running)),
        draw(pods("pod", busy=True)),
        draw(st.lists(budgets(), max_size=2)),
        nominated,
        draw(st.sampled_from((1, 2, 100))),
        draw(st.integers(0, 3)),
    )


def fits(stage: Stage) -> default_preemption.Fits:
    """Return all filters in order, without those that skip the pod in this cycle."""
    alone = inter_pod_affinity.skips_filter(stage.pod, stage.cluster, {})

    def judged(pod: core.Pod, node: core.Node, cluster: Cluster) -> Verdict | None:
        spread = pod_topology_spread.pre_filter(pod, cluster)
        return (
            taint_toleration.filter_node(pod, node, cluster)
            or node_ports.filter_node(pod, node, cluster)
            or node_resources_fit.filter_node(pod, node, cluster)
            or pod_topology_spread.filter_node(pod, node, spread)
            or (None if alone else inter_pod_affinity.filter_node(pod, node, cluster, {}))
        )

    return judged


class Listed:
    """A lister of budgets, of which two may have one name."""

    def __init__(self, objects: list[PodDisruptionBudget]) -> None:
        self._objects = objects

    def get(self, name: str, namespace: str = "") -> object | None:
        return None

    def list(self, namespace: str = "") -> list[PodDisruptionBudget]:
        return self._objects


class Ours:
    """The same cluster for our scheduler."""

    def __init__(self, stage: Stage) -> None:
        self.snapshot = snapshot(stage.cluster)
        listers = {
            "pods": FakeLister([stage.pod]),
            "poddisruptionbudgets": Listed(stage.budgets),
            "namespaces": FakeLister(),
            "services": FakeLister(),
            "replicationcontrollers": FakeLister(),
            "replicasets": FakeLister(),
            "statefulsets": FakeLister(),
        }
        self.handle = FakeHandle(self.snapshot, listers=listers, seed=stage.seed)
        for node_name, expected in stage.nominated.items():
            for pod in expected:
                self.handle.nominator.add_nominated_pod(
                    PodInfo(pod), NominatingInfo(node_name, NominatingMode.OVERRIDE)
                )
        self.framework = framework_of(*FILTERS, handle=self.handle)
        args = {"minCandidateNodesPercentage": 1, "minCandidateNodesAbsolute": stage.wanted}
        plugin = Registry([DefaultPreemption]).create("DefaultPreemption", args, self.handle)
        self.plugin = cast("DefaultPreemption", plugin)


def _run(work: object) -> object:
    try:
        work.send(None)  # type: ignore[attr-defined]
    except StopIteration as end:
        return end.value
    raise AssertionError("preemption waited")


@settings(repeatable, max_examples=examples(400))
@given(stages())
def test_preemption_agrees_with_the_reference(stage: Stage) -> None:
    ours = Ours(stage)
    pod, state = PodInfo(stage.pod), CycleState()
    algorithm = SchedulingAlgorithm(ours.snapshot, tie_break=FirstInOrder(), exhaustive=True)
    try:
        schedule_pod(algorithm, ours.framework, state, pod)
    except FitError as error:
        diagnosis = error.diagnosis
    else:
        return
    result, status = _run(ours.plugin.post_filter(state, pod, diagnosis.node_to_status))
    for work in ours.handle.spawned:
        work.close()

    now = ours.handle.now()
    rules = default_preemption.Rules(fits(stage), stage.budgets, stage.nominated, now)
    nodes = default_preemption.potential_nodes(stage.pod, stage.cluster, rules)
    assert [n.metadata.name for n in nodes] == [
        name
        for name, found in diagnosis.node_to_status.items()
        if str(found.code) == "Unschedulable"
    ]
    if not nodes:
        assert state.find(PREEMPTION) is None
        return
    start = random.Random(stage.seed).randrange(len(nodes))
    order, wanted = nodes[start:] + nodes[:start], min(stage.wanted, len(nodes))
    candidates, verdicts = default_preemption.find_candidates(
        stage.pod, stage.cluster, rules, order, wanted
    )
    found = state.find(PREEMPTION)
    if not candidates:
        assert found is None
        assert status is not None
        for _, reasons in verdicts.values():
            assert all(reason in status.message for reason in reasons)
        return
    assert found is not None
    assert [
        _told(c.name, c.victims.pods, c.victims.num_pdb_violations) for c in found.candidates
    ] == [_told(c.node, [PodInfo(p) for p in c.victims], c.violations) for c in candidates]
    best = default_preemption.best_of(candidates, now)
    assert found.choice.best.name == best[0].node
    assert result.nominating_info.nominated_node_name == best[0].node


def _told(node: str, victims: object, violations: int) -> tuple[str, list[str], int]:
    return node, [pod.name for pod in cast("list[PodInfo]", victims)], violations
