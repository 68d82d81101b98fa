"""PrioritySort against upstream's own cases."""

import pytest

from scheduler.plugins.priority_sort import PrioritySort
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod
from tests.plugins.running import build
from tests.upstream.loading import Case, Fields, cases


def queued(entry: Fields) -> QueuedPodInfo:
    info = PodInfo(make_pod(priority=entry["priority"]))
    return QueuedPodInfo(info, timestamp=entry["queued_at_seconds"])


@pytest.mark.parametrize("case", cases("priority_sort", "less"))
def test_pods_have_upstreams_order(case: Case) -> None:
    plugin = build(PrioritySort)
    assert plugin.less(queued(case["first"]), queued(case["second"])) is case["less"]
