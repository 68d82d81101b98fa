"""A whole scheduler over an `ApiStore`: every part its own but the HTTP and the writing of events.

Informers and reflectors, event handlers, queue, cache, the default profile, cycles, dispatcher.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Any, ClassVar, cast

from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.assembly.event_handlers import NodeEventHandler, PodEventHandler
from scheduler.assembly.profiles import build_profiles
from scheduler.cache import Cache
from scheduler.client import Informer, RestClient
from scheduler.client.kinds import KINDS, kind_key
from scheduler.config import DEFAULT_FEATURE_GATES, default_config
from scheduler.cycle.attempt import Attempts, CycleParts
from scheduler.cycle.schedule_pod import (
    FirstInOrder,
    NoNodesAvailableError,
    RandomTie,
    SchedulingAlgorithm,
)
from scheduler.cycle.scheduling_loop import SchedulingLoop
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.framework import CycleState, Plugin, Status, wait
from scheduler.framework.types import FitError
from scheduler.metrics import SchedulerMetrics
from scheduler.plugins import SCHEME
from scheduler.queue import Nominator, PriorityQueue, build_queueing_hint_map
from scheduler.runtime import PluginHandle, PodsInPreBind, WaitingPods
from scheduler.runtime.handle import run_in_parallel
from scheduler.snapshot import Snapshot
from scheduler.snapshot.pod_info import PodInfo
from scheduler.stories import PodStories
from scheduler.testing.doubles import FakeLister
from tests.cycle.running import schedule_pod

from .api_store import Source

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scheduler.api.core import Node, Pod
    from scheduler.runtime.handle import DryRun
    from scheduler.testing import VirtualClock

    from .api_store import ApiStore
    from .writes import Writes

_INFORMER_LOG = logging.getLogger("scheduler.client.informer")


class WatchfulCache(Cache):
    """Checks every decision: the node must exist and have room."""

    def __init__(self) -> None:
        super().__init__()
        self.complaints: list[str] = []
        #: How many pods were bound elsewhere than where they were assumed.
        self.contradictions = 0

    def add_pod(self, pod: PodInfo) -> None:
        known = self.get_pod(pod.pod)
        self.contradictions += known is not None and known.spec.node_name != pod.spec.node_name
        super().add_pod(pod)

    def assume_pod(self, pod: PodInfo) -> None:
        name = pod.spec.node_name
        node = self.nodes.get(name)
        super().assume_pod(pod)
        if pod.pod.metadata.deletion_timestamp is not None:
            self.complaints.append(f"{pod.uid} is going, and was put on {name}")
        if node is None:
            self.complaints.append(f"{pod.uid} was put on {name}, which is not there")
            return
        there = [other for other in self.pods.values() if other.spec.node_name == name]
        if complaint := overload(node, [other.pod for other in there], because_of=pod.pod):
            self.complaints.append(f"{pod.uid} was put on {name}: {complaint}")


def overload(node: Node, pods: list[Pod], *, because_of: Pod) -> str:
    """Describe the requests beyond a node's resources; empty if there is room.

    `because_of` is one of the pods: it is harmless if it requests no scarce resource.
    """
    cores = sum(cpu_of(pod) for pod in pods)
    offered, places = _milli(node.status.allocatable["cpu"]), int(node.status.allocatable["pods"])
    if cores > offered and cpu_of(because_of):
        return f"{cores}m of {offered}m are taken"
    return f"{len(pods)} pods in {places} places" if len(pods) > places else ""


def cpu_of(pod: Pod) -> int:
    """Return a pod's requests, in thousandths."""
    return sum(
        _milli(container.resources.requests.get("cpu", "0")) for container in pod.spec.containers
    )


def _milli(quantity: object) -> int:
    text = str(quantity)
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


class Doorkeeper(Plugin):
    """Holds pods with its label at Permit until they are allowed or time out."""

    LABEL: ClassVar = "waits"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return wait(10.0) if self.LABEL in pod.pod.metadata.labels else None


class Silence:
    """Drops events for users."""

    def event(self, regarding: Pod, **event: object) -> None:
        """A no-op."""


class FailedHandlers(logging.Handler):
    """Records the failures of handlers that informers log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


class Line:
    """A scheduler that runs from `start` to `stop`."""

    def __init__(self, store: ApiStore, writes: Writes, clock: VirtualClock, seed: int) -> None:
        self.clock, self.cache, self.snapshot = clock, WatchfulCache(), Snapshot()
        self.corruptions: list[Exception] = []
        self.failures: list[BaseException] = []
        self.failed_handlers = FailedHandlers()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._rng = random.Random(seed)
        self._metrics, self._stories = SchedulerMetrics(), PodStories()
        self.sources: dict[str, Source[Any]] = {
            "pods": Source(store.pods, _is_unfinished),
            "nodes": Source(store.nodes, lambda node: True),
        }
        self.informers: dict[str, Informer[Any]] = {
            kind: Informer(source, name=kind, clock=clock, rng=self._rng)
            for kind, source in self.sources.items()
        }
        self.waiting_pods = WaitingPods(clock, SchedulerMetrics())
        self._pods_in_pre_bind, self._nominator = PodsInPreBind(), Nominator(self._find_pod)
        self.dispatcher = ApiDispatcher(cast("RestClient", writes), clock)
        self.profiles = build_profiles(
            default_config(SCHEME), self._make_handle, plugins=[Doorkeeper]
        )
        self.queue = self._queue()
        self._scheduling_queue = SchedulingQueue(self.queue, clock=clock, stories=self._stories)
        self.scheduler = self._scheduler()
        self._add_handlers()

    def _queue(self) -> PriorityQueue:
        (framework,) = self.profiles.values()
        return PriorityQueue(
            framework.less,
            sort_key=framework.sort_key,
            pre_enqueue_plugins={
                name: cast("Any", framework.plugins["pre_enqueue"]) for name in self.profiles
            },
            queueing_hint_map={
                name: build_queueing_hint_map(framework.registered_events) for name in self.profiles
            },
            nominator=self._nominator,
            metrics=self._metrics,
        )

    def _make_handle(self, profile_name: str, worlds: DryRun) -> PluginHandle:
        listers = {plural: FakeLister() for plural in KINDS}
        listers |= {kind: informer.lister for kind, informer in self.informers.items()}
        return PluginHandle(
            profile_name=profile_name,
            snapshot=self.snapshot,
            nominator=self._nominator,
            event_recorder=Silence(),
            api=self.dispatcher,
            feature_gates=DEFAULT_FEATURE_GATES,
            metrics=SchedulerMetrics(),
            rng=self._rng,
            clock=self.clock,
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=self._pods_in_pre_bind,
            worlds=worlds,
            lister=lambda kind: listers[kind_key(kind)],
            pod_group=lambda key: None,
            activate=lambda pods: self._scheduling_queue.activate(pods),
            spawn=self._spawn,
            run_in_parallel=run_in_parallel,
        )

    def _scheduler(self) -> SchedulingLoop:
        attempts = Attempts(clock=self.clock, metrics=self._metrics, stories=self._stories)
        cycle_parts = CycleParts(
            profiles=self.profiles,
            cache=self.cache,
            queue=self._scheduling_queue,
            algorithm=SchedulingAlgorithm(self.snapshot, tie_break=RandomTie(self._rng)),
            api=self.dispatcher,
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=self._pods_in_pre_bind,
            pod_lister=self._find_pod,
            attempts=attempts,
            spawn=self._spawn,
        )
        return SchedulingLoop(cycle_parts, dispatcher=self.dispatcher)

    def _add_handlers(self) -> None:
        nodes = NodeEventHandler(
            cache=self.cache, queue=self._scheduling_queue, metrics=self._metrics
        )
        pods = PodEventHandler(
            cache=self.cache,
            queue=self._scheduling_queue,
            waiting_pods=self.waiting_pods,
            scheduler_names=self.profiles.keys(),
            gang_scheduling=False,
            on_corrupted=self.corruptions.append,
            metrics=self._metrics,
        )
        for kind, handler in (("nodes", nodes), ("pods", pods)):
            self.informers[kind].add_event_handler(
                on_add=handler.on_add, on_update=handler.on_update, on_delete=handler.on_delete
            )

    async def start(self) -> None:
        """As `SchedulerApp.run` does: first lists, then the loop."""
        _INFORMER_LOG.addHandler(self.failed_handlers)
        for kind, informer in self.informers.items():
            self._spawn(cast("Any", informer.run()), kind)
            await informer.wait_for_sync()
        self._spawn(cast("Any", self.scheduler.run()), "scheduler")

    async def stop(self) -> None:
        """As a process that is killed does: nothing under way is seen through."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        _INFORMER_LOG.removeHandler(self.failed_handlers)
        for source in self.sources.values():
            source.close()

    def could_run(self) -> dict[str, str]:
        """The pods that wait, but would be given a node if they were tried now: which one."""
        found = {}
        algorithm = SchedulingAlgorithm(self.snapshot, tie_break=FirstInOrder())
        self.cache.update_snapshot(self.snapshot)
        for pod in self.queue.pending_pods()[0]:
            if pod.spec.scheduling_gates or pod.metadata.deletion_timestamp is not None:
                continue
            framework = self.profiles[pod.spec.scheduler_name]
            try:
                result = schedule_pod(algorithm, framework, CycleState(), PodInfo(pod))
            except (FitError, NoNodesAvailableError):
                continue
            found[pod.key] = result.suggested_host
        return found

    @property
    def is_idle(self) -> bool:
        """True if nothing is in flight: no decision, no write, no event."""
        return (
            self.scheduler.is_idle
            and not self.dispatcher.backlog
            and all(source.has_told_all for source in self.sources.values())
        )

    def _find_pod(self, namespace: str, name: str) -> Pod | None:
        return cast("Pod | None", self.informers["pods"].lister.get(name, namespace))

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(error)


def _is_unfinished(pod: Pod) -> bool:
    return pod.status.phase not in {"Succeeded", "Failed"}
