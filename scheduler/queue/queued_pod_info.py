"""The queue's record of one pod: the pod and its history in the queue.

Source: `QueuedPodInfo` in `pkg/scheduler/framework/types.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.events import ClusterEvent
    from scheduler.snapshot.pod_info import PodInfo


class QueuedPodInfo:
    """A pod in the scheduling queue, with its history there. Times are epoch seconds."""

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "consecutive_errors_count",
        "gating_plugin",
        "gating_plugin_events",
        "initial_attempt_timestamp",
        "pending_plugins",
        "pod_info",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed_from_unschedulable",
    )

    def __init__(self, pod_info: PodInfo, *, timestamp: float) -> None:
        self.pod_info = pod_info
        #: When the pod last entered the queue.
        self.timestamp = timestamp
        #: How many scheduling cycles it has had.
        self.attempts = 0
        #: When its backoff ends; 0 while it has none.
        self.backoff_expiration = 0.0
        #: How many of the attempts found it unschedulable: the exponent of its backoff.
        self.unschedulable_count = 0
        #: How many attempts in a row failed with an error: likewise, to spare the API server.
        self.consecutive_errors_count = 0
        #: Whether only the flush of the unschedulable pods brought it back, not an event.
        self.was_flushed_from_unschedulable = False
        #: When it first became active; None until then.
        self.initial_attempt_timestamp: float | None = None
        #: Who turned it down in the last attempt.
        self.unschedulable_plugins: set[str] = set()
        #: Who had it wait for something outside in the last attempt.
        self.pending_plugins: set[str] = set()
        #: The PreEnqueue plugin that keeps it out of the queue, "" if none does.
        self.gating_plugin = ""
        #: The events that plugin has registered for.
        self.gating_plugin_events: Sequence[ClusterEvent] = ()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.pod_info.key

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod_info.uid

    @property
    def is_gated(self) -> bool:
        """Whether a PreEnqueue plugin keeps it out of the queue."""
        return bool(self.gating_plugin)

    def clear_rejector_plugins(self) -> None:
        """Forget who turned the pod down, before a new verdict is recorded."""
        self.unschedulable_plugins = set()
        self.pending_plugins = set()
        self.gating_plugin = ""
        self.gating_plugin_events = ()

    def clone(self) -> QueuedPodInfo:
        """A copy that may change on its own."""
        twin = QueuedPodInfo.__new__(QueuedPodInfo)
        for name in QueuedPodInfo.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.unschedulable_plugins = set(self.unschedulable_plugins)
        twin.pending_plugins = set(self.pending_plugins)
        return twin

    def __repr__(self) -> str:
        return f"QueuedPodInfo({self.key}, attempts={self.attempts})"
