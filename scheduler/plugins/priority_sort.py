"""PrioritySort: which waiting pod is tried first.

The pod with the higher priority goes first, then the one that has entered the queue earlier.
Mirrors `pkg/scheduler/framework/plugins/queuesort/priority_sort.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.interface import Plugin

if TYPE_CHECKING:
    from scheduler.framework.types import QueuedPod


class PrioritySort(Plugin):
    """Higher priority first, then first come, first served."""

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        """Whether the first pod goes before the second; False for two that rank equal."""
        return self.sort_key(first) < self.sort_key(second)

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        """The same order as a key, for a queue that would rather compare keys than pods.

        Valid as long as the pod's priority and its time of entry are.
        """
        return -queued.pod_info.priority, queued.timestamp
