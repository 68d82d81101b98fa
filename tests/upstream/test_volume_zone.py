"""VolumeZone against upstream's own cases."""

import pytest

from scheduler.framework import CycleState, EventResource
from scheduler.plugins.volume_zone import VolumeZone
from tests.upstream.loading import Case, cases, verdict, verdicts
from tests.upstream.running import filter_statuses, hint, plugin_of, pre_filter


@pytest.mark.parametrize("case", cases("volume_zone", "filter"))
def test_the_same_nodes_are_rejected_for_the_same_reasons(case: Case) -> None:
    """Upstream's test runs Filter even after PreFilter has skipped or rejected the pod."""
    plugin, state = plugin_of(VolumeZone, case), CycleState()
    assert pre_filter(plugin, case, state) == verdict(case.get("pre_filter"))
    assert filter_statuses(plugin, case, state) == verdicts(case["statuses"])


@pytest.mark.parametrize("case", cases("volume_zone", "hints"))
def test_the_hint_of_an_event_is_upstreams(case: Case) -> None:
    plugin = plugin_of(VolumeZone, case)
    assert hint(plugin, case, EventResource(case["event"])) == case["hint"]
