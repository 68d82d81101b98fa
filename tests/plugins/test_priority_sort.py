"""PrioritySort."""

from scheduler.plugins.priority_sort import PrioritySort
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod


def queued(name: str, priority: int | None, timestamp: float) -> QueuedPodInfo:
    return QueuedPodInfo(PodInfo(make_pod(name, priority=priority)), timestamp=timestamp)


def test_higher_priority_goes_first_however_late_it_came() -> None:
    assert PrioritySort().less(queued("late", 100, 2.0), queued("early", 50, 1.0))
    assert not PrioritySort().less(queued("early", 50, 1.0), queued("late", 100, 2.0))


def test_of_equal_priority_the_earlier_one_goes_first() -> None:
    assert PrioritySort().less(queued("a", 1, 1.0), queued("b", 1, 1.5))
    assert not PrioritySort().less(queued("b", 1, 1.5), queued("a", 1, 1.0))


def test_no_pod_goes_before_its_equal() -> None:
    assert not PrioritySort().less(queued("a", 1, 1.0), queued("b", 1, 1.0))


def test_no_priority_is_zero() -> None:
    assert PrioritySort().less(queued("none", None, 1.0), queued("zero", 0, 2.0))
    assert PrioritySort().less(queued("none", None, 9.0), queued("negative", -1, 2.0))


def test_the_key_sorts_as_less_does() -> None:
    pods = [queued("c", 0, 3.0), queued("a", 7, 5.0), queued("d", None, 4.0), queued("b", 7, 6.0)]
    assert [p.pod_info.name for p in sorted(pods, key=PrioritySort().sort_key)] == list("abcd")
