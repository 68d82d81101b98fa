"""PrioritySort, beyond upstream's table (`tests/upstream`)."""

from scheduler.plugins.priority_sort import PrioritySort
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod


def queued(name: str, priority: int | None, timestamp: float) -> QueuedPodInfo:
    return QueuedPodInfo(PodInfo(make_pod(name, priority=priority)), timestamp=timestamp)


def test_no_pod_goes_before_its_equal() -> None:
    assert not PrioritySort().less(queued("a", 1, 1.0), queued("b", 1, 1.0))


def test_the_key_sorts_as_less_does() -> None:
    pods = [queued("c", 0, 3.0), queued("a", 7, 5.0), queued("d", None, 4.0), queued("b", 7, 6.0)]
    assert [p.pod_info.name for p in sorted(pods, key=PrioritySort().sort_key)] == list("abcd")
