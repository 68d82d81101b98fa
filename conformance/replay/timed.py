"""Carry out a history at its own times: creations, patches, deletions and ends, in real time."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Final

from ..api import ref_of
from ..errors import RequestFailed
from .history import GAP_SECONDS_MAX, Write

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..api import ApiClient
    from ..clock import Clock
    from .history import History
    from .recording import Recorder

_POLL_SECONDS: Final = 0.1
_NOT_FOUND: Final = 404


class _Plan:
    """The writes to come. Deletions of a moment come first, but for pods created then too."""

    def __init__(self, history: History) -> None:
        self._order: Final = itertools.count()
        #: By time, the later ones of a moment behind the others, then in the order of the history.
        self.writes: Final[list[tuple[float, bool, int, Write]]] = []
        self._running: Final = {p.name: p for p in history.pods if p.run_seconds is not None}
        self._followed = 0
        for node in history.nodes:
            self._add(Write(node.created_seconds, node.object, is_creation=True))
        for pod in history.pods:
            self._add(Write(pod.created_seconds, pod.object, is_creation=True))
            if pod.ended_seconds is not None:
                is_brief = pod.ended_seconds == pod.created_seconds
                self._add(Write(pod.ended_seconds, pod.object), is_late=is_brief)
        for write in history.writes:
            self._add(write)
        #: Further writes are ends of pods that run for a set time.
        self.planned: Final = len(self.writes)

    def follow(self, recorder: Recorder, now_seconds: float) -> None:
        """Add the ends of the pods that have got a node since the last call."""
        for placement in recorder.placements[self._followed :]:
            pod = self._running.pop(placement.pod, None) if placement.node else None
            if pod is not None:
                self._add(Write(now_seconds + (pod.run_seconds or 0.0), pod.object))
        self._followed = len(recorder.placements)

    def _add(self, write: Write, *, is_late: bool = False) -> None:
        is_late = is_late or write.is_creation or write.patch is not None
        heapq.heappush(self.writes, (write.seconds, is_late, next(self._order), write))


async def play_in_time(
    history: History,
    client: ApiClient,
    recorder: Recorder,
    clock: Clock,
    *,
    on_write: Callable[[Write], None],
) -> None:
    """Carry out all writes. A gap of more than `GAP_SECONDS_MAX` is cut.

    Pods that run for a set time end as long as other writes come.
    """
    plan, skipped = _Plan(history), -clock.now()
    left = plan.planned
    while left:
        now = clock.now() + skipped
        plan.follow(recorder, now)
        seconds, _, number, write = plan.writes[0]
        if seconds > now:
            skipped += max(0.0, seconds - now - GAP_SECONDS_MAX)
            await clock.sleep(min(_POLL_SECONDS, seconds - now))
            continue
        heapq.heappop(plan.writes)
        left -= number < plan.planned
        await _carry_out(write, client)
        on_write(write)


async def _carry_out(write: Write, client: ApiClient) -> None:
    """Write to the server. An object that the scheduler has deleted is left alone."""
    if write.is_creation:
        await client.create(write.object)
        return
    ref = ref_of(write.object)
    try:
        if write.patch is None:
            await client.delete(ref)
        else:
            await client.patch(ref, write.patch, patch_type="merge", subresource=write.subresource)
    except RequestFailed as failure:
        if failure.status != _NOT_FOUND:
            raise
