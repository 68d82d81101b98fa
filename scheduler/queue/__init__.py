"""The scheduling queue: which pod is tried next, and what a pod waits for that did not fit.

Start at `scheduling_queue`, where the life of a pod is drawn.
"""

from scheduler.queue.errors import EventsToRegisterError, PodAlreadyQueuedError, QueueError
from scheduler.queue.nominator import Nominator
from scheduler.queue.observer import (
    HintAnswer,
    Place,
    PodMove,
    PodsStay,
    QueueObserver,
    QueueStatistics,
)
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.queue.requeueing import QueueingHintFunction, build_queueing_hint_map
from scheduler.queue.scheduling_queue import PriorityQueue

__all__ = [
    "EventsToRegisterError",
    "HintAnswer",
    "Nominator",
    "Place",
    "PodAlreadyQueuedError",
    "PodMove",
    "PodsStay",
    "PriorityQueue",
    "QueueError",
    "QueueObserver",
    "QueueStatistics",
    "QueuedPodInfo",
    "QueueingHintFunction",
    "build_queueing_hint_map",
]
