"""The cycle of a pod group around plugins with scripted answers: upstream's own cases."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.api.core import Pod, PodCondition
from scheduler.api.pod_groups import POD_GROUP_SCHEDULED, PodGroup
from scheduler.assembly import profiles
from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    WORKLOAD_AWARE_PREEMPTION,
)
from scheduler.cycle.pod_group.results import PodGroupAttempt
from scheduler.cycle.pod_group.submit import update_pod_group_condition
from scheduler.cycle.schedule_pod_group import schedule_one_pod_group
from scheduler.framework import (
    Code,
    CycleState,
    NodeInfo,
    NominatingInfo,
    NominatingMode,
    Plugin,
    PostFilterResult,
    Status,
)
from scheduler.framework.types import Condition, Placement, PodGroupAssignments, PodGroupInfo
from scheduler.plugins import IN_TREE
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node
from tests.cycle.line import Line, profile_of
from tests.plugins.running import verdict_of
from tests.runtime.profiles import plugin
from tests.upstream.loading import Case, Fields, api_object, cases, pod, status_of, verdict

TOPIC = "schedule_one_pod_group"
GATES = DEFAULT_FEATURE_GATES | {GENERIC_WORKLOAD}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
SCHEDULER = "default-scheduler"


def _member(name: str, **spec: object) -> Pod:
    metadata = {"name": name, "namespace": "default"}
    defaults = {"schedulingGroup": {"podGroupName": "pg"}, "schedulerName": SCHEDULER}
    return pod({"metadata": metadata, "spec": defaults | spec})


def _pod_group(
    *, spec: Fields | None = None, condition: Sequence[str] | None = None, generation: int = 0
) -> PodGroup:
    """A group with a condition PodGroupScheduled: status, reason and message."""
    metadata = {"name": "pg", "namespace": "default", "uid": "pg", "generation": generation}
    conditions = []
    if condition is not None:
        names = ("type", "status", "reason", "message", "lastTransitionTime")
        values = (POD_GROUP_SCHEDULED, *condition, "2020-01-01T00:00:00Z")
        conditions.append(dict(zip(names, values, strict=True)))
    status = {"conditions": conditions}
    return api_object(PodGroup, {"metadata": metadata, "spec": spec or {}, "status": status})


def _written(line: Line) -> PodCondition | None:
    group = line.client.groups.get("pg", "default")
    return None if group is None else group.condition(POD_GROUP_SCHEDULED)


def _condition_of(line: Line) -> list[str] | None:
    found = _written(line)
    return None if found is None else [found.status, found.reason, found.message]


def _status(value: Fields | str | None) -> Status | None:
    found = None if value is None else status_of(value)
    return None if found is None or found.is_success else found


def _scripted(case: Case) -> type[Plugin]:
    """A plugin with the case's answers by the names of members; it is silent in binding cycles."""

    def filter_node(self: Plugin, state: CycleState, info: PodInfo, node: NodeInfo) -> Any:
        code = (case.get("filter") or {}).get(info.name)
        return _status({"code": code, "reasons": ["plugin returned error"]} if code else None)

    async def post_filter(self: Plugin, state: CycleState, info: PodInfo, statuses: object) -> Any:
        name = (case.get("post_filter") or {}).get(info.name, "")
        failed = None if name else status_of("Unschedulable")
        if name is None:
            return None, failed
        return PostFilterResult(NominatingInfo(name, NominatingMode.OVERRIDE)), failed

    def permit(self: Plugin, state: CycleState, info: PodInfo, node_name: str) -> Any:
        code = (case.get("permit") or {}).get(info.name)
        return _status(code) if state.pod_group_state is not None else None

    methods: dict[str, Callable[..., Any]] = {
        "filter": filter_node,
        "post_filter": post_filter,
        "permit": permit,
    }
    if "generate" in case.fields:
        methods["generate_placements"] = lambda self, *_: status_of(case["generate"])
    return plugin("FakePodGroupPlugin", **methods)


def _add_members(line: Line, *members: Pod) -> None:
    for member in members:
        line.pods.put(member)


async def _schedule_group(line: Line, first: str) -> PodGroupAttempt:
    """Pop one member, run the cycle of its group, and the binding cycles."""
    queued, _ = line.queue.pop_specific_pod(f"default/{first}", line.clock.now())
    assert queued is not None
    attempt = await schedule_one_pod_group(line.cycle_parts, queued)
    await line.rest()
    return attempt


@pytest.mark.parametrize("case", cases(TOPIC, "members"))
async def test_members_are_tried_as_upstream_tries_them(case: Case) -> None:
    line = Line([profile_of()], feature_gates=GATES, groups=[_pod_group()])
    for name, fields in sorted(case["pods"].items(), key=lambda item: item[1].get("active", 0)):
        member = _member(name, priority=fields.get("priority"))
        if fields.get("terminating"):
            metadata = msgspec.structs.replace(member.metadata, deletion_timestamp=LONG_AGO)
            member = msgspec.structs.replace(member, metadata=metadata)
        line.clock.advance_nowait(fields.get("active", 0) - line.clock.monotonic())
        line.known.put(member)
        info = PodInfo(member)
        if fields.get("missing") != "state":
            line.cache.set_pod_group_member(info)
        if fields.get("missing") != "queue":
            line.queue.add(info, line.clock.now())
        if fields.get("assumed"):
            line.cache.assume_pod(info.assigned_to("node1"))
    attempt = await _schedule_group(line, case["popped"])
    assert attempt.info.name == "pg"
    assert [member.pod_info.name for member in attempt.members] == case["order"]
    assert [info.name for info in attempt.info.unscheduled_pods] == case["order"]
    assert set(line.client.bound) == set(case["order"])
    assert line.names("in_flight") == []


@pytest.mark.parametrize("case", cases(TOPIC, "profiles"))
async def test_profiles_are_chosen_as_upstreams(case: Case) -> None:
    of_names = [profile_of(scheduler_name=name) for name in case["profiles"]]
    line = Line(of_names, feature_gates=GATES, groups=[_pod_group()])
    members = [_member(name, schedulerName=of) for name, of in case["pods"].items()]
    for member in members:
        line.known.put(member)
        line.cache.set_pod_group_member(PodInfo(member))
        line.queue.add(PodInfo(member), line.clock.now())
    await _schedule_group(line, members[0].metadata.name)
    failures = {
        name: status["conditions"][0]["message"] for name, status in line.client.statuses.items()
    }
    assert failures == case.get("failures", {})
    others = set(case["pods"]) - set(failures) - set(case.get("dropped", ()))
    assert set(line.client.bound) == others
    assert line.names("in_flight") == []
    assert _condition_of(line) == (["True", "Scheduled", ""] if others else None)


def _run_with(case: Case) -> list[bool]:
    """Return if the case runs with placements: both ways, unless members preempt."""
    return [False] if case.get("preempting") else [False, True]


@pytest.mark.parametrize("case", cases(TOPIC, "algorithm"))
async def test_the_group_algorithm_decides_as_upstreams(case: Case) -> None:
    for with_placements in _run_with(case):
        scripted = _scripted(case)
        gates = GATES | ({TOPOLOGY_AWARE_WORKLOAD_SCHEDULING} if with_placements else set())
        line = Line(
            [profile_of(scripted.name)], [scripted], feature_gates=gates, groups=[_pod_group()]
        )
        _add_members(line, *map(_member, ("p1", "p2", "p3")))
        result = (await _schedule_group(line, "p1")).result
        assert str(Code.SUCCESS if result.status is None else result.status.code) == case["code"]
        assert result.waiting_on_preemption == case.get("waiting_on_preemption", False)
        found = {m.attempt.pod.name: m for m in result.members}
        codes = {n: str(m.status.code) if m.status else "Success" for n, m in found.items()}
        assert codes == case["pods"]
        for name, member in found.items():
            preempts = name in case.get("preempting", ())
            assert member.requires_preemption == preempts
            if codes[name] == "Success" or preempts:
                assert member.host == "node1"
                wanted = (case.get("permit") or {}).get(name, "Success")
                assert member.permit_status is not None
                assert str(member.permit_status.code) == wanted
            else:
                assert (member.host, member.permit_status) == ("", None)


@pytest.mark.parametrize("case", cases(TOPIC, "submit"))
async def test_results_are_submitted_as_upstreams(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = _scripted(case)
    gates = GATES | ({TOPOLOGY_AWARE_WORKLOAD_SCHEDULING} if "generate" in case.fields else set())
    group = _pod_group(condition=case.get("before"))
    line = Line([profile_of(scripted.name)], [scripted], feature_gates=gates, groups=[group])
    _add_members(line, *map(_member, ("p1", "p2", "p3")))
    if "update_snapshot" in case.fields:

        def fail(snapshot: object) -> None:
            raise RuntimeError(case["update_snapshot"])

        monkeypatch.setattr(line.cache, "update_snapshot", fail)
    await _schedule_group(line, "p1")
    statuses = line.client.statuses
    preempting = {name for name, status in statuses.items() if status.get("nominatedNodeName")}
    assert set(line.client.bound) == set(case.get("bound", ()))
    assert preempting == set(case.get("preempting", ()))
    assert set(statuses) - preempting == set(case.get("failed", ()))
    for name, message in case.get("messages", {}).items():
        assert statuses[name]["conditions"][0]["message"] == message
    assert _condition_of(line) == case["condition"]
    assert line.names("in_flight") == []


@pytest.mark.parametrize("case", cases(TOPIC, "condition"))
async def test_the_group_gets_upstreams_condition(case: Case) -> None:
    groups = []
    if not case.get("missing"):
        condition, generation = case.get("before"), case.get("generation", 0)
        groups.append(_pod_group(condition=condition, generation=generation))
    line = Line([profile_of()], feature_gates=GATES, groups=groups)
    status, reason, message = case["written"]
    condition = Condition(POD_GROUP_SCHEDULED, status, reason, message)
    update_pod_group_condition(line.cycle_parts, PodGroupInfo("default", "pg"), condition)
    await line.rest()
    if case.get("missing"):
        assert len(line.client.groups) == 0
        return
    assert _condition_of(line) == case.get("after", case["written"])
    found = _written(line)
    assert found is not None
    assert found.observed_generation == case.get("generation", 0)
    assert (found.last_transition_time == LONG_AGO) == case.get("no_transition", False)


def _scoring(name: str, scores: dict[str, int], fails: dict[str, str]) -> type[Plugin]:
    def score_placement(
        self: Plugin, state: CycleState, group: object, assignments: PodGroupAssignments
    ) -> int:
        placement = assignments.placement.name
        if placement in fails:
            raise RuntimeError(fails[placement])
        return scores.get(placement, 0)

    return plugin(name, score_placement=score_placement)


@pytest.mark.parametrize("case", cases(TOPIC, "placements"))
async def test_placements_are_upstreams(case: Case) -> None:
    def generate(self: Plugin, state: CycleState, group: object, parent: Placement) -> Any:
        if "generate" in case.fields:
            return status_of(case["generate"])
        return [
            Placement(name, parent.nodes.take(np.flatnonzero(np.isin(parent.nodes.names, of))))
            for name, of in case["placements"].items()
        ]

    def filter_node(self: Plugin, state: CycleState, info: PodInfo, node: NodeInfo) -> Any:
        return _status((case.get("filter") or {}).get(node.name))

    generator = plugin("FakePlacementPlugin", generate_placements=generate, filter=filter_node)
    if "scores" in case.fields:
        scoring = _scoring("FakePlacementPlugin", case["scores"], case.get("score_fails", {}))
        classes = [type("FakePlacementPlugin", (generator, scoring), {})]
    else:
        classes = [generator]
    weights = {}
    for position, of in enumerate(case.get("weighted", ())):
        name = f"FakeScorePlugin[{position}]"
        weights[name] = of["weight"]
        classes.append(_scoring(name, of["scores"], {}))
    line = Line(
        [profile_of(*(each.name for each in classes), weights=weights)],
        classes,
        nodes=[make_node("node1"), make_node("node2")],
        feature_gates=GATES | {TOPOLOGY_AWARE_WORKLOAD_SCHEDULING},
        groups=[_pod_group()],
    )
    _add_members(line, _member("foo"))
    result = (await _schedule_group(line, "foo")).result
    assert verdict_of(result.status) == verdict(case.get("status"))
    if "plugin" in case.fields:
        assert result.status is not None
        assert result.status.plugin == case["plugin"]
    assert [m.host for m in result.members if m.host] == (
        [case["host"]] if "host" in case.fields else []
    )
    for member in result.members:
        assert verdict_of(member.status) == verdict(case.get("pod"))
        if member.found.result is not None:
            assert member.found.result.evaluated_nodes == 1
            assert len(member.found.result.feasible_nodes) == 1


@pytest.mark.parametrize(
    "case", [*cases(TOPIC, "preemption"), *cases("framework_runtime", "pod_group_post_filter")]
)
async def test_a_group_preempts_as_upstreams(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    async def pod_group_post_filter(
        self: Plugin,
        pod_group: PodGroup,
        pods: Sequence[PodInfo],
        schedule: Callable[[], Awaitable[Status | None]],
        equal_members: Callable[[], object],
    ) -> Status | None:
        called.append(pod_group.metadata.name)
        answer = case.get("answer", {"code": "Unschedulable", "reasons": ["no victims"]})
        return _status(answer)

    everyone = {"p1": "Unschedulable", "p2": "Unschedulable"}
    classes = [_scripted(Case("", "", "", {"filter": everyone}))]
    names = [classes[0].name]
    if case.get("plugin") == "DefaultPreemption":
        methods = {"pod_group_post_filter": pod_group_post_filter}
        preemption = type("DefaultPreemption", (plugin("Base", **methods), classes[0]), {})
        others = [each for each in IN_TREE.values() if each.name != preemption.name]
        monkeypatch.setattr(profiles, "in_tree_plugins", lambda _: [*others, preemption])
        names.append(preemption.name)
    groups = [] if case["group"] is None else [_pod_group(spec=case["group"])]
    gates = GATES | ({WORKLOAD_AWARE_PREEMPTION} if case["gate"] else set())
    line = Line(
        [profile_of(*names)],
        classes,
        feature_gates=gates,
        groups=groups,
    )
    _add_members(line, _member("p1"), _member("p2"))
    attempt = await _schedule_group(line, "p1")
    assert bool(called) == case["called"]
    if "status" in case.fields:
        assert attempt.preemption_status is not None
        found = attempt.preemption_status
        assert verdict_of(None if found.is_success else found) == verdict(case["status"])
