"""Check that the requeue cases detect a broken hint: a hint that always skips fails a case."""

import itertools
from collections.abc import Iterable

import pytest

import scheduler.assembly.core
from conformance.format.case import Case, load_cases
from conformance.format.expectation import Expectation
from conformance.outcome import Verdict
from conformance.targets.target import TargetOptions
from scheduler.config import SchedulerVersion
from scheduler.framework.events import ClusterEvent, QueueingHint
from scheduler.framework.registrations import PluginEvents
from scheduler.queue.hints import QueueingHintFunction
from tests.conformance.cases import run_one
from tests.conformance.registered_events import (
    UNREACHABLE,
    cases_of,
    labels_of,
    registered_events,
    without_kind_of_pod,
)

HintMap = dict[ClusterEvent, list[QueueingHintFunction]]


pytestmark = pytest.mark.slow

_EVENTS = {
    plugin: [event for _, event in pairs]
    for plugin, pairs in itertools.groupby(
        [pair for pair in registered_events() if pair not in UNREACHABLE], lambda pair: pair[0]
    )
}


def _asks_for(case: Case, event: str) -> bool:
    """Return True if a case expects that event to bring a pod back."""
    for step in case.steps:
        if isinstance(step.action, Expectation) and step.action.requeued_by is not None:
            asked = step.action.requeued_by
            names = [asked] if isinstance(asked, str) else asked
            if event in map(without_kind_of_pod, names):
                return True
    return False


@pytest.mark.parametrize("plugin", sorted(_EVENTS))
def test_a_hint_that_always_skips_is_detected(plugin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build = scheduler.assembly.core.build_queueing_hint_map
    mute = ""

    def build_with_a_hint_that_skips(
        registered: Iterable[PluginEvents], version: SchedulerVersion
    ) -> HintMap:
        return {
            event: [
                function._replace(
                    queueing_hint_fn=lambda *_: QueueingHint.QUEUE_SKIP, depends_on=None
                )
                if function.plugin_name == plugin and mute in labels_of(event)
                else function
                for function in functions
            ]
            for event, functions in build(registered, version).items()
        }

    monkeypatch.setattr(
        scheduler.assembly.core, "build_queueing_hint_map", build_with_a_hint_that_skips
    )
    cases = load_cases([cases_of(plugin)])
    for event in _EVENTS[plugin]:
        mute = event
        verdicts = (
            run_one(case, TargetOptions()).verdict for case in cases if _asks_for(case, event)
        )
        assert Verdict.FAILED in verdicts, event  # the cases after the first that fails do not run
