"""PrioritySort: `queuesort/priority_sort.go`."""

from __future__ import annotations

from scheduler.queue.queued_pod_info import QueuedPodInfo


def less(first: QueuedPodInfo, second: QueuedPodInfo) -> bool:
    one = first.pod_info.pod.spec.priority or 0
    other = second.pod_info.pod.spec.priority or 0
    if one != other:
        return one > other
    return first.timestamp < second.timestamp
