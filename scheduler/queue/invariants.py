"""What must hold of a scheduling queue at any moment between two calls; `PriorityQueue.check`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scheduler.queue.nominator import Nominator
    from scheduler.queue.pools import Pools
    from scheduler.queue.queued_pod_info import QueuedPodInfo


def complaints(
    pools: Pools, nominator: Nominator, less: Callable[[QueuedPodInfo, QueuedPodInfo], bool]
) -> Iterator[str]:
    """What is wrong, one line each: nothing, unless there is a bug."""
    yield from pools.active_q.complaints()
    yield from pools.backoff_q.complaints()
    yield from pools.unschedulable_pods.complaints()
    yield from nominator.complaints()
    yield from _pods_in_two_places(pools)
    yield from _pods_out_of_order(pools, less)
    for info in itertools.chain(pools.active_q, pools.backoff_q):
        if info.is_gated:
            yield f"{info.key} is gated by {info.gating_plugin}, but can be popped"
    for info in pools.active_q:
        if info.initial_attempt_timestamp is None:
            yield f"{info.key} is active, but has no initial attempt timestamp"
    for info in itertools.chain(pools.active_q, pools.backoff_q, pools.unschedulable_pods):
        nominated = nominator.nominated_pod(info.uid)
        if nominated is not None and nominated is not info.pod_info:
            yield f"{info.key} is nominated in another version than it waits in"


def whereabouts(pools: Pools, nominator: Nominator) -> Iterator[str]:
    """All that the queue holds, to find out what went wrong."""
    for name, infos in (
        ("activeQ", pools.active_q.in_order()),
        ("backoffQ", pools.backoff_q.in_order()),
        ("unschedulablePods", list(pools.unschedulable_pods)),
    ):
        yield f"{name}:"
        yield from (f"  {_story(info)}" for info in infos)
    yield "in flight:"
    yield from (f"  {entry}" for entry in pools.active_q.in_flight_events())
    yield f"nominated: {dict(nominator.nominations)}"


def _pods_in_two_places(pools: Pools) -> Iterator[str]:
    for info in pools.backoff_q:
        if info.key in pools.active_q:
            yield f"{info.key} is active and backing off"
    for info in pools.unschedulable_pods:
        if info.key in pools.active_q or info.key in pools.backoff_q:
            yield f"{info.key} waits for an event and is {pools.place_of(info.key)}"
    for info in itertools.chain(pools.active_q, pools.backoff_q, pools.unschedulable_pods):
        if pools.active_q.is_in_flight(info.uid):
            yield f"{info.key} is in flight and {pools.place_of(info.key)}"


def _pods_out_of_order(
    pools: Pools, less: Callable[[QueuedPodInfo, QueuedPodInfo], bool]
) -> Iterator[str]:
    for first, second in itertools.pairwise(pools.active_q.in_order()):
        if less(second, first):
            yield f"{second.key} would be popped after {first.key}, but is more urgent"
    ends = [pools.backoff_q.backoff_time(info) for info in pools.backoff_q.pod_backoff_q.in_order()]
    if ends != sorted(ends):
        yield f"the ends of backoff are out of order: {ends}"


def _story(info: QueuedPodInfo) -> str:
    rejectors = ",".join(sorted(info.unschedulable_plugins)) or "-"
    pending = ",".join(sorted(info.pending_plugins)) or "-"
    return (
        f"{info.key} uid={info.uid} since={info.timestamp} attempts={info.attempts}"
        f" unschedulable={info.unschedulable_count} errors={info.consecutive_errors_count}"
        f" backoff_expiration={info.backoff_expiration} rejectors={rejectors} pending={pending}"
        f" gate={info.gating_plugin or '-'}"
    )
