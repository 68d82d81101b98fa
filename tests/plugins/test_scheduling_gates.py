"""SchedulingGates."""

import pytest

from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_pod
from tests.plugins.running import QUEUE, SKIP, UNRESOLVABLE, hint, verdict_of

from .volumes import plugin_with

PLUGIN: SchedulingGates = plugin_with(SchedulingGates, FakeHandle())


GATED = make_pod("gated", scheduling_gates=["foo", "bar"])


def test_a_pod_without_gates_may_enter_the_queue() -> None:
    assert PLUGIN.pre_enqueue(PodInfo(make_pod())) is None


def test_a_gated_pod_waits_for_all_of_its_gates() -> None:
    verdict = verdict_of(PLUGIN.pre_enqueue(PodInfo(GATED)))
    assert verdict == (UNRESOLVABLE, ("waiting for scheduling gates: [foo bar]",))


@pytest.mark.parametrize(("name", "expected"), [("gated", QUEUE), ("other", SKIP)])
def test_only_the_pod_that_loses_its_gates_is_tried_again(name: str, expected: str) -> None:
    old, new = make_pod(name, scheduling_gates=["foo"]), make_pod(name)
    assert hint(PLUGIN, GATED, old=old, new=new) == expected


def test_losing_one_of_two_gates_is_no_news() -> None:
    new = make_pod("gated", scheduling_gates=["bar"])
    assert hint(PLUGIN, GATED, old=GATED, new=new) is None
