"""Every event that a plugin of the default profile is told of has its case in `cases/requeue`."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

from conformance.case import BUILT_IN, Expectation, load_cases
from scheduler.config import default_config
from scheduler.framework.events import ActionType
from scheduler.profiles import build_profiles
from scheduler.queue import build_queueing_hint_map
from scheduler.runtime import SchedulerParts, WaitingPods
from scheduler.snapshot import Snapshot
from scheduler.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduler.framework.events import ClusterEvent

REQUEUE = BUILT_IN / "requeue"

#: What no pod can wait for, and why; conformance/README.md says more.
UNREACHABLE = {
    ("NodeName", "NodeAdd"): "a pod that names its node is not scheduled",
    ("NodeName", "NodeUpdateNodeTaint"): "a pod that names its node is not scheduled",
    ("DefaultPreemption", "PodDelete"): "its hint says no to all",
    ("NodeDeclaredFeatures", "PodUpdate"): "no update that the API allows changes what it needs",
}


def _labels(event: ClusterEvent) -> Iterator[str]:
    """What metrics call the events that this registration lets through."""
    actions = event.action_type
    if actions & ActionType.UPDATE == ActionType.UPDATE:
        yield f"{event.resource}Update"
        actions &= ~ActionType.UPDATE
    for action in ActionType:  # single bits only
        if action & actions:
            yield f"{event.resource}{action}"


def _pairs() -> list[tuple[str, str]]:
    clock = VirtualClock()
    parts = SchedulerParts(
        snapshot=Snapshot(), clock=clock, rng=random.Random(0), waiting_pods=WaitingPods(clock)
    )
    (framework,) = build_profiles(default_config(), parts).values()
    hints = build_queueing_hint_map(framework.rejecting_plugins)
    return sorted(
        {
            (function.plugin_name, label)
            for event, functions in hints.items()
            for function in functions
            for label in _labels(event)
        }
    )


def _asked_of(plugin: str) -> set[str]:
    """The events that the cases of a plugin ask for, by name, of any kind of pod."""
    file = REQUEUE / f"{re.sub('(?<!^)(?=[A-Z])', '_', plugin).lower()}.yaml"
    if not file.exists():
        return set()
    found = set()
    for case in load_cases([file]):
        for step in case.steps:
            if isinstance(step.action, Expectation) and step.action.requeued_by is not None:
                events = step.action.requeued_by
                found |= {events} if isinstance(events, str) else set(events)
    return {re.sub("^(Assigned|Unschedulable)Pod", "Pod", event) for event in found}


@pytest.mark.parametrize(("plugin", "event"), _pairs())
def test_every_registered_event_has_a_case(plugin: str, event: str) -> None:
    if (plugin, event) in UNREACHABLE:
        assert event not in _asked_of(plugin)
    else:
        assert event in _asked_of(plugin)
