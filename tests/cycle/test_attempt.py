"""Attempts: their metrics and their entries in stories."""

from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.cycle.attempt import Attempt, Attempts
from scheduler.cycle.schedule_pod import ScheduleResult
from scheduler.framework.status import NodeToStatus, Status, error, unschedulable
from scheduler.framework.types import Diagnosis, FitError, NominatingInfo, NominatingMode
from scheduler.metrics import SchedulerMetrics
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.runtime.scoring import NodeScores
from scheduler.snapshot.pod_info import PodInfo
from scheduler.stories import PodStories
from scheduler.testing import FakeHandle, VirtualClock, make_node, make_pod, snapshot_of
from tests.runtime.profiles import framework_of

PROFILE = "tested"
CLEARED = NominatingInfo("", NominatingMode.OVERRIDE)
SNAPSHOT = snapshot_of([make_node("n0"), make_node("n1")])


class Setup:
    """Attempts with a stopwatch that is moved by hand."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.seconds = 0.0
        self.metrics = SchedulerMetrics(lambda: self.seconds)
        self.stories = PodStories()
        self.attempts = Attempts(clock=self.clock, metrics=self.metrics, stories=self.stories)
        self._framework = framework_of(handle=FakeHandle(SNAPSHOT))

    def start(self, queued: QueuedPodInfo | None = None) -> Attempt:
        return self.attempts.start(self._framework, queued or queued_pod())

    def story(self, name: str = "web") -> list[dict[str, Any]]:
        story = self.stories.as_json("default", name)
        assert story is not None
        entries: list[dict[str, Any]] = msgspec.json.decode(story)["entries"]
        return entries


def queued_pod(*, attempts: int = 1, flushed: bool = False, nominated: str = "") -> QueuedPodInfo:
    info = QueuedPodInfo(PodInfo(make_pod("web", nominated_node_name=nominated)), timestamp=0.0)
    info.attempts = attempts
    info.was_flushed_from_unschedulable = flushed
    return info


def on_n1() -> ScheduleResult:
    return ScheduleResult(
        suggested_host="n1",
        evaluated_nodes=2,
        feasible_nodes=SNAPSHOT.nodes,
        diagnosis=Diagnosis(NodeToStatus(SNAPSHOT.table.names, SNAPSHOT.table.row_of)),
        scores=NodeScores({"Fit": np.array([3, 7])}, np.array([3, 7])),
        position=1,
    )


def test_a_placed_attempt_has_its_node_and_leaves_the_popped_pod_alone() -> None:
    setup, queued = Setup(), queued_pod()
    attempt = setup.start(queued)
    setup.seconds += 0.25
    attempt.placed(on_n1())
    assert (attempt.host, attempt.pod.spec.node_name) == ("n1", "n1")
    assert queued.pod_info.spec.node_name == ""
    assert setup.metrics.scheduling_algorithm_duration.sum == 0.25
    [entry] = setup.story()
    assert (entry["node"], entry["scores"]) == ("n1", {"Fit": 7})
    assert (entry["evaluated_nodes"], entry["feasible_nodes"]) == (2, 2)


def test_a_bound_pod_counts_from_the_start_of_its_attempt() -> None:
    setup = Setup()
    attempt = setup.start(queued_pod(attempts=3))
    attempt.placed(on_n1())
    setup.seconds += 0.5
    attempt.bound()
    assert setup.metrics.schedule_attempts == {("scheduled", PROFILE): 1}
    duration = setup.metrics.scheduling_attempt_duration.by_labels["scheduled", PROFILE]
    assert duration.sum == 0.5
    assert setup.metrics.pod_scheduling_attempts.sum == 3
    assert [entry["text"] for entry in setup.story()][1:] == ["bound to n1"]


def test_the_time_since_a_pod_was_first_active_is_labelled_with_its_attempts() -> None:
    setup = Setup()
    for attempts in (2, 14, 15, 99):
        queued = queued_pod(attempts=attempts)
        queued.initial_attempt_timestamp = setup.clock.now() - 7.0
        setup.start(queued).bound()
    by_attempts = setup.metrics.pod_scheduling_sli_duration.by_labels
    assert {labels[0]: found.total for labels, found in by_attempts.items()} == {
        "2": 1,
        "14": 1,
        "15+": 2,
    }
    assert by_attempts[("2",)].sum == 7.0


def test_a_pod_that_only_a_flush_has_brought_back_is_counted() -> None:
    setup = Setup()
    setup.start().bound()
    assert setup.metrics.pod_scheduled_after_flush[()] == 0
    setup.start(queued_pod(flushed=True)).bound()
    assert setup.metrics.pod_scheduled_after_flush[()] == 1


def test_a_rejection_and_an_error_are_counted_separately() -> None:
    setup = Setup()
    setup.start().failed(unschedulable("no room"), None)
    setup.start(queued_pod(attempts=2)).failed(error(ValueError("a bug")), None)
    assert setup.metrics.schedule_attempts == {
        ("unschedulable", PROFILE): 1,
        ("error", PROFILE): 1,
    }
    assert [entry["text"] for entry in setup.story()] == [
        "attempt 1: unschedulable: no room",
        "attempt 2: error: a bug",
    ]


def test_the_algorithm_is_measured_once_for_each_attempt() -> None:
    setup = Setup()
    setup.start().failed(unschedulable("no room"), None)
    placed = setup.start()
    placed.placed(on_n1())
    placed.failed(error(ValueError("no etcd")), None)
    assert setup.metrics.scheduling_algorithm_duration.total == 2


def test_a_nomination_is_recorded_when_it_is_made_or_cleared() -> None:
    setup = Setup()
    made = NominatingInfo("n1", NominatingMode.OVERRIDE)
    setup.start().failed(unschedulable("no room"), made)
    setup.start(queued_pod(nominated="n1")).failed(unschedulable("no"), CLEARED)
    setup.start().failed(unschedulable("no"), CLEARED)
    texts = [entry["text"] for entry in setup.story() if entry["kind"] == "nominated"]
    assert texts == ["nominated to n1", "nominated to no node"]


@pytest.mark.parametrize("rejected", [True, False])
def test_only_a_rejection_is_wrapped_in_a_fit_error_about_the_host(rejected: bool) -> None:
    attempt = Setup().start()
    attempt.placed(on_n1())
    status = unschedulable("no").with_plugin("P") if rejected else error(ValueError("a bug"))
    wrapped: Status = attempt.on_host_only(status)
    if rejected:
        assert wrapped.message == "0/1 nodes are available: 1 no."
        assert isinstance(wrapped.cause, FitError)
        assert wrapped.cause.diagnosis.unschedulable_plugins == {"P"}
    else:
        assert wrapped is status


def test_plugins_are_measured_in_the_first_cycle_of_every_ten() -> None:
    setup = Setup()
    sampled = [cycle for cycle in range(21) if setup.start().state.records_plugin_metrics]
    assert sampled == [0, 10, 20]
