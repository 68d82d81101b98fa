"""A pod in the scheduling queue, the places it can be in, and the moves between them.

Source: `QueuedPodInfo` in `k8s.io/kube-scheduler/framework/types.go`; places and moves are ours.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduler.framework.events import ClusterEvent
    from scheduler.framework.failures import PluginFailure
    from scheduler.snapshot.pod_info import PodInfo


class Place(enum.StrEnum):
    """The place of a pod. The first four are the labels of upstream's metric `pending_pods`."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    #: Popped, and neither given back nor done.
    IN_FLIGHT = "in-flight"
    #: Not in the queue.
    OUTSIDE = "outside"


#: The places from which a pod can be popped.
POPPABLE: Final = (Place.ACTIVE, Place.BACKOFF)
#: The places of pods that wait for an event.
WAITING: Final = (Place.UNSCHEDULABLE, Place.GATED)
#: The places that a pod leaves after some time, if no event moves it before.
_TIMED: Final = (Place.BACKOFF, *WAITING)


class CountedReasons(NamedTuple):
    """The pods that a version counts in the metric `unschedulable_pods`."""

    #: The places whose pods are counted down if they are deleted.
    without_deleted: tuple[Place, ...]
    #: True if each further rejection of a gated pod adds one, which nothing subtracts.
    each_rejection: bool = False


COUNTED_IN_1_36: Final = CountedReasons(WAITING)


class QueuedPodInfo:
    """A pod in the scheduling queue, with its history there. Times are epoch seconds."""

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "consecutive_errors_count",
        "flushed_at",
        "gating_plugin",
        "gating_plugin_events",
        "initial_attempt_timestamp",
        "pending_plugins",
        "place",
        "pod_info",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed_from_unschedulable",
    )

    def __init__(self, pod_info: PodInfo, *, timestamp: float) -> None:
        self.pod_info = pod_info
        #: Where the pod is now. Only the queue and its pools change it.
        self.place = Place.OUTSIDE
        #: When the pod last entered the queue.
        self.timestamp = timestamp
        #: The number of scheduling cycles so far.
        self.attempts = 0
        #: When the backoff ends; 0 without a backoff.
        self.backoff_expiration = 0.0
        #: The number of attempts that found the pod unschedulable: the exponent of its backoff.
        self.unschedulable_count = 0
        #: The number of errors in a row. If not 0, it is the exponent of the backoff instead.
        self.consecutive_errors_count = 0
        #: True if the flush of the unschedulable pods brought it back, not an event.
        self.was_flushed_from_unschedulable = False
        #: When the flush last found the pod, in 1.37; 0 before.
        self.flushed_at = 0.0
        #: When the pod first became active; None before.
        self.initial_attempt_timestamp: float | None = None
        #: The plugins that rejected the pod in its last attempt.
        self.unschedulable_plugins: set[str] = set()
        #: The plugins that let the pod wait for something external in its last attempt.
        self.pending_plugins: set[str] = set()
        #: The PreEnqueue plugin that keeps the pod out of the queue, "" if none does.
        self.gating_plugin = ""
        #: The events that the gating plugin has registered for.
        self.gating_plugin_events: Sequence[ClusterEvent] = ()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.pod_info.key

    @property
    def uid(self) -> str:
        return self.pod_info.uid

    @property
    def waits_since(self) -> float:
        """The time from which on the flush counts."""
        return max(self.timestamp, self.flushed_at)

    @property
    def is_gated(self) -> bool:
        return bool(self.gating_plugin)

    @property
    def rejector_plugins(self) -> set[str]:
        """All plugins because of which the pod waits, pending plugins included."""
        return self.unschedulable_plugins | self.pending_plugins

    def clear_rejector_plugins(self) -> None:
        """Remove all rejections, before a new attempt records its own."""
        self.unschedulable_plugins = set()
        self.pending_plugins = set()
        self.gating_plugin = ""
        self.gating_plugin_events = ()

    def clone(self) -> QueuedPodInfo:
        """Return a copy that can be changed independently."""
        copy = QueuedPodInfo.__new__(QueuedPodInfo)
        for name in QueuedPodInfo.__slots__:
            setattr(copy, name, getattr(self, name))
        copy.unschedulable_plugins = set(self.unschedulable_plugins)
        copy.pending_plugins = set(self.pending_plugins)
        return copy

    def __repr__(self) -> str:
        return f"QueuedPodInfo({self.key}, attempts={self.attempts})"


class HintAnswer(NamedTuple):
    """The answer of a plugin's queueing hint to an event: `Queue`, `QueueSkip`, or the exception.

    An exception is `Error: ` with its type and text.
    """

    plugin_name: str
    event_label: str
    answer: str


class Move(NamedTuple):
    """A move of a pod from one place to another. `at` is in epoch seconds.

    `event_label` is the cause, as in metrics; it is empty for a pod that was popped, deleted or
    done. `hints` are the answers of the hints that were called. If an event does not move the pod,
    `target` equals `source`. `failure` is the exception of a PreEnqueue plugin that gates the pod.
    """

    at: float
    pod: QueuedPodInfo
    source: Place
    target: Place
    event_label: str = ""
    hints: tuple[HintAnswer, ...] = ()
    failure: PluginFailure | None = None


class HintsSkipped(NamedTuple):
    """An event for which the hints returned `QueueSkip`, for several alike pods at once.

    `pods` are by `namespace/name`: a view, which pods leave when they leave the unschedulable
    pods. `hints` are the answers for each of the pods.
    """

    at: float
    pods: Mapping[str, QueuedPodInfo]
    place: Place
    event_label: str
    hints: tuple[HintAnswer, ...]

    def moves(self) -> Iterator[Move]:
        """Yield one move for each pod, in the order in which the pods began to wait."""
        for pod in self.pods.values():
            yield Move(self.at, pod, self.place, self.place, self.event_label, self.hints)


class Moves(NamedTuple):
    """The changes by one call of the queue, in the order of time."""

    moved: Sequence[Move] = ()
    skipped: Sequence[HintsSkipped] = ()

    @property
    def poppable(self) -> bool:
        """True if a pod has entered a place from which it can be popped."""
        return self._has_target_in(POPPABLE)

    @property
    def timed(self) -> bool:
        """True if a pod has entered a place that pods leave as time passes."""
        return self._has_target_in(_TIMED)

    def _has_target_in(self, places: Sequence[Place]) -> bool:
        # A loop: several times faster than `any` with a generator, for one move most often.
        for move in self.moved:  # noqa: SIM110
            if move.target in places:
                return True
        return False


#: The result of a call that changed nothing.
NO_MOVES: Final = Moves()


class QueueStatistics(NamedTuple):
    """The number of pods at each place. `unschedulable` leaves out the `gated` pods."""

    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight_pods: int
    in_flight_events: int


#: Upstream's words for the pools in an error text.
_QUEUE_NAMES: Final = {
    Place.ACTIVE: "the active queue",
    Place.BACKOFF: "the backoff queue",
    Place.UNSCHEDULABLE: "unschedulable queue",
    Place.GATED: "unschedulable queue",
}


class PodAlreadyQueuedError(Exception):
    """A pod was given back while it is in the queue: the caller's bug. The text is upstream's."""

    def __init__(self, key: str, place: Place) -> None:
        super().__init__(f"Pod {key} is already present in {_QUEUE_NAMES[place]}")
        self.key: Final = key
