"""The preemption engine against upstream's own cases."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.api.core import ObjectMeta, Pod, PodCondition
from scheduler.api.pod_groups import PodGroup
from scheduler.api_calls import PodStatusPatchCall
from scheduler.config import DEFAULT_FEATURE_GATES
from scheduler.framework import NominatingInfo, NominatingMode
from scheduler.framework.extender import Victims
from scheduler.framework.status import Code
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.preemption import Candidate, Executor
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.executor import ASYNC_PREEMPTION, Preemptor
from scheduler.preemption.importance import pick_one_node_for_preemption
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_pod
from scheduler.testing.doubles import FakeLister
from scheduler.testing.fake_api import FakeApi
from tests.upstream.loading import Case, cases
from tests.upstream.preempting import Preempting, budget_of, pod_of

PREEMPTOR = PodInfo(make_pod("preemptor", priority=1000))
TOLD = PodCondition(
    "DisruptionTarget",
    "True",
    reason="PreemptionByScheduler",
    message="default-scheduler: preempting to accommodate a higher priority pod",
)


def _preemptor(members: Sequence[PodInfo] = ()) -> Preemptor:
    """The pod that preempts, or a pod group of these members."""
    if not members:
        return Preemptor.from_pod(PREEMPTOR)
    group = PodGroup(metadata=ObjectMeta(name="pg1", namespace="default", uid="pg1"))
    return Preemptor.from_pod_group(group, members)


def _executor(handle: FakeHandle, *, in_background: bool) -> Executor:
    if not in_background:
        handle.feature_gates = DEFAULT_FEATURE_GATES - {ASYNC_PREEMPTION}
    return Executor("test-plugin", handle)


def _candidate(pods: Sequence[Pod]) -> Candidate:
    return Candidate("node1", Victims([PodInfo(pod) for pod in pods], 0))


@pytest.mark.parametrize("case", cases("preemption", "running"))
def test_is_pod_running_preemption(case: Case) -> None:
    known = [pod_of({"namespace": "ns", **fields}) for fields in case.get("known", ())]
    executor = Executor("test-plugin", FakeHandle(listers={"pods": FakeLister(known)}))
    if case.get("preempting"):
        executor._preempting.add("preemptor")
    if "last" in case.fields:
        of = case.get("of", "preemptor")
        executor._last_victims[of] = make_pod(case["last"], namespace="ns")
    assert executor.is_running_preemption("preemptor") == case["running"]


class _Writes(FakeApi):
    """Fails by the fields of the victims' short forms; an empty patch is not recorded."""

    def __init__(self, victims: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        self._fields = {f"default/{fields['name']}": fields for fields in victims}
        self.patched: list[str] = []

    async def patch_pod_status(self, pod: Pod, **changes: Any) -> bool:
        if PodStatusPatchCall(pod, **changes).is_no_op:
            return True
        if self._fields[pod.key].get("patch_fails"):
            raise ValueError("patch pod status failed")
        self.patched.append(pod.key)
        return not self._fields[pod.key].get("gone")

    async def delete_pod(self, pod: Pod) -> bool:
        if self._fields[pod.key].get("deletion_fails"):
            raise ValueError("delete pod failed")
        self.deleted.append(pod.key)
        return not self._fields[pod.key].get("gone")


@pytest.mark.parametrize("in_background", [True, False])
@pytest.mark.parametrize("case", cases("preemption", "prepare_candidate"))
async def test_prepare_candidate(case: Case, *, in_background: bool) -> None:
    handle = FakeHandle(listers={"pods": FakeLister()})
    writes = handle.api = _Writes(case["victims"])
    executor = _executor(handle, in_background=in_background)
    pods = [
        make_pod(f["name"], deletion_timestamp=pod_of(f).metadata.deletion_timestamp)
        if not f.get("has_condition")
        else _with_condition(make_pod(f["name"]), "podgroup" if case.get("group") else "pod")
        for f in case["victims"]
    ]
    preemptor = _preemptor([PREEMPTOR] if case.get("group") else ())
    status = await executor.actuate(_candidate(pods), preemptor)
    under_way = executor.is_running_preemption(preemptor.uid)
    assert under_way == (in_background and any(not f.get("terminating") for f in case["victims"]))
    for work in handle.spawned:
        await work
    assert not executor.is_running_preemption(preemptor.uid)
    if in_background:
        assert status is None
        assert bool(handle.activated) == bool(case.get("activated"))
    else:
        assert (status.message if status else None) == case.get("message")
        assert status is None or status.code == Code.ERROR
    allowed = [f"default/{name}" for name in case.get("may_delete", case.get("deleted", ()))]
    assert handle.api.deleted == allowed or ("may_delete" in case.fields and not handle.api.deleted)
    if "patched" in case.fields:
        assert writes.patched == [f"default/{name}" for name in case["patched"]]


def _with_condition(pod: Pod, preemptor: str) -> Pod:
    told = replace(TOLD, message=f"{TOLD.message.removesuffix('pod')}{preemptor}")
    return replace(pod, status=replace(pod.status, conditions=(told,)))


class _Watched(FakeApi):
    """Records the executor's last victim at each deletion."""

    executor: Executor
    preemptor: Preemptor

    def __init__(self) -> None:
        super().__init__()
        self.last: list[str] = []
        self.tried: list[str] = []

    async def delete_pod(self, pod: Pod) -> bool:
        name = pod.metadata.name
        self.tried.append(name)
        last = self.executor._last_victims.get(self.preemptor.uid)
        if last is not None:
            self.last.append(last.metadata.name)
        if name.startswith("fail-victim"):
            raise ValueError("delete pod failed")
        self.deleted.append(name)
        return True


@pytest.mark.parametrize("case", cases("preemption", "background"))
async def test_victims_are_deleted_in_the_background_as_upstream_deletes_them(case: Case) -> None:
    handle = FakeHandle(listers={"pods": FakeLister()})
    watched = handle.api = _Watched()
    executor = watched.executor = _executor(handle, in_background=True)
    pods = [make_pod(name) for name in case["victims"]]
    members = [PodInfo(make_pod(name, priority=1000)) for name in case.get("group", ())]
    watched.preemptor = _preemptor(members)
    await executor.actuate(_candidate(pods), watched.preemptor)
    for work in handle.spawned:
        await work
    assert watched.last == ([case["last"]] if case["last"] else [])
    if case["last"]:
        assert watched.tried[-1] == case["last"]
    assert not executor._preempting
    assert not executor._last_victims
    succeeds = case.get("succeeds", True)
    tried_again = [] if succeeds else [info.key for info in members or [PREEMPTOR]]
    assert sorted(handle.activated) == tried_again
    if pods:
        assert (case["victims"][-1] in handle.api.deleted) == succeeds


@pytest.mark.parametrize("case", cases("preemption", "nominations"))
async def test_lower_nominations_are_cleared_as_upstreams(case: Case) -> None:
    handle = FakeHandle(listers={"pods": FakeLister()})
    lower = make_pod("foo", priority=1, nominated_node_name=case["nominated"])
    handle.nominator.add_nominated_pod(
        PodInfo(lower), NominatingInfo("node1", NominatingMode.OVERRIDE)
    )
    await _executor(handle, in_background=False).actuate(
        _candidate([]), Preemptor.from_pod(PREEMPTOR)
    )
    patches = [
        PodStatusPatchCall(lower, p.condition, p[2]).patch("") for p in handle.api.status_patches
    ]
    assert patches == ([case["patch"]] if case["patch"] else [])


@pytest.mark.parametrize("case", cases("preemption", "preempt_pod"))
async def test_preempt_pod(case: Case) -> None:
    handle, pod = FakeHandle(listers={"pods": FakeLister()}), make_pod("v")
    uid, outcome = pod.metadata.uid, None
    if case["victim_is"] == "in PreBind":
        work = asyncio.sleep(10, result=None)
        outcome = asyncio.ensure_future(handle.pods_in_pre_bind.run(uid, work))
    if case["victim_is"] == "at Permit":
        handle.waiting_pods.add(PodInfo(pod), {"Holder": 10})
        outcome = asyncio.ensure_future(handle.waiting_pods.wait_on_permit(uid))
    await asyncio.sleep(0)
    status = await _executor(handle, in_background=False).actuate(
        _candidate([pod]), Preemptor.from_pod(PREEMPTOR)
    )
    assert status is None
    writes = ["patch"] * len(handle.api.status_patches) + ["delete"] * len(handle.api.deleted)
    assert writes == case["writes"]
    said = {
        "in PreBind": ("", "preempted by test-plugin"),
        "at Permit": ("test-plugin", "waiting on permit for pod: preempted"),
    }
    failed = None if outcome is None else await outcome
    found = None if failed is None else (failed.plugin, failed.message)
    assert found == said.get(case["victim_is"])
    (event,) = handle.event_recorder.recorded
    in_memory = "" if case["writes"] else " (in kube-scheduler memory)."
    assert event.note == f"Preempted by pod {PREEMPTOR.uid} on node node1{in_memory}"


@pytest.mark.parametrize("case", cases("preemption", "extenders"))
async def test_extenders_are_used_as_upstreams(case: Case) -> None:
    running = [{"name": f"on-{name}", "node": name, "size": "large"} for name in case["candidates"]]
    pod = pod_of({"priority": 1000, "size": "large"})
    fields = {"running": running, "extenders": case["extenders"], "nodes": ["node1"]}
    world = Preempting(Case(case.upstream, case.source, case.description, fields), [pod])
    info = PodInfo(pod)
    state = world.state_of(info)
    result, status = await world.plugin.post_filter(state, info, world.failed())
    for work in world.handle.spawned:
        await work
    if "error" in case.fields:
        assert status is not None
        assert (status.code, status.message) == (Code.ERROR, f"preemption: {case['error']}")
        return
    named = result.nominating_info.nominated_node_name if result and result.nominating_info else ""
    assert [named] == (case["left"] or [""])
    if case["candidates"] and not case["left"]:
        assert status is not None
        assert status.message == "preemption: no candidate node for preemption"


@pytest.mark.parametrize("case", cases("preemption", "budgets"))
def test_victims_that_violate_budgets_are_upstreams(case: Case) -> None:
    pods = [PodInfo(pod_of(fields)) for fields in case["pods"]]
    budgets = Budgets(budget_of(f) for f in case["budgets"])
    units = [pods] if case.get("as_one") else [[pod] for pod in pods]
    violations = [*budgets.violations(units)]
    for_units = tuple(
        [u for u, violates in zip(units, violations, strict=True) if violates is wanted]
        for wanted in (True, False)
    )
    violating, others = ([pod for unit in found for pod in unit] for found in for_units)
    if not case.get("as_one"):
        found = budgets.violating(pods, np.zeros(len(pods), dtype=np.int64))
        assert [pod in violating for pod in pods] == found.tolist()
    assert [pod.name for pod in violating] == case["violating"]
    assert sorted(p.name for p in violating + others) == sorted(p.name for p in pods)


class FewestContainers(DefaultPreemption):
    def ordered_score_funcs(self, candidates: Sequence[Candidate]) -> list[Any]:
        return [lambda c: -sum(len(pod.spec.containers) for pod in c.victims.pods)]


@pytest.mark.parametrize("case", cases("preemption", "select_candidate"))
async def test_select_candidate(case: Case) -> None:
    candidates = []
    for name, count in case["containers"].items():
        containers = [{"name": f"c{n}", "image": "i"} for n in range(count)]
        pod = PodInfo(make_pod(f"on-{name}", priority=100, containers=containers))
        candidates.append(Candidate(name, Victims([pod], 1)))
    pod = pod_of({"priority": 1000})
    world = Preempting(Case("", "", "", {"running": []}), [pod], plugin=FewestContainers)
    own = world.plugin.ordered_score_funcs  # type: ignore[attr-defined]
    choice = pick_one_node_for_preemption(candidates, world.handle.now(), own)
    assert choice.best.name == case["best"]
