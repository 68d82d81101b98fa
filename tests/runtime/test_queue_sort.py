"""The order of the queue: by `less`, or by a sort key of the same order."""

from scheduler.config import Plugins
from scheduler.framework import Plugin
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.runtime import Framework
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod
from tests.runtime.profiles import BINDER, SORT, framework_of, plugin_set


class Reversed(PrioritySort):
    """The least important first; does not override the sort key that it inherits."""

    def less(self, first: QueuedPodInfo, second: QueuedPodInfo) -> bool:
        return super().less(second, first)


class Renamed(PrioritySort):
    """The same order by another name."""


def queued(priority: int) -> QueuedPodInfo:
    return QueuedPodInfo(PodInfo(make_pod("pod", priority=priority)), timestamp=1.0)


def sorted_by(sort: type[Plugin]) -> Framework:
    enabled = plugin_set(f"{sort.name} {BINDER.name}")
    return framework_of(sort, BINDER, plugins=Plugins(multi_point=enabled))


def has_key(sort: type[Plugin]) -> bool:
    return sorted_by(sort).sort_key is not None


def test_priority_sort_offers_its_order_as_a_key() -> None:
    framework = sorted_by(PrioritySort)
    assert framework.sort_key is not None
    assert framework.sort_key(queued(5)) < framework.sort_key(queued(3))
    assert framework.less(queued(5), queued(3))


def test_a_plugin_need_not_offer_a_key() -> None:
    assert not has_key(SORT)


def test_a_subclass_with_an_order_of_its_own_does_not_inherit_the_key() -> None:
    assert not has_key(Reversed)
    assert has_key(Renamed)
