"""Answers of several plugins combined by the framework, against upstream's own cases."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scheduler.config import types as config
from scheduler.framework import (
    Code,
    CycleState,
    NodeToStatus,
    NominatingInfo,
    NominatingMode,
    Plugin,
    PreFilterResult,
    Status,
)
from scheduler.framework.types import (
    Placement,
    PodGroupAssignments,
    PodGroupInfo,
    PreBindPreFlightResult,
)
from scheduler.runtime import Framework, PluginFailedError
from scheduler.runtime.worlds import Worlds
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.runtime.profiles import BINDER, SORT, answering, framework_of, plugin
from tests.upstream.loading import Case, Fields, cases

SNAPSHOT = snapshot_of([make_node("testNode")])
TOPIC = "framework_runtime"

#: What upstream's plugins give as a reason.
INJECTED = "injected status"


def _code(name: str) -> Code:
    return next(code for code in Code if str(code) == name)


def _answer(value: Fields | str, reason: str) -> object:
    """Return the answer of a plugin from data: a status by code, nodes, or a time to wait."""
    if isinstance(value, str):
        return Status(_code(value), reason)
    if "nodes" in value:
        return PreFilterResult(frozenset(value["nodes"]))
    return Status(_code(value["code"]), reason, timeout_seconds=value["seconds"])


def _asynchronous(answer: object) -> Callable[..., Any]:
    async def method(self: Plugin, *arguments: object) -> object:
        return answer

    return method


def _plugins(
    case: Case, point: str, *, reason: str = INJECTED, waits: bool = False
) -> list[type[Plugin]]:
    """One plugin for each of the case's `answers`, which it gives at the point."""
    given = {name: _answer(value, reason) for name, value in case["answers"].items()}
    if waits:
        return [plugin(name, **{point: _asynchronous(each)}) for name, each in given.items()]
    return [answering(name, **{point: each}) for name, each in given.items()]


def _framework(
    *classes: type[Plugin], handle: FakeHandle | None = None, binder: type[Plugin] = BINDER
) -> Framework:
    """A framework of plugins whose names may hold spaces, as some of upstream's do."""
    classes = (SORT, *classes, binder)
    plugins = config.Plugins(
        multi_point=config.PluginSet(enabled=tuple(config.Plugin(each.name) for each in classes))
    )
    return framework_of(*classes, plugins=plugins, handle=handle or FakeHandle(SNAPSHOT))


def _state(case: Case) -> CycleState:
    """A cycle in which the case's `skipped` plugins are left out."""
    state = CycleState()
    state.skip_filter_plugins |= set(case.get("skipped") or ())
    return state


def _fields(status: Status | None) -> Fields | None:
    """A status as data has it. Upstream's tests do not look at the plugin behind an error."""
    if status is None or (status.is_success and not status.reasons):
        return None
    fields: Fields = {"code": str(status.code)}
    if status.reasons:
        fields["reasons"] = list(status.reasons)
    if status.plugin and status.code != Code.ERROR:
        fields["plugin"] = status.plugin
    return fields


def _failed(failure: Exception) -> Fields:
    return {"code": "Error", "reasons": [str(failure)]}


POD = PodInfo(make_pod())
OTHER = PodInfo(make_pod("other", node_name="testNode"))
FULL = snapshot_of([make_node("testNode")], [OTHER.pod])


@pytest.mark.parametrize("case", cases(TOPIC, "filter"))
def test_the_same_nodes_are_rejected_for_the_same_reasons(case: Case) -> None:
    framework = _framework(*_plugins(case, "filter", reason="injected filter status"))
    try:
        rejections = framework.filters.run(_state(case), POD, SNAPSHOT.nodes)
    except PluginFailedError as failure:
        found: Fields | None = _failed(failure)
    else:
        found = _fields(None if rejections is None else rejections.status(0))
    assert found == case.get("status")


@pytest.mark.parametrize("case", cases(TOPIC, "nominated_pods"))
def test_filter_with_nominated_pods(case: Case) -> None:
    handle = FakeHandle(SNAPSHOT)
    if case.get("nominated_priority") is not None:
        expected = make_pod("nominated", priority=case["nominated_priority"])
        nominated_to = NominatingInfo("testNode", NominatingMode.OVERRIDE)
        handle.nominator.add_nominated_pod(PodInfo(expected), nominated_to)
    followers = [
        answering(name, pre_filter=None, add_pod=_answer(code, INJECTED))
        for name, code in (case.get("add_pod") or {}).items()
    ]
    filters = [
        answering(name, filter=_answer(code, "injected filter status"))
        for name, code in (case.get("filter") or {}).items()
    ]
    framework = _framework(*followers, *filters, handle=handle)
    pod = PodInfo(make_pod(priority=case["priority"]))
    try:
        rejections = framework.filters.run_with_nominated_pods(CycleState(), pod, SNAPSHOT.nodes)
    except PluginFailedError as failure:
        found: Fields | None = _failed(failure)
    else:
        found = _fields(None if rejections is None else rejections.status(0))
    assert found == case.get("status")


@pytest.mark.parametrize("case", cases(TOPIC, "pre_filter"))
def test_pre_filter(case: Case) -> None:
    framework, state = _framework(*_plugins(case, "pre_filter")), CycleState()
    nodes, code = None, "Error"
    try:
        outcome = framework.pre_filters.run(state, POD, SNAPSHOT.nodes)
    except PluginFailedError:
        pass
    else:
        names = outcome.result.node_names
        nodes = None if names is None else sorted(names)
        code = "Success" if outcome.status is None else str(outcome.status.code)
    assert (nodes, code) == (case.get("nodes"), case["code"])
    assert state.skip_filter_plugins == set(case.get("skips") or ())


def _dry_run(case: Case, point: str) -> Worlds:
    """A dry run that the case's plugins follow, on a node with the pod `OTHER`."""
    followers = [
        answering(name, pre_filter=None, **{point: _answer(code, INJECTED)})
        for name, code in case["answers"].items()
    ]
    return _framework(*followers).filters.worlds(_state(case), POD, FULL.nodes)


@pytest.mark.parametrize("case", cases(TOPIC, "add_pod"))
def test_add_pod(case: Case) -> None:
    worlds = _dry_run(case, "add_pod")
    worlds.add_pods([0], [PodInfo(make_pod("new", node_name="testNode"))])
    assert ("Error" if worlds.failures else "Success") == case["code"]


@pytest.mark.parametrize("case", cases(TOPIC, "remove_pod"))
def test_remove_pod(case: Case) -> None:
    worlds = _dry_run(case, "remove_pod")
    worlds.remove_pods([0], [OTHER])
    assert ("Error" if worlds.failures else "Success") == case["code"]


@pytest.mark.parametrize("case", cases(TOPIC, "call_counts"))
def test_call_counts(case: Case) -> None:
    calls: dict[str, dict[str, int]] = {name: {} for name in case["calls"]}

    def counting(name: str, point: str) -> Callable[..., None]:
        def method(self: Plugin, *arguments: object) -> None:
            calls[name][point] = calls[name].get(point, 0) + 1

        return method

    framework = _framework(
        *(
            plugin(name, **{point: counting(name, point) for point in points})
            for name, points in case["calls"].items()
        )
    )
    state = CycleState()
    framework.pre_filters.run(state, POD, FULL.nodes)
    worlds = framework.filters.worlds(state, POD, FULL.nodes)
    worlds.add_pods([0], [PodInfo(make_pod("new", node_name="testNode"))])
    worlds.remove_pods([0], [OTHER])
    assert calls == case["calls"]


@pytest.mark.parametrize("case", cases(TOPIC, "post_filter"))
async def test_post_filter(case: Case) -> None:
    framework = _framework(
        *(
            plugin(name, post_filter=_asynchronous((None, _answer(code, INJECTED))))
            for name, code in case["answers"].items()
        )
    )
    _, status = await framework.run_post_filter_plugins(CycleState(), POD, NodeToStatus((), {}))
    assert _fields(status) == case.get("status")


@pytest.mark.parametrize("case", cases(TOPIC, "pre_score"))
def test_pre_score(case: Case) -> None:
    framework, state, code = _framework(*_plugins(case, "pre_score")), CycleState(), "Success"
    try:
        framework.scores.run(state, POD, SNAPSHOT.nodes)
    except PluginFailedError:
        code = "Error"
    assert code == case["code"]
    assert state.skip_score_plugins == set(case.get("skips") or ())


@pytest.mark.parametrize("case", cases(TOPIC, "reserve"))
def test_reserving_ends_as_upstreams(case: Case) -> None:
    framework = _framework(*_plugins(case, "reserve"))
    assert _fields(framework.binding.reserve(CycleState(), POD, "")) == case.get("status")


@pytest.mark.parametrize("case", cases(TOPIC, "permit"))
def test_permission_ends_as_upstreams(case: Case) -> None:
    outcome = _framework(*_plugins(case, "permit")).binding.permit(CycleState(), POD, "")
    assert _fields(outcome.status) == case.get("status")
    assert outcome.wait_seconds == case.get("wait_seconds", {})


@pytest.mark.parametrize("case", cases(TOPIC, "pre_flight"))
def test_pre_bind_pre_flight(case: Case) -> None:
    workers = [
        plugin(
            name,
            pre_bind=_asynchronous(None),
            pre_bind_pre_flight=lambda self, *_, code=code: _answer(code, INJECTED),
        )
        for name, code in case["answers"].items()
    ]
    outcome = _framework(*workers).binding.pre_bind_pre_flight(CycleState(), POD, "")
    assert _fields(outcome.status) == case.get("status")


@pytest.mark.parametrize("case", cases(TOPIC, "pre_bind_groups"))
def test_pre_bind_groups(case: Case) -> None:
    workers = [
        plugin(
            name,
            pre_bind=_asynchronous(None),
            pre_bind_pre_flight=lambda self, *_, wish=wish: PreBindPreFlightResult(
                allow_parallel="parallel" in wish, skip="skip" in wish
            ),
        )
        for name, wish in case["plugins"].items()
    ]
    outcome = _framework(*workers).binding.pre_bind_pre_flight(CycleState(), POD, "")
    assert [[each.name for each in group] for group in outcome.groups] == case["groups"]


@pytest.mark.parametrize("case", cases(TOPIC, "pre_bind"))
async def test_pre_bind(case: Case) -> None:
    binding = _framework(*_plugins(case, "pre_bind", waits=True)).binding
    state = CycleState()
    pre_flight = binding.pre_bind_pre_flight(state, POD, "")
    assert _fields(await binding.pre_bind(pre_flight, state, POD, "")) == case.get("status")


@pytest.mark.parametrize("case", cases(TOPIC, "bind"))
async def test_a_binding_ends_as_upstreams(case: Case) -> None:
    *others, last = _plugins(case, "bind", waits=True) or [BINDER]
    binding = _framework(*others, binder=last).binding
    status = await binding.bind(CycleState(), POD, "")
    assert ("Success" if status is None else str(status.code)) == case["code"]


GROUP = PodGroupInfo("ns", "pg")


@pytest.mark.parametrize("case", cases(TOPIC, "placements"))
def test_generate_placements(case: Case) -> None:
    snapshot = snapshot_of([make_node(f"node{number}") for number in (1, 2, 3)])

    def generate(self: Plugin, state: CycleState, group: object, parent: Placement) -> Any:
        if isinstance(case["answer"], str):
            return Status(_code(case["answer"]), INJECTED)
        rows = {
            name: np.array([snapshot.row(of) for of in names])
            for name, names in case["answer"].items()
        }
        return [Placement(name, parent.nodes.take(of)) for name, of in rows.items()]

    classes = [plugin("Generator", generate_placements=generate)] if "answer" in case.fields else []
    framework = _framework(*classes, handle=FakeHandle(snapshot))
    found = framework.placements.generate(CycleState(), GROUP, Placement("", snapshot.nodes))
    if isinstance(found, Status):
        assert str(found.code) == case["code"]
        assert "placements" not in case.fields
    else:
        assert case["code"] == "Success"
        assert {one.name: list(one.nodes.names) for one in found} == case["placements"]


def _scoring(name: str, fields: Fields) -> type[Plugin]:
    def score(self: Plugin, state: object, group: object, one: PodGroupAssignments) -> int:
        found = fields["scores"][int(one.placement.name)]
        if isinstance(found, str):
            raise RuntimeError(found)
        return int(found)

    def normalize(self: Plugin, state: object, group: object, scores: list[int]) -> list[int]:
        if isinstance(fields["normalize"], str):
            raise RuntimeError(fields["normalize"])
        return [each * 100 // scores[-1] for each in scores]

    if "normalize" in fields:
        return plugin(name, score_placement=score, normalize_placement_score=normalize)
    return plugin(name, score_placement=score)


@pytest.mark.parametrize("case", cases(TOPIC, "placement_scores"))
def test_score_placements(case: Case) -> None:
    classes = [_scoring(name, fields) for name, fields in case["plugins"].items()]
    weighted = tuple(config.Plugin(name, of["weight"]) for name, of in case["plugins"].items())
    others = tuple(config.Plugin(each.name) for each in (SORT, BINDER))
    plugins = config.Plugins(multi_point=config.PluginSet(enabled=(*others, *weighted)))
    framework = framework_of(SORT, *classes, BINDER, plugins=plugins)
    placements = [Placement(str(number), SNAPSHOT.nodes) for number in range(3)]
    assignments = [PodGroupAssignments(placement, ()) for placement in placements]
    found = framework.placements.score(GROUP, assignments)
    if isinstance(found, Status):
        assert found.code == Code.ERROR
        assert "totals" not in case.fields
    else:
        assert [one.total for one in found] == case["totals"]
        by_plugin = {name: [one.by_plugin[name] for one in found] for name in case["plugins"]}
        assert by_plugin == case["scores"]
