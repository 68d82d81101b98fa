"""Metrics of extension points and plugins, against upstream's own cases."""

import asyncio
from collections.abc import Mapping

import pytest

from scheduler.framework import Code, CycleState, Status
from scheduler.framework.types import Placement, PodGroupAssignments, PodGroupInfo
from scheduler.runtime import Framework, PluginFailedError, WaitingPods
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, VirtualClock, make_node, make_pod, snapshot_of
from tests.runtime.profiles import answering, framework_of
from tests.upstream.loading import Case, cases

TOPIC, PLUGIN = "framework_runtime", "TestPlugin"
NODES = snapshot_of([make_node("testNode")])
POD, GROUP = PodInfo(make_pod()), PodGroupInfo("ns", "pg")
WHOLE = Placement("", NODES.nodes)

#: By extension point: the answers of a plugin that succeeds.
ANSWERS: Mapping[str, Mapping[str, object]] = {
    "PreFilter": {"pre_filter": None},
    "PreScore": {"pre_score": None},
    "Score": {"score": 0},
    "Reserve": {"reserve": None},
    "Unreserve": {"unreserve": None, "reserve": None},
    "PreBind": {"pre_bind": None},
    "Bind": {"bind": None},
    "PostBind": {"post_bind": None},
    "Permit": {"permit": None},
    "PlacementGenerate": {"generate_placements": [WHOLE]},
    "PlacementScore": {"score_placement": 0},
}
FAILS = Status(Code.ERROR, "injected status")
#: The answers that differ, by point and code. Scores are numbers, so that a plugin must raise.
OTHERS: Mapping[tuple[str, str], object] = {
    ("Score", "Error"): RuntimeError("injected"),
    ("PlacementScore", "Error"): RuntimeError("injected"),
    ("Permit", "Wait"): Status(Code.WAIT, timeout_seconds=1.0),
}


async def _run(framework: Framework, point: str, state: CycleState) -> None:
    """Run the plugins of an extension point."""
    binding = framework.binding
    if point == "PreFilter":
        framework.pre_filters.run(state, POD, NODES.nodes)
    elif point in ("PreScore", "Score"):
        framework.scores.run(state, POD, NODES.nodes)
    elif point in ("Reserve", "Unreserve", "Permit"):
        getattr(binding, point.lower())(state, POD, "")
    elif point == "PreBind":
        await binding.pre_bind(binding.pre_bind_pre_flight(state, POD, ""), state, POD, "")
    elif point == "Bind":
        await binding.bind(state, POD, "")
    elif point == "PostBind":
        await binding.post_bind(state, POD, "")
    elif point == "PlacementGenerate":
        framework.placements.generate(state, GROUP, WHOLE)
    else:
        framework.placements.score(GROUP, [PodGroupAssignments(WHOLE, ())])


@pytest.mark.parametrize("case", cases(TOPIC, "durations"))
async def test_durations_of_points_and_plugins(case: Case) -> None:
    point, code = case["point"], case["code"]
    answers = dict(ANSWERS[point])
    if code != "Success":
        method = next(iter(answers))
        answers[method] = OTHERS.get((point, code), FAILS)
    handle = FakeHandle(NODES)
    framework = framework_of(answering(PLUGIN, **answers), handle=handle)
    try:
        await _run(framework, point, CycleState(records_plugin_metrics=True))
    except PluginFailedError:
        assert code == "Error"
    metrics = framework.handle.metrics
    of_point = metrics.framework_extension_point_duration.by_labels
    assert of_point[point, code, "tested"].total == 1
    found = metrics.plugin_execution_duration.by_labels
    of_plugin = {
        labels[2]: each.total for labels, each in found.items() if labels[:2] == (PLUGIN, point)
    }
    assert of_plugin == {code: 1}


@pytest.mark.parametrize("case", cases(TOPIC, "evaluations"))
def test_evaluations_of_plugins(case: Case) -> None:
    handle = FakeHandle(NODES)
    for profile, plugins in case["profiles"].items():
        answers = {"score": 0}
        classes = [answering(n, **{point: answers.get(point)}) for n, point in plugins.items()]
        framework = framework_of(*classes, scheduler_name=profile, handle=handle)
        state = CycleState()
        framework.pre_filters.run(state, POD, NODES.nodes)
        framework.filters.run(state, POD, NODES.nodes)
        framework.scores.run(state, POD, NODES.nodes)
    found = handle.metrics.plugin_evaluations.numbers()
    assert [[*labels, count] for labels, count in found.items() if count] == case["evaluations"]


@pytest.mark.parametrize("case", cases(TOPIC, "permit_wait_duration"))
async def test_the_wait_of_a_held_pod(case: Case) -> None:
    code = next(code for code in Code if str(code) == case["answer"])
    answer = Status(code, timeout_seconds=1.0)
    handle, clock = FakeHandle(NODES), VirtualClock()
    framework = framework_of(answering(PLUGIN, permit=answer), handle=handle)
    held = WaitingPods(clock, handle.metrics)
    outcome = framework.binding.permit(CycleState(), POD, "")
    if outcome.wait_seconds:
        held.add(POD, outcome.wait_seconds)
    wait = asyncio.ensure_future(held.wait_on_permit(POD.uid))
    await clock.advance(2.0)
    await wait
    found = handle.metrics.permit_wait_duration.by_labels
    assert {code: each.total for (code,), each in found.items()} == case["waits"]
