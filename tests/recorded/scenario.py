"""Read recorded scenarios, decide them, and write the decisions in the recorded format.

A scenario is a question about pods, which are scheduled one after another, or steps, or changes for
which the cluster events and queueing hints are computed. Its result is one JSON line.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from scheduler.api.core import Pod
from scheduler.assembly.core import SchedulerOptions
from scheduler.config import DEFAULT_SCHEDULER_VERSION, EffectiveVersion, SchedulerVersion
from scheduler.explain.questions import Question, read_questions
from scheduler.framework.events import pod_events
from scheduler.framework.interface import Plugin

from .hints import hints_of
from .pods import PodPlayer
from .steps import Step, StepPlayer

#: A JSON object.
Json = dict[str, Any]


class Change(msgspec.Struct, frozen=True):
    """A pending pod, and an object before and after a change; null if it does not exist then."""

    pod: Pod
    old: msgspec.Raw = msgspec.Raw(b"null")
    new: msgspec.Raw = msgspec.Raw(b"null")


class Scenario(Question, frozen=True):
    """One line of a file of scenarios."""

    hints: tuple[Change, ...] = ()
    #: The pods whose claims are written after the last decision, in this order.
    late_pre_bind: tuple[str, ...] = msgspec.field(name="latePreBind", default=())
    steps: tuple[Step, ...] = ()


def read_scenarios(lines: Iterable[bytes], *, source: str) -> Iterator[Scenario]:
    """Yield one scenario per line, skipping blank lines. Raises `QuestionError`."""
    return read_questions(lines, Scenario, source=source)


def decided(
    scenario: Scenario,
    plugins: Iterable[type[Plugin] | str] = (),
    version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION,
) -> Json:
    """Return the decisions of a scenario as JSON."""
    return asyncio.run(_decided(scenario, list(plugins), version))


async def _decided(
    scenario: Scenario, plugins: Iterable[type[Plugin] | str], version: SchedulerVersion
) -> Json:
    config = scenario.configuration(version)
    options = SchedulerOptions(
        plugins=tuple(plugins),
        feature_gates=scenario.feature_gates(version),
        effective_version=EffectiveVersion.of(version),
        members_back_off=False,
    )
    outcome: Json = {"name": scenario.name}
    if scenario.steps:
        player = StepPlayer(config, options)
        for raw in scenario.objects:
            player.create(bytes(raw))
        outcome["steps"] = [await player.play(step) for step in scenario.steps]
        outcome["nodeOrder"] = player.node_order
    if scenario.hints or not scenario.steps:
        pods = PodPlayer(config, options)
        pods.api.load(scenario.objects_by_kind())
        if scenario.hints:
            outcome["hints"] = [
                hints_of(
                    pods.core.profiles,
                    change.pod,
                    bytes(change.old),
                    bytes(change.new),
                    pod_events(options.feature_gates, version),
                )
                for change in scenario.hints
            ]
        else:
            outcome["pods"] = await pods.play(scenario.pods, late=scenario.late_pre_bind)
            outcome["nodeOrder"] = pods.node_order
    return outcome
