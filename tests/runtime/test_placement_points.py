"""The extension points of pod groups: their plugins and weights."""

import pytest

from scheduler.config import KubeSchedulerProfile, Plugins, PluginSet
from scheduler.config import Plugin as PluginEntry
from scheduler.framework import Plugin
from scheduler.framework.cycle_state import CycleState
from scheduler.plugins import IN_TREE
from scheduler.runtime import Framework, PluginSetupError, Registry
from scheduler.testing import FakeHandle


class Halves(Plugin):
    def generate_placements(
        self, state: CycleState, pod_group: object, parent: object
    ) -> list[object]:
        return [parent]


class Quarters(Halves):
    pass


class Tightness(Plugin):
    def score_placement(self, state: CycleState, pod_group: object, assignments: object) -> int:
        return 0


def framework(*enabled: str, placement_score: PluginSet | None = None) -> Framework:
    names = ["PrioritySort", "DefaultBinder", *enabled]
    plugins = Plugins(
        multi_point=PluginSet(enabled=tuple(PluginEntry(name=name) for name in names)),
        placement_score=placement_score or PluginSet(),
    )
    return Framework(
        KubeSchedulerProfile(scheduler_name="groups", plugins=plugins),
        registry=Registry([*IN_TREE.values(), Halves, Quarters, Tightness]),
        make_handle=FakeHandle().make,
    )


def test_a_plugin_that_generates_or_scores_placements_takes_part_there() -> None:
    groups = framework("Halves", "Tightness")
    assert [plugin.name for plugin in groups.plugins["placement_generate"]] == ["Halves"]
    assert [plugin.name for plugin in groups.plugins["placement_score"]] == ["Tightness"]
    assert groups.placement_weights == {"Tightness": 1}
    assert groups.weights == {}


def test_the_weight_given_for_the_point_goes_before_that_of_multi_point() -> None:
    entry = PluginEntry(name="Tightness", weight=7)
    groups = framework("Tightness", placement_score=PluginSet(enabled=(entry,)))
    assert groups.placement_weights == {"Tightness": 7}


def test_a_profile_has_one_plugin_at_most_that_generates_placements() -> None:
    with pytest.raises(PluginSetupError) as error:
        framework("Halves", "Quarters")
    assert str(error.value) == (
        'at most one placement generate plugin is allowed for profile with scheduler name "groups"'
    )


def test_placement_weights_must_not_add_up_to_more_than_a_score_can_hold() -> None:
    entry = PluginEntry(name="Tightness", weight=2**62)
    with pytest.raises(PluginSetupError) as error:
        framework("Tightness", placement_score=PluginSet(enabled=(entry,)))
    assert str(error.value) == (
        "placement score plugins: total score of Score plugins could overflow"
    )
