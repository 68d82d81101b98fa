"""The scheduling queue: the order in which pods are tried, and the events that bring them back.

Start at `priority_queue`, with a drawing of the life of a pod.
"""

from scheduler.queue.hints import QueueingHintFunction, build_queueing_hint_map
from scheduler.queue.nominator import Nominator
from scheduler.queue.priority_queue import PriorityQueue
from scheduler.queue.queued_pod_info import (
    HintAnswer,
    HintsSkipped,
    Move,
    Moves,
    Place,
    PodAlreadyQueuedError,
    QueuedPodInfo,
    QueueStatistics,
)

__all__ = [
    "HintAnswer",
    "HintsSkipped",
    "Move",
    "Moves",
    "Nominator",
    "Place",
    "PodAlreadyQueuedError",
    "PriorityQueue",
    "QueueStatistics",
    "QueuedPodInfo",
    "QueueingHintFunction",
    "build_queueing_hint_map",
]
