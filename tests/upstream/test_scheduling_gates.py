"""SchedulingGates against upstream's own cases."""

import pytest

from scheduler.framework import EventResource
from scheduler.plugins.scheduling_gates import SchedulingGates
from tests.plugins.running import verdict_of
from tests.upstream.loading import Case, cases, verdict
from tests.upstream.running import hint, incoming, plugin_of


@pytest.mark.parametrize("case", cases("scheduling_gates", "pre_enqueue"))
def test_pre_enqueue(case: Case) -> None:
    status = plugin_of(SchedulingGates, case).pre_enqueue(incoming(case))
    assert verdict_of(status) == verdict(case.get("pre_enqueue"))


@pytest.mark.parametrize("case", cases("scheduling_gates", "hints"))
def test_the_hint_of_an_event_is_upstreams(case: Case) -> None:
    assert hint(plugin_of(SchedulingGates, case), case, EventResource.POD) == case["hint"]
