"""What the queue tells of itself: each move of a pod to whoever listens, and its sizes."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scheduler.queue.queued_pod_info import QueuedPodInfo


class Place(enum.StrEnum):
    """Where a pod can be. The first four are the labels of upstream's metric `pending_pods`."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    #: Popped, and neither given back nor done.
    IN_FLIGHT = "in-flight"
    #: Not, or no longer, the queue's concern.
    OUTSIDE = "outside"


class HintAnswer(NamedTuple):
    """What a plugin's queueing hint made of an event: `Queue`, `QueueSkip` or `Error`."""

    plugin_name: str
    event_label: str
    answer: str


class PodMove(NamedTuple):
    """One step of a pod's story.

    `time` is in epoch seconds, as the queue was last told it. `event_label` says what caused the
    move, as in metrics; it is empty for a pod that was popped, deleted or done with. `hints` are
    the answers of the plugins that were asked. A pod that was asked about and stays has `source`
    equal to `target`.
    """

    time: float
    pod: QueuedPodInfo
    source: Place
    target: Place
    event_label: str
    hints: tuple[HintAnswer, ...] = ()


class PodsStay(NamedTuple):
    """Pods that an event has been held against, and that stay where they are, all for one reason.

    There may be thousands, of one template. `pods` are by `namespace/name`; it is a view, which
    follows whatever becomes of them. `hints` are the answers that hold for each of them.
    """

    time: float
    pods: Mapping[str, QueuedPodInfo]
    place: Place
    event_label: str
    hints: tuple[HintAnswer, ...]

    def moves(self) -> Iterator[PodMove]:
        """The same, pod by pod, in the order in which they have begun to wait."""
        for pod in self.pods.values():
            yield PodMove(self.time, pod, self.place, self.place, self.event_label, self.hints)


class QueueObserver(Protocol):
    """Hears of every move. For stories told to people; without one, nothing is collected."""

    def pods_stay(self, stay: PodsStay) -> None:
        """Called when an event does not help several pods alike. Likewise."""
        ...

    def pod_moved(self, move: PodMove) -> None:
        """Called when the pod has arrived. Must not raise, change the pod or call the queue."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class QueueStatistics:
    """How much of everything there is at one moment.

    `unschedulable` leaves out the pods that are `gated`, as upstream's metric does.
    """

    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight_pods: int
    in_flight_events: int
    scheduling_cycle: int
