"""PrioritySort: the order of the active queue, by priority, then by time of entry.

Mirrors `pkg/scheduler/framework/plugins/queuesort/priority_sort.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.interface import Plugin

if TYPE_CHECKING:
    from scheduler.framework.types import QueuedPod


class PrioritySort(Plugin):
    """Sort by priority, highest first, then by time of entry."""

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        """True if the first pod goes before the second; False if they are equal."""
        return self.sort_key(first) < self.sort_key(second)

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        """Return the same order as a key; valid until the priority or the timestamp changes."""
        return -queued.pod_info.priority, queued.timestamp
