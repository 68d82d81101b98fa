"""The pods in a pool of the queue."""

from collections.abc import Iterable

from scheduler.api.core import Pod
from scheduler.queue.queued_pod_info import QueuedPodInfo


def pods_of(pool: Iterable[QueuedPodInfo]) -> list[Pod]:
    return [info.pod_info.pod for info in pool]
