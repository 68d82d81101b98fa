"""A scheduling line for upstream's cases: queue, cache, cycle and binding around fake plugins.

Stands where upstream's tests put together a `Scheduler` with a fake client: everything between the
queue and the API server is real, and the client only takes notes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.assembly.event_handlers import NodeEventHandler, PodEventHandler
from scheduler.cache import Cache
from scheduler.client import NotFound
from scheduler.cycle.attempt import Attempts, CycleParts
from scheduler.cycle.schedule_pod import FirstInOrder, SchedulingAlgorithm
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.metrics import SchedulerMetrics
from scheduler.plugins import IN_TREE
from scheduler.queue import Nominator, PriorityQueue, build_queueing_hint_map
from scheduler.runtime import Framework, PodsInPreBind, Registry, WaitingPods
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.stories import PodStories
from scheduler.testing import FakeHandle, VirtualClock, make_node

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from scheduler.api.core import Node, Pod
    from scheduler.config import KubeSchedulerProfile
    from scheduler.framework import Plugin
    from tests.upstream.loading import Fields


class Client:
    """Records writes; bindings fail with `bind_failure`, if there is one."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        self.conditions: list[dict[str, str]] = []
        self.nominated: list[str] = []
        self.bind_failure: Exception | None = None

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.bound[pod.metadata.name] = node_name
        if self.bind_failure is not None:
            raise self.bind_failure

    async def get(self, resource: object, name: str, **options: str) -> Pod:
        raise NotFound(404, "NotFound", f"upstream's client is not read: {name}")

    async def patch(self, resource: object, name: str, patch: Fields, **options: str) -> None:
        status: dict[str, Any] = patch["status"]
        self.conditions += status.get("conditions", ())
        if "nominatedNodeName" in status:
            self.nominated.append(status["nominatedNodeName"] or "")


class Line:
    """Some profiles and what they share. `known` are the pods of the informer, by key."""

    def __init__(
        self,
        profiles: Iterable[KubeSchedulerProfile],
        plugins: Iterable[type[Plugin]] = (),
        *,
        nodes: Iterable[Node] | None = None,
    ) -> None:
        self.clock, self.client, self.cache = VirtualClock(), Client(), Cache()
        self.recorders: dict[str, FakeHandle] = {}
        self.known: dict[str, Pod] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.waiting_pods = WaitingPods(self.clock, SchedulerMetrics())
        snapshot = Snapshot()
        nominator = Nominator(self._find)
        dispatcher = ApiDispatcher(self.client, self.clock)  # type: ignore[arg-type] # takes notes
        self.pods_in_pre_bind = PodsInPreBind()
        self._parts = {
            "nominator": nominator,
            "api": dispatcher,
            "snapshot": snapshot,
            "clock": self.clock,
            "waiting_pods": self.waiting_pods,
            "pods_in_pre_bind": self.pods_in_pre_bind,
        }
        registry = Registry([*IN_TREE.values(), *plugins])
        self.profiles = {p.scheduler_name: self._framework(p, registry) for p in profiles}
        first = next(iter(self.profiles.values()))
        self.queue = PriorityQueue(
            first.less,
            pre_enqueue_plugins={},
            queueing_hint_map={
                name: build_queueing_hint_map(framework.rejecting_plugins)
                for name, framework in self.profiles.items()
            },
            nominator=nominator,
            metrics=SchedulerMetrics(),
        )
        self._connect(dispatcher, snapshot)
        for node in [make_node("node1")] if nodes is None else nodes:
            self.cache.add_node(node)

    def _connect(self, dispatcher: ApiDispatcher, snapshot: Snapshot) -> None:
        metrics, stories = SchedulerMetrics(), PodStories()
        queue = SchedulingQueue(self.queue, clock=self.clock, stories=stories)
        attempts = Attempts(clock=self.clock, metrics=metrics, stories=stories)
        self.cycle_parts = CycleParts(
            profiles=self.profiles,
            cache=self.cache,
            queue=queue,
            algorithm=SchedulingAlgorithm(snapshot, tie_break=FirstInOrder()),
            api=dispatcher,
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=self.pods_in_pre_bind,
            pod_lister=self._find,
            attempts=attempts,
            spawn=self._spawn,
        )
        self.pods = PodEventHandler(
            cache=self.cache,
            queue=queue,
            waiting_pods=self.waiting_pods,
            scheduler_names=self.profiles,
            gang_scheduling=False,
            on_corrupted=lambda error: None,
            metrics=metrics,
        )
        self.nodes = NodeEventHandler(cache=self.cache, queue=queue, metrics=metrics)

    def _framework(self, profile: KubeSchedulerProfile, registry: Registry) -> Framework:
        name = profile.scheduler_name
        self.recorders[name] = FakeHandle()
        make_handle = self.recorders[name].with_parts(**self._parts)
        return Framework(profile, registry=registry, make_handle=make_handle)

    def _find(self, namespace: str, name: str) -> Pod | None:
        return self.known.get(f"{namespace}/{name}")

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work, name=name))

    async def schedule(self, pod: Pod) -> None:
        """Queue a pod, run its cycle and its background work, as far as that needs no time."""
        self.known.setdefault(pod.key, pod)
        self.queue.add(PodInfo(pod), self.clock.now())
        await self.schedule_next()

    async def schedule_next(self) -> None:
        """Run the cycle of the pod at the head of the queue, as `schedule` does."""
        queued, _ = self.queue.pop_nowait(self.clock.now())
        assert queued is not None
        await schedule_one(self.cycle_parts, queued)
        await self.rest()

    async def rest(self) -> None:
        """Let background work run as far as it gets without time passing."""
        for _ in range(20):
            await asyncio.sleep(0)

    def names(self, place: str) -> list[str]:
        """Return the names of the pods in a place: active, backoff, waiting or in_flight."""
        found = {
            "active": self.queue.active_q.in_order(),
            "backoff": self.queue.backoff_q.in_order(),
            "waiting": self.queue.unschedulable_pods,
            "in_flight": self.queue.in_flight.pods(),
        }
        return [info.pod_info.pod.metadata.name for info in found[place]]
