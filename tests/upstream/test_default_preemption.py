"""DefaultPreemption against upstream's own cases."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from scheduler.api.core import Pod
from scheduler.config import DEFAULT_FEATURE_GATES
from scheduler.framework import NodeInfo, PostFilterResult
from scheduler.framework.status import Code, Status, unschedulable
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.preemption import Candidate, VictimRules
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.dry_run import DryRun, dry_run_preemption
from scheduler.preemption.executor import ASYNC_PREEMPTION
from scheduler.preemption.importance import pick_one_node_for_preemption
from scheduler.reports.decision import result_of
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle
from tests.plugins.running import verdict_of
from tests.upstream.loading import Case, cases, verdict
from tests.upstream.preempting import Preempting, budget_of, pod_of


def _found(
    world: Preempting, pod: PodInfo, case: Case, offset: int, rules: VictimRules | None = None
) -> Sequence[Candidate]:
    """The candidates from a dry run that begins with a given node."""
    nodes = world.snapshot.nodes
    _, wanted = world.plugin.offset_and_num_candidates(len(nodes))
    dry_run = DryRun(
        world.handle,
        world.state_of(pod),
        pod,
        read_budgets=lambda: Budgets(budget_of(fields) for fields in case.get("budgets", ())),
        rules=rules or VictimRules(),
        now=world.handle.now(),
    )
    rolled = nodes.take(np.roll(np.arange(len(nodes)), -offset))
    candidates, _ = result_of(dry_run_preemption(dry_run, rolled, num_candidates=wanted))
    return candidates


def _victims(candidates: Sequence[Candidate]) -> dict[str, list[str]]:
    return {c.name: [pod.name for pod in c.victims.pods] for c in candidates}


def _nominated(result: PostFilterResult | None) -> str | None:
    """Return the nominated node; "" clears a nomination, None keeps it."""
    info = result.nominating_info if result is not None else None
    return None if info is None else info.nominated_node_name


@pytest.mark.parametrize("case", cases("default_preemption", "post_filter"))
async def test_post_filter(case: Case) -> None:
    pod = pod_of(case["preemptor"])
    world, info = Preempting(case, [pod]), PodInfo(pod)
    state, failed = world.state_of(info), world.failed(case["failed"])
    result, status = await world.plugin.post_filter(state, info, failed)
    assert _nominated(result) == case.get("nominated")
    code = Code.SUCCESS if status is None else status.code
    wanted = case.get("code", "Unschedulable" if case.get("message") else "Success")
    assert (str(code), status.message if status else None) == (wanted, case.get("message"))
    for work in world.handle.spawned:
        await work


@pytest.mark.parametrize("case", cases("default_preemption", "dry_run"))
def test_dry_run(case: Case) -> None:
    preemptors = [pod_of(fields) for fields in case["preemptors"]]
    world = Preempting(case, preemptors)
    for turn, pod in enumerate(preemptors):
        offset = case.get("offsets", [0])[turn]
        candidates = _found(world, PodInfo(pod), case, offset)
        victims = {name: sorted(names) for name, names in _victims(candidates).items()}
        assert victims == case["candidates"][turn]
        violations = {c.name: c.victims.num_pdb_violations for c in candidates}
        assert violations == case.get("violations", dict.fromkeys(violations, 0))


@pytest.mark.parametrize("case", cases("default_preemption", "best_candidate"))
def test_best_candidate(case: Case) -> None:
    pod = pod_of(case["preemptor"])
    world = Preempting(case, [pod])
    candidates = _found(world, PodInfo(pod), case, 0)
    choice = pick_one_node_for_preemption(candidates, world.handle.now())
    assert choice.best.name in case["best"]


def _only(rule: Mapping[str, Any]) -> Callable[[NodeInfo, PodInfo, PodInfo], bool]:
    def is_eligible_pod(node: NodeInfo, victim: PodInfo, preemptor: PodInfo) -> bool:
        if "labels" in rule:
            return rule["labels"].items() <= victim.labels.items()
        if "node" in rule:
            return bool(node.name == rule["node"])
        if "preemptor_from" in rule:
            return bool(preemptor.priority >= rule["preemptor_from"])
        return bool(victim.priority <= rule["victim_up_to"])

    return is_eligible_pod


@pytest.mark.parametrize("case", cases("default_preemption", "custom_selection"))
def test_custom_selection(case: Case) -> None:
    pod = pod_of(case["preemptor"])
    rules = VictimRules(is_eligible_pod=_only(case["only"]))
    found = _found(Preempting(case, [pod]), PodInfo(pod), case, 0, rules)
    assert _victims(found) == case["candidates"]


@pytest.mark.parametrize("case", cases("default_preemption", "custom_ordering"))
def test_custom_ordering(case: Case) -> None:
    def key(pod: PodInfo) -> Any:
        return pod.name if case["by"] == "name" else pod.pod.status.start_time

    pod = pod_of(case["preemptor"])
    rules = VictimRules(more_important_pod=lambda first, second: key(first) < key(second))
    found = _found(Preempting(case, [pod]), PodInfo(pod), case, 0, rules)
    assert _victims(found) == case["candidates"]


@pytest.mark.parametrize("case", cases("default_preemption", "eligibility"))
async def test_the_same_pods_may_preempt(case: Case) -> None:
    pod = pod_of(case["preemptor"])
    world, info = Preempting(case, [pod]), PodInfo(pod)
    failed = world.failed({"node1": case["status"]} if "status" in case.fields else {})
    _, status = await world.plugin.post_filter(world.state_of(info), info, failed)
    refused = status is not None and "not eligible" in status.message
    assert refused != case["eligible"]
    for work in world.handle.spawned:
        await work


@pytest.mark.parametrize("in_background", [True, False])
@pytest.mark.parametrize("case", cases("default_preemption", "preempt"))
async def test_preemption_finds_upstreams_node_and_victims(
    case: Case, *, in_background: bool
) -> None:
    pod = pod_of(case["preemptor"])
    world, info = Preempting(case, [pod]), PodInfo(pod)
    if not in_background:
        world.handle.feature_gates = DEFAULT_FEATURE_GATES - {ASYNC_PREEMPTION}
    state = world.state_of(info)
    result, status = await world.plugin.post_filter(state, info, world.failed())
    assert status is None or status.is_rejected
    assert bool(world.handle.spawned) == (in_background and bool(case["deleted"]))
    for work in world.handle.spawned:
        await work
    assert _nominated(result) == case.get("nominated")
    assert sorted(world.handle.api.deleted) == [f"default/{name}" for name in case["deleted"]]
    patched = [(patch.pod, patch.condition) for patch in world.handle.api.status_patches]
    assert sorted(pod for pod, _ in patched) == sorted(world.handle.api.deleted)
    for _, condition in patched:
        assert condition == (
            "DisruptionTarget",
            "True",
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod",
        )


@pytest.mark.parametrize("case", cases("default_preemption", "pre_enqueue"))
async def test_pre_enqueue(case: Case) -> None:
    pod = _member(case, "p", "group")
    cluster = Case(
        case.upstream,
        case.source,
        case.description,
        {
            **case.fields,
            "running": [{"name": "p1", "node": "node1"}],
            "cluster": {"node1": {"capacity": "one_pod"}},
        },
    )
    world, info = Preempting(cluster, [pod]), PodInfo(pod)
    if not case["async"]:
        world.handle.feature_gates = DEFAULT_FEATURE_GATES - {ASYNC_PREEMPTION}
    if case.get("gates"):

        async def schedule() -> Status | None:
            """Return None if the node is empty."""
            return unschedulable("need to preempt") if world.snapshot.get("node1").pods else None

        group = world.pod_groups[case["group"]]
        await world.plugin.pod_group_post_filter(group, [info], schedule, lambda: None)
    else:
        await world.plugin.post_filter(world.state_of(info), info, world.failed())
    asked = PodInfo(_member(case, case["asked"], "asked_group"))
    assert verdict_of(world.plugin.pre_enqueue(asked)) == verdict(case.get("status"))
    for work in world.handle.spawned:
        await work
    assert world.plugin.pre_enqueue(asked) is None


def _member(case: Case, name: str, field: str) -> Pod:
    group = {"group": case[field]} if field in case.fields else {}
    return pod_of({"name": name, "priority": 1000, **group})


def test_events_to_register_depend_on_the_gate() -> None:
    handle = FakeHandle()
    case = Case("", "", "", {"running": []})
    plugin = Preempting(case, []).plugin
    assert isinstance(plugin, DefaultPreemption)
    assert len(plugin.events_to_register()) == 1
    plugin.handle = handle
    handle.feature_gates = frozenset()
    assert plugin.events_to_register() == []
