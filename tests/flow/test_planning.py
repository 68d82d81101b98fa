"""The parts of a plan: classes, slots and arguments."""

from __future__ import annotations

import sys
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.flow import FlowPlacement
from scheduler.flow.args import FlowPlacementArgs
from scheduler.flow.classes import classes_of
from scheduler.flow.trial import rising
from scheduler.runtime import PluginSetupError
from scheduler.snapshot import PodInfo
from scheduler.testing import NotJudgedWarning, check_plugin, make_plugin, make_pod
from tests.flow.clusters import cluster_of


def test_equal_pods_are_a_class() -> None:
    pods = [
        make_pod("a", requests={"cpu": "1"}),
        make_pod("b", requests={"cpu": "2"}),
        make_pod("c", requests={"cpu": "1"}, volumes=[{"name": "scratch", "emptyDir": {}}]),
        make_pod("d", requests={"cpu": "1"}, labels={"app": "web"}),
        make_pod("e", requests={"cpu": "1"}, priority=1),
    ]
    classes = classes_of(map(PodInfo, pods))
    names = [[pod.name for pod in each.pods] for each in classes]
    assert names == [["a", "c"], ["b"], ["d"], ["e"]]


def test_one_pod_of_a_class_that_depends_on_other_nodes_is_planned() -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    for fields in ({"spread": [spread]}, {"volumes": [volume]}):
        [one] = classes_of(PodInfo(make_pod(f"p-{i}", **fields)) for i in range(3))
        assert [pod.name for pod in one.pods] == ["p-0"]


@given(st.lists(st.integers(-100, 100), max_size=8))
def test_costs_rise_and_are_no_more_in_sum(costs: list[int]) -> None:
    levelled = rising(costs)
    assert levelled == sorted(levelled)
    assert len(levelled) == len(costs)
    # Means are rounded.
    rounding = len(costs)
    for ours, given_costs in zip(accumulate(levelled), accumulate(costs), strict=True):
        assert ours <= given_costs + rounding
    assert abs(sum(levelled) - sum(costs)) <= rounding


def test_costs_that_rise_stay_as_they_are() -> None:
    assert rising([1, 1, 3, 9]) == [1, 1, 3, 9]
    assert rising([5, 3, 1, 9]) == [3, 3, 3, 9]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"costModel": "Cheap"},
            'costModel: Unsupported value: "Cheap": supported values: "ProfileScores", "Octopus", '
            '"CpuMemory", "Locality", "Network"',
        ),
        ({"batchSize": 1}, "batchSize: Invalid value: 1: must be between 2 and 2000"),
        ({"candidates": 0}, "candidates: Invalid value: 0: must be greater than 0"),
        (
            {"costModel": "Network"},
            "bandwidthResource: Required value: must name an extended resource for the cost model "
            "Network",
        ),
        ({"rackLabel": "a b"}, 'rackLabel: Invalid value: "a b": name part must consist of'),
        ({"batchsize": 7}, "batchsize"),
        ({"batchSize": "7"}, "batchSize"),
    ],
)
def test_bad_arguments_are_refused_by_name(args: dict[str, object], message: str) -> None:
    with pytest.raises(Exception, match="FlowPlacement") as refusal:
        make_plugin(FlowPlacement, args=args)
    assert message in str(refusal.value)


def test_the_defaults_are_valid() -> None:
    plugin = make_plugin(FlowPlacement)
    assert plugin.args == FlowPlacementArgs()


@pytest.mark.slow
def test_it_is_a_good_plugin() -> None:
    # Batches and groups need a whole scheduler, and are in test_flow_placement.py.
    with pytest.warns(NotJudgedWarning, match="generate_placements was never called"):
        check_plugin(FlowPlacement, seeds=range(3))


def test_without_the_solver_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("scheduler.flow")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(PluginSetupError) as refusal:
        cluster_of([])
    assert str(refusal.value).endswith(
        'plugin "scheduler.flow:FlowPlacement": cannot import: FlowPlacement needs the package '
        "highspy: pip install 'kubesched[flow]' (import of highspy halted; None in sys.modules)"
    )
