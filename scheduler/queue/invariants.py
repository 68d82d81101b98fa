"""The invariants of the scheduling queue between two calls, for `PriorityQueue.check`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol

from scheduler.queue.active_queue import UntrackedInFlight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scheduler.queue.active_queue import ActiveQueue, InFlight
    from scheduler.queue.backoff_queue import BackoffQueue
    from scheduler.queue.nominator import Nominator
    from scheduler.queue.queued_pod_info import Place, QueuedPodInfo
    from scheduler.queue.unschedulable_pods import UnschedulablePods


class Pool(Protocol):
    """Waiting pods by key. A pool sets the `place` of the pods that it is given."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[QueuedPodInfo]: ...

    def get(self, key: str) -> QueuedPodInfo | None: ...

    def add(self, pod: QueuedPodInfo) -> bool:
        """Add a pod, replace the pod with its key, or order a pod anew after a change.

        Return True if this counts as an arrival in metrics.
        """

    def delete(self, key: str) -> QueuedPodInfo | None:
        """Remove a pod; None if the pool does not have it."""

    def in_order(self) -> list[QueuedPodInfo]: ...


class QueueParts(Protocol):
    """The parts of a `PriorityQueue` that the invariants are about."""

    @property
    def active_q(self) -> ActiveQueue: ...
    @property
    def in_flight(self) -> InFlight: ...
    @property
    def backoff_q(self) -> BackoffQueue: ...
    @property
    def unschedulable_pods(self) -> UnschedulablePods: ...
    @property
    def nominator(self) -> Nominator: ...
    @property
    def pools(self) -> Mapping[str, Pool]: ...
    @property
    def pool_at(self) -> Mapping[Place, Pool]: ...


def complaints(
    queue: QueueParts, less: Callable[[QueuedPodInfo, QueuedPodInfo], bool]
) -> Iterator[str]:
    """Yield a line for each broken invariant."""
    yield from queue.active_q.complaints()
    yield from queue.in_flight.complaints()
    yield from queue.backoff_q.complaints()
    yield from queue.unschedulable_pods.complaints()
    yield from queue.nominator.complaints()
    places: dict[str, str] = {}
    for name, pool in queue.pools.items():
        for info in pool:
            if info.key in places:
                yield f"{info.key} is in {places[info.key]} and in {name}"
            places[info.key] = name
            yield from _complaints_about(info, queue)
    for first, second in itertools.pairwise(queue.active_q.in_order()):
        if less(second, first):
            yield f"{second.key} would be popped after {first.key}, but is more urgent"
    for info in queue.active_q:
        if info.initial_attempt_timestamp is None:
            yield f"{info.key} is active, but has no initial attempt timestamp"


def _complaints_about(info: QueuedPodInfo, queue: QueueParts) -> Iterator[str]:
    pool = queue.pool_at.get(info.place)
    if pool is None or pool.get(info.key) is not info:
        yield f"{info.key} is not where it should be: {info.place}"
    if info.uid in queue.in_flight and not isinstance(queue.in_flight, UntrackedInFlight):
        yield f"{info.key} is in flight and {info.place}"
    if info.is_gated and info.place in queue.backoff_q.poppable:
        yield f"{info.key} is gated by {info.gating_plugin}, but can be popped"
    nominated = queue.nominator.nominated_pod(info.uid)
    if nominated is not None and nominated is not info.pod_info:
        yield f"{info.key} is nominated in another version than it waits in"


def contents(queue: QueueParts) -> Iterator[str]:
    """Yield the contents of the queue, to find the cause of a broken invariant."""
    for name, pool in queue.pools.items():
        yield f"{name}:"
        yield from (f"  {_described(info)}" for info in pool.in_order())
    yield "in flight:"
    yield from (f"  {entry}" for entry in queue.in_flight.entries())
    yield f"nominated: {dict(queue.nominator.nominations)}"


def _described(info: QueuedPodInfo) -> str:
    rejectors = ",".join(sorted(info.unschedulable_plugins)) or "-"
    pending = ",".join(sorted(info.pending_plugins)) or "-"
    return (
        f"{info.key} uid={info.uid} since={info.timestamp} attempts={info.attempts}"
        f" unschedulable={info.unschedulable_count} errors={info.consecutive_errors_count}"
        f" backoff_expiration={info.backoff_expiration} rejectors={rejectors} pending={pending}"
        f" gate={info.gating_plugin or '-'}"
    )
