"""The books of scheduling attempts: what is counted, measured and remembered of each."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.cache import CacheDifference
from scheduler.cycle.attempt_recorder import AttemptRecorder
from scheduler.framework.status import error, unschedulable
from scheduler.framework.types import NominatingInfo, NominatingMode, QueuedPodInfo
from scheduler.metrics import SchedulerMetrics
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import VirtualClock, make_pod

PROFILE = "default-scheduler"
CLEARED = NominatingInfo("", NominatingMode.OVERRIDE)


class Books:
    """A recorder whose stopwatch is moved by hand."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.seconds = 0.0
        self.metrics = SchedulerMetrics(lambda: self.seconds)
        self.recorder = AttemptRecorder(clock=self.clock, metrics=self.metrics)

    def story(self, name: str = "web") -> list[dict[str, Any]]:
        story = self.recorder.stories.told("default", name)
        assert story is not None
        entries: list[dict[str, Any]] = msgspec.json.decode(story)["entries"]
        return entries


def queued(*, attempts: int = 1, flushed: bool = False, nominated: str = "") -> QueuedPodInfo:
    info = QueuedPodInfo(PodInfo(make_pod("web", nominated_node_name=nominated)), timestamp=0.0)
    info.attempts = attempts
    info.was_flushed_from_unschedulable = flushed
    return info


def test_a_bound_pod_counts_from_the_start_of_its_attempt() -> None:
    books = Books()
    started = books.recorder.start()
    books.seconds += 0.5
    books.recorder.bound(PROFILE, queued(attempts=3), "n1", started)
    assert books.metrics.schedule_attempts == {("scheduled", PROFILE): 1}
    duration = books.metrics.scheduling_attempt_duration.by_labels["scheduled", PROFILE]
    assert duration.sum == 0.5
    assert books.metrics.pod_scheduling_attempts.sum == 3
    assert [entry["text"] for entry in books.story()] == ["bound to n1"]


def test_the_time_since_a_pod_was_first_active_is_told_by_its_attempts() -> None:
    books = Books()
    for attempts in (2, 14, 15, 99):
        info = queued(attempts=attempts)
        info.initial_attempt_timestamp = books.clock.now() - 7.0
        books.recorder.bound(PROFILE, info, "n1", 0.0)
    by_attempts = books.metrics.pod_scheduling_sli_duration.by_labels
    assert {labels[0]: found.total for labels, found in by_attempts.items()} == {
        "2": 1,
        "14": 1,
        "15+": 2,
    }
    assert by_attempts[("2",)].sum == 7.0


def test_a_pod_that_only_a_flush_has_brought_back_is_counted() -> None:
    books = Books()
    books.recorder.bound(PROFILE, queued(), "n1", 0.0)
    assert books.metrics.pod_scheduled_after_flush[()] == 0
    books.recorder.bound(PROFILE, queued(flushed=True), "n1", 0.0)
    assert books.metrics.pod_scheduled_after_flush[()] == 1


def test_a_rejection_and_an_error_are_told_apart() -> None:
    books = Books()
    books.recorder.failed(PROFILE, queued(), unschedulable("no room"), None, 0.0)
    books.recorder.failed(PROFILE, queued(attempts=2), error(ValueError("a bug")), None, 0.0)
    assert books.metrics.schedule_attempts == {
        ("unschedulable", PROFILE): 1,
        ("error", PROFILE): 1,
    }
    assert [entry["text"] for entry in books.story()] == [
        "attempt 1: unschedulable: no room",
        "attempt 2: error: a bug",
    ]


def test_a_nomination_is_remembered_when_it_is_made_or_given_up() -> None:
    books = Books()
    made = NominatingInfo("n1", NominatingMode.OVERRIDE)
    books.recorder.failed(PROFILE, queued(), unschedulable("no room"), made, 0.0)
    books.recorder.failed(PROFILE, queued(nominated="n1"), unschedulable("no"), CLEARED, 0.0)
    books.recorder.failed(PROFILE, queued(), unschedulable("no"), CLEARED, 0.0)
    told = [entry["text"] for entry in books.story() if entry["kind"] == "nominated"]
    assert told == ["nominated to n1", "nominated to no node"]


def test_plugins_are_measured_in_the_first_cycle_of_every_ten() -> None:
    recorder = Books().recorder
    sampled = []
    for cycle in range(21):
        recorder.start()
        if recorder.samples_plugins:
            sampled.append(cycle)
    assert sampled == [0, 10, 20]


def test_a_comparison_of_the_cache_is_counted_and_its_outcome_stands_until_the_next() -> None:
    books = Books()
    books.recorder.cache_compared(CacheDifference(missed_nodes=("a", "b"), redundant_pods=("p",)))
    assert books.metrics.cache_divergence == {
        ("nodes", "missed"): 2,
        ("nodes", "redundant"): 0,
        ("pods", "missed"): 0,
        ("pods", "redundant"): 1,
    }
    books.recorder.cache_compared(CacheDifference())
    assert set(books.metrics.cache_divergence.values()) == {0}
    assert books.metrics.cache_comparisons == {("different",): 1, ("equal",): 1}
