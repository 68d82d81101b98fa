"""A cluster in virtual time: its objects, one scheduler, and whatever happens at set times.

    apply, remove, at --> objects --> queue --> cycles --> bindings, evictions --> objects

A change reaches the scheduler at once. Cycles take no time: time passes only when nothing is left
to be done at this moment.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from typing import TYPE_CHECKING, Final

from scheduler.api.core import ObjectReference
from scheduler.assembly.background import BackgroundWork
from scheduler.assembly.core import SchedulerOptions, build_core
from scheduler.assembly.in_memory_api import InMemoryApi
from scheduler.client import NODES, PODS, object_key
from scheduler.client.kinds import kind_key
from scheduler.config import (
    DEFAULT_SCHEDULER_VERSION,
    EffectiveVersion,
    SchedulerVersion,
    default_feature_gates,
)
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.reports.decision import FirstByName
from scheduler.virtual_clock import VirtualClock, let_tasks_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.api.core import Node, Pod
    from scheduler.assembly.core import Core
    from scheduler.client import ApiObject
    from scheduler.config import FeatureGates, KubeSchedulerConfiguration
    from scheduler.cycle.pod_group.results import PodGroupAttempt
    from scheduler.cycle.schedule_one import Found
    from scheduler.cycle.schedule_pod import TieBreak
    from scheduler.framework.interface import Plugin
    from scheduler.queue import QueuedPodInfo


class SimulatedCluster:
    """Runs the scheduler of a configuration on objects in memory, in virtual time.

    `before_cycle` is called before each cycle, with the popped pod, and `on_cycle` after it, with
    the result of the algorithm too.
    Among equal best nodes `tie_break` chooses, by default the first by name. Handlers of changes
    can be added to `core.informers`.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        *,
        plugins: Iterable[type[Plugin] | str] = (),
        feature_gates: FeatureGates | None = None,
        version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION,
        tie_break: TieBreak | None = None,
        seed: int = 0,
        clock: VirtualClock | None = None,
        before_cycle: Callable[[QueuedPodInfo], None] | None = None,
        on_cycle: Callable[[QueuedPodInfo, Found | PodGroupAttempt | None], None] | None = None,
    ) -> None:
        self.clock: Final = clock or VirtualClock()
        self.api: Final = _Api(self.clock)
        self._work: Final = BackgroundWork()
        ports = self.api.ports(
            rng=random.Random(seed), tie_break=tie_break or FirstByName(), tasks=self._work
        )
        gates = default_feature_gates(version) if feature_gates is None else feature_gates
        options = SchedulerOptions(
            plugins=tuple(plugins),
            feature_gates=gates,
            effective_version=EffectiveVersion.of(version),
        )
        self.core: Final[Core] = build_core(config, ports, options)
        self.on_cycle = on_cycle
        #: The preemptor of each victim, by the victim's uid.
        self.preemptors: Final = self.api.preemptors
        self._before_cycle: Final = before_cycle
        self._order: Final = itertools.count()
        self._timed: Final[list[tuple[float, int, Callable[[], None]]]] = []

    # Objects.

    def apply(self, obj: ApiObject) -> None:
        """Create or replace an object of a kind with a type in `scheduler.api`."""
        self.api.put(kind_key(type(obj)), obj)

    def remove(self, obj: ApiObject) -> None:
        """Delete an object at once; a no-op if there is none of its name."""
        self.api.remove(kind_key(type(obj)), object_key(obj))

    def find_pod(self, pod: Pod) -> Pod | None:
        """Return a pod as it is now; None if it is gone, or created again under its name."""
        return self.api.find_pod(pod)

    def find_node(self, name: str) -> Node | None:
        """Return a node; None if there is none of this name."""
        node: Node | None = self.api.objects(NODES.plural).get(name)
        return node

    @property
    def nodes(self) -> list[Node]:
        """The nodes, in no order."""
        return list(self.api.objects(NODES.plural).list())

    @property
    def pods(self) -> list[Pod]:
        """The pods, in no order."""
        return list(self.api.objects(PODS.plural).list())

    # Time.

    def at(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back at a time (epoch seconds); callbacks of one time are called in order."""
        heapq.heappush(self._timed, (seconds, next(self._order), callback))

    def after(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back after some seconds."""
        self.at(self.clock.now() + seconds, callback)

    def remove_after(self, seconds: float, pod: Pod) -> None:
        """Delete this very pod after some seconds; a no-op if it is gone by then."""

        def remove() -> None:
            if self.find_pod(pod) is not None:
                self.remove(pod)

        self.after(seconds, remove)

    @property
    def is_settled(self) -> bool:
        """True if nothing happens any more: all pods are bound, or wait for a change.

        The retry after five minutes without an event is no such happening.
        """
        return self._next_time(self.core.queue.backoff_q.next_deadline) == math.inf

    async def settle(self) -> None:
        """Run until the cluster is settled."""
        await self._run(math.inf, self.core.queue.backoff_q.next_deadline)

    async def run_until(self, seconds: float) -> None:
        """Run until a time (epoch seconds)."""
        await self._run(seconds, self.core.queue.next_deadline)
        self.clock.advance_nowait(max(0.0, seconds - self.clock.now()))
        await self._schedule_all()

    async def close(self) -> None:
        """Stop the work that still waits."""
        await self._work.close()

    async def _run(self, end: float, next_flush: Callable[[], float | None]) -> None:
        queue = self.core.cycle.queue
        while True:
            await self._schedule_all()
            due = self._next_time(next_flush)
            if due > end or due == math.inf:
                return
            self.clock.advance_nowait(max(0.0, due - self.clock.now()))
            now = self.clock.now()
            while self._timed and self._timed[0][0] <= now:
                heapq.heappop(self._timed)[2]()
            queue.flush_due()

    def _next_time(self, next_flush: Callable[[], float | None]) -> float:
        """Return the next time at which something happens by itself."""
        times = [self.clock.next_wake_up, next_flush()]
        if self._timed:
            times.append(self._timed[0][0])
        return min((time for time in times if time is not None), default=math.inf)

    async def _schedule_all(self) -> None:
        """Run cycles and background work until nothing can be done without a change or time."""
        core, work = self.core, self._work
        while True:
            work.run()
            if work.waiting:
                await let_tasks_run()
            queued = core.cycle.queue.pop_nowait()
            if queued is None:
                return
            if self._before_cycle is not None:
                self._before_cycle(queued)
            found = await schedule_one(core.cycle, queued)
            if self.on_cycle is not None:
                self.on_cycle(queued, found)


class _Api(InMemoryApi):
    """The API server of a simulation. It keeps the preemptors from the scheduler's events."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.preemptors: Final[dict[str, str]] = {}

    def event(
        self,
        regarding: Pod | ObjectReference,
        *,
        related: ObjectReference | None = None,
        **text: str,
    ) -> None:
        """Keep the preemptor of a victim; drop any other event.

        Since 1.36 the event refers to a preemptor that is a pod by the uid in its note only.
        """
        if text["reason"] != "Preempted" or isinstance(regarding, ObjectReference):
            return
        if related is not None:
            preemptor = f"{related.namespace}/{related.name}"
        else:
            uid = text["note"].removeprefix("Preempted by pod ").partition(" ")[0]
            pods = self.objects(PODS.plural).list()
            preemptor = next((pod.key for pod in pods if pod.metadata.uid == uid), "")
        self.preemptors[regarding.metadata.uid] = preemptor
