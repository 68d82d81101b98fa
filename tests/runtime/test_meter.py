"""Durations of extension points and plugins, and the number of evaluations of plugins."""

import pytest

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import skip, unschedulable
from scheduler.metrics import SchedulerMetrics
from scheduler.runtime.meter import Meter


class Bench:
    """A meter whose stopwatch is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.metrics = SchedulerMetrics(lambda: self.seconds)
        self.meter = Meter(self.metrics, "p")

    @property
    def points(self) -> dict[tuple[str, ...], float]:
        found = self.metrics.framework_extension_point_duration.by_labels
        return {labels: histogram.sum for labels, histogram in found.items()}

    @property
    def plugins(self) -> dict[tuple[str, ...], float]:
        found = self.metrics.plugin_execution_duration.by_labels
        return {labels: histogram.sum for labels, histogram in found.items()}


def test_a_point_is_measured_by_its_status() -> None:
    bench = Bench()
    for status in (None, skip(), unschedulable("no"), None):
        with bench.meter.point("PreFilter") as timing:
            bench.seconds += 1.0
            timing.status = status
    assert bench.points == {
        ("PreFilter", "Success", "p"): 2.0,
        ("PreFilter", "Skip", "p"): 1.0,
        ("PreFilter", "Unschedulable", "p"): 1.0,
    }


def test_an_exception_is_an_error_and_goes_on() -> None:
    bench = Bench()
    with pytest.raises(RuntimeError), bench.meter.point("Filter"):
        raise RuntimeError
    with bench.meter.point("Filter"):
        pass
    assert set(bench.points) == {("Filter", "Error", "p"), ("Filter", "Success", "p")}


def test_points_that_wait_do_not_disturb_one_another() -> None:
    bench = Bench()
    first, second = bench.meter.waiting_point("Bind"), bench.meter.waiting_point("Bind")
    with first as outer:
        bench.seconds += 1.0
        with second as inner:
            bench.seconds += 2.0
            inner.status = unschedulable("no")
        outer.status = None
    assert bench.points == {("Bind", "Success", "p"): 3.0, ("Bind", "Unschedulable", "p"): 2.0}


def test_plugins_are_measured_only_in_sampled_cycles() -> None:
    bench = Bench()
    for measures in (True, False):
        state = CycleState(records_plugin_metrics=measures)
        with bench.meter.plugin(state, "NodeName", "Filter") as timing:
            bench.seconds += 1.0
            timing.status = unschedulable("no")
    assert bench.plugins == {("NodeName", "Filter", "Unschedulable"): 1.0}


def test_a_clone_of_a_state_is_measured_as_the_original() -> None:
    assert CycleState(records_plugin_metrics=True).clone().records_plugin_metrics
    assert not CycleState().clone().records_plugin_metrics


def test_evaluations_are_counted_from_zero() -> None:
    bench = Bench()
    cell = bench.meter.evaluations("NodeName", "Filter")
    assert bench.metrics.plugin_evaluations.numbers() == {("NodeName", "Filter", "p"): 0}
    cell[0] += 5
    bench.meter.evaluations("NodeName", "Filter")[0] += 2
    assert bench.metrics.plugin_evaluations.numbers() == {("NodeName", "Filter", "p"): 7}
