"""What can go wrong around the scheduling queue.

    QueueError
     +- PodAlreadyQueuedError     a pod was given back that is waiting already; the caller's bug
     +- EventsToRegisterError     a plugin could not say which events it wants to hear of

Plugins that fail while a pod is being moved raise nothing: the queue logs it and tries the pod
again, for a pod that is lost is worse than one that is tried for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class QueueError(Exception):
    """Anything the scheduling queue raises."""


class PodAlreadyQueuedError(QueueError):
    """A pod came back from an attempt while it is waiting in the queue. The text is upstream's."""

    def __init__(self, key: str, queue_name: str) -> None:
        super().__init__(f"Pod {key} is already present in {queue_name}")
        self.key: Final = key


class EventsToRegisterError(QueueError):
    """Plugins failed to name their events; the text is theirs, one line each."""

    def __init__(self, failures: Mapping[str, Exception]) -> None:
        super().__init__("\n".join(str(failure) for failure in failures.values()))
        #: What each plugin raised, by its name.
        self.failures: Final = failures
