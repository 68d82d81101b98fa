"""The plugins of pod groups against upstream's own cases."""

import asyncio
from typing import Any

import pytest

from scheduler.api.core import Pod
from scheduler.api.pod_groups import PodGroup
from scheduler.api.workloads import PodDisruptionBudget
from scheduler.cache import Cache
from scheduler.config import DEFAULT_FEATURE_GATES
from scheduler.framework import Code, CycleState, EventResource, Status, unschedulable
from scheduler.framework.types import Placement, PodGroupAssignments, PodGroupInfo
from scheduler.plugins.gang_scheduling import GangScheduling
from scheduler.plugins.pod_group_pods_count import PodGroupPodsCount
from scheduler.plugins.topology_placement import TopologyPlacementGenerator
from scheduler.preemption import Executor, PodGroupEvaluator
from scheduler.preemption.executor import ASYNC_PREEMPTION
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.snapshot.pod_group_state import PodGroupState
from scheduler.testing import FakeHandle, snapshot_of
from scheduler.testing.doubles import FakeLister
from tests.plugins.running import verdict_of
from tests.upstream.loading import Case, api_object, cases, node, pod, verdict
from tests.upstream.running import hint, plugin_of

GROUPS = {
    "pg1": {"gang": {"minCount": 3}},
    "pg2": {"gang": {"minCount": 4}},
    "pg3": {"basic": {}},
}
GROUP_OF = {"p1": "pg1", "p2": "pg1", "p3": "pg1", "p4": "pg2", "p5": "pg2", "basic": "pg3"}


def _pod_group(name: str, **spec: object) -> PodGroup:
    return api_object(PodGroup, {"metadata": {"name": name, "namespace": "ns1"}, "spec": spec})


def _member(name: str, group: str = "", node_name: str = "") -> Pod:
    spec: dict[str, Any] = {"nodeName": node_name}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return pod({"metadata": {"name": name, "namespace": "ns1"}, "spec": spec})


@pytest.mark.parametrize(
    "case", [*cases("pod_groups", "hints"), *cases("pod_groups", "same_group")]
)
def test_the_hint_of_an_event_is_upstreams(case: Case) -> None:
    plugin = plugin_of(GangScheduling, Case("", "", "", {"nodes": []}))
    assert hint(plugin, case, EventResource(case["kind"])) == case["hint"]


@pytest.mark.parametrize("case", cases("pod_groups", "flow"))
async def test_a_gang_passes_its_gates_as_upstreams(case: Case) -> None:
    """TestGangSchedulingFlow."""
    cache, snapshot = Cache(generic_workload=True), Snapshot()
    groups = [_pod_group(name, schedulingPolicy=GROUPS[name]) for name in case["groups"]]
    handle = FakeHandle(snapshot, listers={PodGroup: FakeLister(groups)})
    make_handle = handle.with_parts(pod_group=cache.pod_group)
    plugin = Registry([GangScheduling]).create(
        "GangScheduling", None, make_handle("default-scheduler", handle)
    )
    pods = {
        name: PodInfo(_member(name, GROUP_OF.get(name, "")))
        for name in [*case.get("pods", []), case["pod"]]
    }
    for info in pods.values():
        cache.set_pod_group_member(info)
    assert verdict_of(plugin.pre_enqueue(pods[case["pod"]])) == verdict(case.get("pre_enqueue"))
    if case.get("pre_enqueue"):
        return
    for name in case.get("waiting", []):
        assumed = pods[name].assigned_to("some-node")
        cache.assume_pod(assumed)
        handle.waiting_pods.add(assumed, {plugin.name: 300.0})
        if name not in case.get("allowed", []):
            status = plugin.permit(CycleState(), assumed, "some-node")
            assert status is not None
            assert status.is_wait
    handle.activated.clear()
    state, info = CycleState(), pods[case["pod"]].assigned_to("some-node")
    if case.get("in_group_cycle"):
        state.pod_group_state = CycleState()
        members = cache.pod_group(info.pod_group_key)
        assert members is not None
        snapshot.pod_groups[info.pod_group_key] = members.copy()
        snapshot.pod_groups[info.pod_group_key].assume_pod(info)
    else:
        cache.assume_pod(info)
    assert verdict_of(plugin.permit(state, info, "some-node")) == verdict(case.get("permit"))
    assert sorted(info.name for info in handle.activated.values()) == case.get("activated", [])
    for name in set(case.get("allowed", [])) & set(case.get("waiting", [])):
        await asyncio.wait_for(handle.waiting_pods.wait_on_permit(pods[name].uid), 1)


@pytest.mark.parametrize("case", cases("pod_groups", "score_placement"))
def test_score_placement(case: Case) -> None:
    members = PodGroupState()
    for number in range(case["assigned"]):
        members.set_pod(PodInfo(_member(f"assigned-{number}", "pg1", f"node{number}")))
    for number in range(case["assumed"]):
        info = PodInfo(_member(f"assumed-{number}", "pg1"))
        members.set_pod(info)
        members.assume_pod(info.assigned_to("node1"))
    proposed = [PodInfo(_member(f"proposed-{number}", "pg1")) for number in range(2)]
    for info in proposed:
        members.set_pod(info)
    snapshot = Snapshot()
    snapshot.pod_groups["ns1/pg1"] = members
    plugin = _made(PodGroupPodsCount, FakeHandle(snapshot))
    assignments = PodGroupAssignments(
        Placement("", snapshot.nodes), [(info, "node1") for info in proposed]
    )
    found = plugin.score_placement(CycleState(), PodGroupInfo("ns1", "pg1"), assignments)
    assert found == case["score"]


@pytest.mark.parametrize("case", cases("pod_groups", "normalize"))
def test_normalized_scores_are_upstreams(case: Case) -> None:
    plugin = _made(PodGroupPodsCount, FakeHandle())
    group = PodGroupInfo("ns1", "pg1")
    if "raises" in case.fields:
        with pytest.raises(ValueError, match=case["raises"]):
            plugin.normalize_placement_score(CycleState(), group, case["scores"])
    else:
        found = plugin.normalize_placement_score(CycleState(), group, case["scores"])
        assert found == case["normalized"]


@pytest.mark.parametrize("case", cases("pod_groups", "placements"))
def test_placements_are_upstreams(case: Case) -> None:
    labels = {**case["nodes"], **case.get("others", {})}
    nodes = [node({"metadata": {"name": n, "labels": of}}) for n, of in labels.items()]
    snapshot = snapshot_of(nodes, [])
    members = PodGroupState()
    members.set_pod(PodInfo(_member("unscheduled", "pg1")))
    for name, node_name in case.get("scheduled", {}).items():
        members.set_pod(PodInfo(_member(name, "pg1", node_name)))
    snapshot.pod_groups["ns1/pg1"] = members
    constraints = {"topology": [{"key": case["key"]}]} if "key" in case.fields else None
    pod_group = _pod_group("pg1", schedulingConstraints=constraints)
    handle = FakeHandle(snapshot, listers={PodGroup: FakeLister([pod_group])})
    plugin = _made(TopologyPlacementGenerator, handle)
    parent = Placement(
        "test-placement",
        snapshot.nodes.take(snapshot.nodes.row_array[: len(case["nodes"])]),
    )
    group = PodGroupInfo("ns1", "pg1")
    if case.get("raises"):
        with pytest.raises(LookupError):
            plugin.generate_placements(CycleState(), group, parent)
        return
    placements = plugin.generate_placements(CycleState(), group, parent)
    assert isinstance(placements, list)
    assert {p.name: p.nodes.names for p in placements} == case["placements"]


def _made(plugin_class: type[Any], handle: FakeHandle) -> Any:
    return Registry([plugin_class]).create(plugin_class.name, None, handle)


@pytest.mark.parametrize(
    "case", [*cases("pod_groups", "victims"), *cases("pod_groups", "importance")]
)
async def test_the_victims_of_a_group_are_upstreams(case: Case) -> None:
    handle = _cluster(case, case["nodes"])
    snapshot = handle.snapshot
    members = [PodInfo(_victim(of)) for of in case["preemptors"]]

    async def schedule() -> Status | None:
        """Return None if the rules leave room for all members."""
        room = 0
        for rule in case["rules"]:
            on_node = {info.name for info in snapshot.get(rule["node"]).pods}
            room += 0 if on_node & set(rule["blocked_by"]) else rule["capacity"]
        return None if room >= len(members) else unschedulable()

    evaluator = PodGroupEvaluator(handle, Executor("test", handle))
    status = await evaluator.preempt(_preemptor(case["priority"]), members, schedule, lambda: None)
    assert str(Code.SUCCESS if status is None else status.code) == case.get("status", "Success")
    deleted = sorted(key.rpartition("/")[2] for key in handle.api.deleted)
    assert deleted == sorted(case["victims"])


@pytest.mark.parametrize("case", cases("pod_groups", "units"))
async def test_a_group_spares_the_units_it_can(case: Case) -> None:
    """A group of higher priority tries to do without each unit, and without none of its own."""

    async def schedule() -> Status | None:
        return None

    async def tried(priority: int) -> set[frozenset[str]]:
        handle = _cluster(case, ["node1", "node2"])
        evaluator = PodGroupEvaluator(handle, Executor("test", handle))
        members = [PodInfo(_victim({"name": "p"}))]
        with handle.snapshot.unchanged_pods():
            await evaluator.preempt(_preemptor(priority), members, schedule, lambda: None)
        return {frozenset(key.rpartition("/")[2] for key in keys) for keys, _ in evaluator.tried}

    units = {frozenset(unit["pods"]): unit["priority"] for unit in case["units"]}
    assert await tried(1000) == units.keys()
    for unit, priority in units.items():
        assert unit in await tried(priority + 1)
        assert unit not in await tried(priority)


def _preemptor(priority: int) -> PodGroup:
    return api_object(PodGroup, {"metadata": {"name": "preemptor"}, "spec": {"priority": priority}})


def _cluster(case: Case, names: list[str]) -> FakeHandle:
    nodes = [node({"metadata": {"name": name}}) for name in names]
    groups = [
        api_object(
            PodGroup,
            {
                "metadata": {"name": of["name"], "uid": of["name"]},
                "spec": {"disruptionMode": of["mode"], "priority": of.get("priority")},
            },
        )
        for of in case.get("groups", [])
    ]
    budgets = [api_object(PodDisruptionBudget, value) for value in case.get("budgets", [])]
    return FakeHandle(
        snapshot_of(nodes, [_victim(of) for of in case["pods"] or []]),
        listers={PodGroup: FakeLister(groups), PodDisruptionBudget: FakeLister(budgets)},
        feature_gates=DEFAULT_FEATURE_GATES - {ASYNC_PREEMPTION},
    )


def _victim(of: dict[str, Any]) -> Pod:
    spec: dict[str, Any] = {"nodeName": of.get("node", ""), "priority": of.get("priority")}
    if "group" in of:
        spec["schedulingGroup"] = {"podGroupName": of["group"]}
    if of.get("never"):
        spec["preemptionPolicy"] = "Never"
    status = {}
    if "started" in of:
        status["startTime"] = f"1970-01-01T00:00:0{of['started']}Z"
    labels = {"app": of["app"]} if "app" in of else {}
    return pod({"metadata": {"name": of["name"], "labels": labels}, "spec": spec, "status": status})
