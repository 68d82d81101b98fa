"""The scheduling algorithm, against upstream's own cases."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.client.kinds import KINDS
from scheduler.config import types as config
from scheduler.cycle import schedule_pod as cycle
from scheduler.cycle.schedule_pod import (
    FirstInOrder,
    SchedulingAlgorithm,
    num_feasible_nodes_to_find,
    prioritize_nodes,
)
from scheduler.framework import (
    Code,
    CycleState,
    NodeInfo,
    Nodes,
    NominatingInfo,
    NominatingMode,
    Plugin,
    PreFilterResult,
    Snapshot,
    Status,
    unschedulable,
)
from scheduler.framework.extender import ExtenderError
from scheduler.framework.status import NodeToStatus
from scheduler.framework.types import Diagnosis, FitError
from scheduler.plugins import IN_TREE
from scheduler.reports.decision import result_of
from scheduler.runtime import Framework, PluginFailedError, Registry
from scheduler.runtime.scoring import NodeScores
from scheduler.snapshot import PodInfo
from scheduler.snapshot.columns import IntArray
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from scheduler.testing.doubles import FakeLister
from tests.cycle.running import schedule_pod
from tests.runtime.profiles import BINDER, SORT, plugin
from tests.upstream.extenders import FakeExtender
from tests.upstream.loading import Case, Fields, api_object, cases, pod, snapshot

TOPIC = "schedule_one"
FAKE = unschedulable("Nodes failed the fake plugin")
Method = Callable[..., Any]


def _filter(accepts: Callable[[PodInfo, NodeInfo], bool]) -> dict[str, Method]:
    return {
        "filter": lambda self, state, pod, node: None if accepts(pod, node) else FAKE,
    }


def _score(rule: Callable[[NodeInfo], int]) -> dict[str, Method]:
    return {"score": lambda self, state, pod, node: rule(node)}


def _fail(node: NodeInfo) -> int:
    raise ValueError("priority map encounters an error")


def _reversed(self: Plugin, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
    turned: IntArray = scores.max() + scores.min() - scores
    return turned


#: Upstream's fake plugins that are the same wherever they are used.
FAKES: dict[str, dict[str, Method]] = {
    "TrueFilter": _filter(lambda pod, node: True),
    "FalseFilter": _filter(lambda pod, node: False),
    "MatchFilter": _filter(lambda pod, node: node.name == pod.name),
    "NoPodsFilter": _filter(lambda pod, node: not node.pods),
    "EqualPrioritizer": _score(lambda node: 1),
    "NumericMap": _score(lambda node: int(node.name)),
    "ReverseNumericMap": _score(lambda node: int(node.name)) | {"normalize_score": _reversed},
    "TrueMap": _score(lambda node: 1),
    "FalseMap": _score(_fail),
    "Node2Prioritizer": _score(lambda node: 100 if node.name == "node2" else 10),
}


def _code(name: str) -> Code:
    return next(code for code in Code if str(code) == name)


def _answer(value: Fields | str) -> Status | PreFilterResult:
    if isinstance(value, str):
        return Status(_code(value))
    if "nodes" in value:
        return PreFilterResult(frozenset(value["nodes"]))
    return Status(_code(value["code"]), *value["reasons"])


def _methods(name: str, fields: Fields, calls: list[str]) -> dict[str, Method]:
    """The methods of a fake plugin that the case describes; its filter's `calls` are noted."""
    methods = dict(FAKES.get(name, {}))
    if "pre_filter" in fields:
        methods["pre_filter"] = lambda self, *_: _answer(fields["pre_filter"])
    if "pre_score" in fields:
        methods["pre_score"] = lambda self, *_: _answer(fields["pre_score"])
        methods["score"] = lambda self, state, pod, node: _fail(node)
    if "filter" in fields:

        def by_node(self: Plugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
            calls.append(node.name)
            code = fields["filter"].get(node.name, "Success")
            return Status(_code(code), f"injecting failure for pod {pod.name}")

        methods["filter"] = by_node
    return methods


class _Stage:
    """A case's plugins over its cluster."""

    def __init__(self, case: Case) -> None:
        self.snapshot: Snapshot = snapshot(case)
        objects = case.get("objects") or {}
        #: The nodes that `filter` of a described plugin was called with, in order.
        self.calls: list[str] = []
        given = [{each: {}} if isinstance(each, str) else each for each in case["plugins"]]
        described: dict[str, Fields] = {
            name: fields for each in given for name, fields in each.items()
        }
        classes = {
            name: plugin(name, **_methods(name, fields, self.calls))
            for name, fields in described.items()
            if name not in IN_TREE
        }
        kinds = {plural for name in described if name in IN_TREE for plural in IN_TREE[name].reads}
        listers = {
            plural: FakeLister(
                [api_object(KINDS[plural].type, each) for each in objects.get(plural, ())]
            )
            for plural in {*kinds, *objects}
        }
        self.handle = FakeHandle(self.snapshot, listers=listers)
        profile = config.KubeSchedulerProfile(plugins=_plugins(described))
        registry = Registry([SORT, BINDER, *classes.values(), *IN_TREE.values()])
        self.framework = Framework(profile, registry=registry, make_handle=self.handle.make)
        self.extenders = [FakeExtender(fields) for fields in case.get("extenders", ())]
        self.algorithm = SchedulingAlgorithm(
            self.snapshot, tie_break=FirstInOrder(), extenders=self.extenders
        )


def _plugins(described: dict[str, Fields]) -> config.Plugins:
    """Fake plugins at all of their points, in-tree ones at those that the case names."""
    everywhere = [config.Plugin("Sort"), config.Plugin("Binder")]
    points: dict[str, list[Fields]] = {}
    for name, fields in described.items():
        entry = {"name": name, "weight": fields.get("weight", 0)}
        if "points" in fields:
            for point in fields["points"]:
                points.setdefault(point, []).append(entry)
        else:
            everywhere.append(config.Plugin(name, fields.get("weight", 0)))
    chosen = {point: {"enabled": entries} for point, entries in points.items()}
    return msgspec.structs.replace(
        msgspec.convert(chosen, config.Plugins),
        multi_point=config.PluginSet(enabled=tuple(everywhere)),
    )


def _status(status: Status) -> Fields:
    found: Fields = {"code": str(status.code), "reasons": list(status.reasons)}
    if status.plugin:
        found["plugin"] = status.plugin
    return found


#: The default status of nodes without a status of their own.
ABSENT = {"code": "UnschedulableAndUnresolvable", "reasons": []}


def _check_diagnosis(case: Case, diagnosis: Diagnosis) -> None:
    statuses = {name: _status(status) for name, status in diagnosis.node_to_status.items()}
    assert statuses == case["statuses"]
    assert sorted(diagnosis.unschedulable_plugins) == case["rejected_by"]
    assert _status(diagnosis.node_to_status.absent_nodes_status) == case.get("absent", ABSENT)
    rejection = diagnosis.pre_filter_status
    message = rejection.message if rejection is not None else None
    assert message == case.get("pre_filter_message")


@pytest.mark.parametrize("case", cases(TOPIC, "schedule_pod"))
def test_schedule_pod(case: Case) -> None:
    stage = _Stage(case)
    info = PodInfo(pod(case["pod"]))
    if "statuses" in case.fields:
        with pytest.raises(FitError) as no_fit:
            schedule_pod(stage.algorithm, stage.framework, CycleState(), info)
        assert no_fit.value.num_all_nodes == len(case["nodes"])
        _check_diagnosis(case, no_fit.value.diagnosis)
    elif "error" in case.fields:
        with pytest.raises(PluginFailedError) as failure:
            schedule_pod(stage.algorithm, stage.framework, CycleState(), info)
        assert str(failure.value) == case["error"]
    else:
        result = schedule_pod(stage.algorithm, stage.framework, CycleState(), info)
        assert result.suggested_host in case["one_of"]
        assert result.evaluated_nodes == case.get("evaluated", len(case["nodes"]))


@pytest.mark.parametrize("case", cases(TOPIC, "find_nodes"))
def test_find_nodes_that_fit_pod(case: Case) -> None:
    stage = _Stage(case)
    if "expected" in case.fields:
        other = PodInfo(make_pod("nominated", priority=case["expected"]["priority"]))
        info = NominatingInfo(case["expected"]["node"], NominatingMode.OVERRIDE)
        stage.handle.nominator.add_nominated_pod(other, info)
    snapshot = stage.snapshot
    names = case.get("placement", snapshot.names)
    placement = snapshot.nodes.take(np.array([snapshot.row(name) for name in names]))
    with snapshot.placement(placement):
        feasible, diagnosis = result_of(
            stage.algorithm.find_nodes_that_fit_pod(
                stage.framework, CycleState(), PodInfo(pod(case["pod"]))
            )
        )
    assert feasible.names == case["feasible"]
    if "calls" in case.fields:
        assert len(stage.calls) == case["calls"]
    if "statuses" in case.fields:
        _check_diagnosis(case, diagnosis)


@pytest.mark.parametrize("case", cases(TOPIC, "prioritize_nodes"))
async def test_prioritize_nodes(case: Case) -> None:
    stage = _Stage(case)
    nodes = stage.snapshot.nodes
    info = PodInfo(pod(case["pod"]))
    found = await prioritize_nodes(
        stage.framework, CycleState(), info, nodes, extenders=stage.extenders
    )
    totals = dict(zip(nodes.names, found.total.tolist(), strict=True))
    by_node = {
        name: {plugin: int(scores[row]) for plugin, scores in found.by_plugin.items()}
        for row, name in enumerate(nodes.names)
    }
    assert (by_node, totals) == (case["scores"], case["totals"])


@pytest.mark.parametrize("case", cases("extenders", "schedule_pod"))
async def test_scheduler_with_extenders(case: Case) -> None:
    stage, info = _Stage(case), PodInfo(make_pod())
    if "error" in case.fields:
        with pytest.raises(ExtenderError, match=case["error"]):
            await cycle.schedule_pod(stage.algorithm, stage.framework, CycleState(), info)
        return
    if "rejected_by" in case.fields:
        with pytest.raises(FitError) as no_fit:
            await cycle.schedule_pod(stage.algorithm, stage.framework, CycleState(), info)
        assert sorted(no_fit.value.diagnosis.unschedulable_plugins) == case["rejected_by"]
        return
    result = await cycle.schedule_pod(stage.algorithm, stage.framework, CycleState(), info)
    found = (result.suggested_host, result.evaluated_nodes, len(result.feasible_nodes))
    assert found == (case["node"], case["evaluated"], case["feasible"])


@pytest.mark.parametrize("case", cases(TOPIC, "pass_extenders"))
def test_find_nodes_that_pass_extenders(case: Case) -> None:
    before = case.get("before", {})

    def reject(self: Plugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable(before[node.name]) if node.name in before else None

    names = [*case["nodes"], *before]
    cluster = snapshot_of([make_node(name) for name in names])
    registry = Registry([SORT, BINDER, plugin("FakeFilter", filter=reject)])
    profile = config.KubeSchedulerProfile(plugins=_plugins({"FakeFilter": {}}))
    framework = Framework(profile, registry=registry, make_handle=FakeHandle(cluster).make)
    extenders = [FakeExtender(fields) for fields in case["extenders"]]
    algorithm = SchedulingAlgorithm(cluster, tie_break=FirstInOrder(), extenders=extenders)
    work = algorithm.find_nodes_that_fit_pod(framework, CycleState(), PodInfo(make_pod("1")))
    if "error" in case.fields:
        with pytest.raises(ExtenderError, match=case["error"]):
            result_of(work)
        return
    passed, diagnosis = result_of(work)
    assert passed.names == case["passed"]
    statuses = {name: _status(status) for name, status in diagnosis.node_to_status.items()}
    assert statuses == case["statuses"]


@pytest.mark.parametrize("case", cases(TOPIC, "num_feasible_nodes"))
def test_num_feasible_nodes_to_find(case: Case) -> None:
    percentage = case.get("profile_percentage", case["percentage"])
    assert num_feasible_nodes_to_find(case["nodes"], percentage) == case["wanted"]


@pytest.mark.parametrize("case", cases(TOPIC, "select_host"))
def test_select_host(case: Case) -> None:
    names = list(case["scores"])
    nodes = snapshot_of([make_node(name) for name in names]).nodes
    offered: list[str] = []

    class Seeing:
        def __call__(self, nodes: Nodes, best: IntArray) -> int:
            offered.extend(nodes.names[position] for position in best.tolist())
            return int(best[-1])

    algorithm = SchedulingAlgorithm(snapshot_of([]), tie_break=Seeing())
    scores = NodeScores({}, np.array([case["scores"][name] for name in names]))
    result = algorithm.select_host(nodes, Diagnosis(NodeToStatus([], {})), scores)
    assert offered == case["best"]
    assert result.suggested_host == case["best"][-1]


@pytest.mark.parametrize("case", cases(TOPIC, "fair_evaluation"))
def test_fair_evaluation(case: Case) -> None:
    """Each search begins where the last one stopped."""
    total, percentage = case["nodes_total"], case["percentage"]
    stage = _Stage(Case("", case.source, "", {"plugins": case["plugins"], "nodes": []}))
    cluster = snapshot_of([make_node(str(number)) for number in range(total)])
    algorithm = SchedulingAlgorithm(
        cluster, tie_break=FirstInOrder(), percentage_of_nodes_to_score=percentage
    )
    wanted = num_feasible_nodes_to_find(total, percentage)
    for turn in range(1, 2 * (total // wanted + 1) + 1):
        feasible, _ = result_of(
            algorithm.find_nodes_that_fit_pod(stage.framework, CycleState(), PodInfo(make_pod()))
        )
        assert len(feasible) == wanted
        assert algorithm.next_start_node_index == turn * wanted % total
