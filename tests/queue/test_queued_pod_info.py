"""The queue's record of one pod."""

from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod

POD = PodInfo(make_pod())


def test_a_queued_pod_starts_without_a_history() -> None:
    queued = QueuedPodInfo(POD, timestamp=5.0)
    assert (queued.key, queued.uid, queued.timestamp) == (POD.key, POD.uid, 5.0)
    assert (queued.attempts, queued.unschedulable_count, queued.backoff_expiration) == (0, 0, 0.0)
    assert queued.initial_attempt_timestamp is None
    assert not queued.is_gated
    assert repr(queued) == "QueuedPodInfo(default/pod, attempts=0)"


def test_a_clone_of_a_queued_pod_has_a_history_of_its_own() -> None:
    queued = QueuedPodInfo(POD, timestamp=5.0)
    queued.unschedulable_plugins.add("A")
    clone = queued.clone()
    clone.unschedulable_plugins.add("B")
    clone.pending_plugins.add("C")
    clone.attempts += 1
    assert (queued.unschedulable_plugins, queued.pending_plugins) == ({"A"}, set())
    assert queued.attempts == 0
    assert clone.pod_info is POD


def test_clearing_the_rejectors_of_a_pod_opens_its_gate() -> None:
    queued = QueuedPodInfo(POD, timestamp=5.0)
    queued.unschedulable_plugins = {"A"}
    queued.pending_plugins = {"B"}
    queued.gating_plugin = "A"
    queued.clear_rejector_plugins()
    assert queued.unschedulable_plugins == queued.pending_plugins == set()
    assert not queued.is_gated
