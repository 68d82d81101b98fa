"""The composition root: builds every part, hands each its collaborators, runs them all.

The only module that knows everybody. What happens in which order:

    profiles -> queue -> connection -> informers (first lists delivered) -> lease -> scheduling loop

and everything runs in one task group, so that a part that fails takes the rest down with it and the
process says why. With `delayCacheUntilActive` the lease comes before the informers; without
`leaderElect` there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, cast

from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.assembly.event_handlers import NodeEventHandler, ObjectEventHandler, PodEventHandler
from scheduler.assembly.part_sharing import PartSharing
from scheduler.assembly.profiles import build_profiles
from scheduler.assembly.watched_kinds import kinds_to_watch
from scheduler.cache import Cache, CacheCorruptedError, dump_nodes, dump_pods
from scheduler.cache import compare as compare_cache
from scheduler.client import (
    NODES,
    PODS,
    EventBroadcaster,
    Informer,
    InformerFactory,
    RestClient,
    RestEventWriter,
)
from scheduler.cycle.attempt import Attempts, CycleParts
from scheduler.cycle.schedule_pod import FirstInOrder, RandomTie, SchedulingAlgorithm
from scheduler.cycle.scheduling_loop import SchedulingLoop
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.leader_election.elector import LeaderElection
from scheduler.metrics import SchedulerMetrics
from scheduler.metrics.exposition import Exposition
from scheduler.metrics.pod_resources import pod_resources_text
from scheduler.queue import PriorityQueue, build_queueing_hint_map
from scheduler.runtime import SchedulerParts, WaitingPods
from scheduler.runtime.background import run_in_parallel
from scheduler.snapshot import Snapshot
from scheduler.stories import PodStories

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence

    from scheduler.api.core import Pod
    from scheduler.cache import CacheDifference, CacheStatistics
    from scheduler.client import Connection
    from scheduler.clock import Clock
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.framework.handle import Lister
    from scheduler.framework.interface import Plugin
    from scheduler.queue import QueueStatistics
    from scheduler.queue.gating import NamedPreEnqueuePlugin
    from scheduler.runtime import Framework

_log: Final = logging.getLogger(__name__)

#: Pods that are over need no node and hold none.
_UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
_USER_AGENT: Final = "kubesched/scheduler"


class AppStatistics(NamedTuple):
    """What the scheduler has done and has before it."""

    attempts: Mapping[str, int]
    queue: QueueStatistics
    cache: CacheStatistics


class SchedulerApp:
    """A whole scheduler, built and not yet running; `run` runs it until it is cancelled.

    `seed` makes chance repeatable; `tie_break` is `random`, or `first` for the first of several
    best nodes. A pod that no event brings back in `max_in_unschedulable_pods_seconds` is tried
    again all the same. `identity` is what it calls itself in an election, by default something
    that no other process is called. Raises `PluginSetupError` for profiles that cannot work, and
    `ConfigError` for an election that cannot.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        connection: Connection,
        *,
        clock: Clock,
        plugins: Iterable[type[Plugin] | str] = (),
        seed: int | None = None,
        tie_break: str = "random",
        max_in_unschedulable_pods_seconds: float = 300.0,
        identity: str = "",
    ) -> None:
        self._clock: Final = clock
        self._max_in_unschedulable_pods_seconds: Final = max_in_unschedulable_pods_seconds
        self._metrics: Final = SchedulerMetrics(clock.monotonic)
        self._stories: Final = PodStories()
        self._exposition: Final = Exposition(self._metrics)
        rng = random.Random(seed)
        self._client: Final = _client(config, connection, clock)
        # Events have a limit of their own, lest they hold up bindings.
        self._event_client: Final = _client(config, connection, clock)
        self._broadcaster: Final = EventBroadcaster(
            RestEventWriter(self._event_client), clock=clock, rng=rng
        )
        self._informers: Final = InformerFactory(self._client, clock=clock, rng=rng)
        self._pods: Final = self._informers.informer(
            PODS, field_selector=_UNFINISHED, transform=PartSharing()
        )
        self._nodes: Final = self._informers.informer(NODES)
        self._others: Final[dict[str, Informer[Any]]] = {}
        self._corrupted: Final[asyncio.Future[NoReturn]] = (
            asyncio.get_running_loop().create_future()
        )
        self._election: Final = LeaderElection.of(
            config,
            connection,
            identity=identity,
            clock=clock,
            seed=seed,
            metrics=self._metrics,
        )
        self._delays_cache: Final = config.delay_cache_until_active and self._election is not None
        #: Whether this one may schedule: it leads, or there is no election.
        self._is_active = False
        self._group: asyncio.TaskGroup | None = None
        #: What plugins have under way in the background.
        self._plugin_works = 0
        self._build(config, plugins, rng, tie_break)
        self._read_state_metrics()

    def _build(
        self,
        config: KubeSchedulerConfiguration,
        plugins: Iterable[type[Plugin] | str],
        rng: random.Random,
        tie_break: str,
    ) -> None:
        clock, snapshot, metrics = self._clock, Snapshot(), self._metrics
        waiting_pods = WaitingPods(clock, metrics)
        parts = SchedulerParts(
            snapshot=snapshot, clock=clock, rng=rng, waiting_pods=waiting_pods, metrics=metrics
        )
        self.profiles = build_profiles(config, parts, plugins=plugins)
        self._cache = Cache()
        self._queue = self._build_queue(config)
        self._scheduling_queue = SchedulingQueue(self._queue, clock=clock, stories=self._stories)
        self._dispatcher = ApiDispatcher(self._client, clock)
        self._complete(parts)
        cycle_parts = CycleParts(
            profiles=self.profiles,
            cache=self._cache,
            queue=self._scheduling_queue,
            algorithm=SchedulingAlgorithm(
                snapshot,
                tie_break=RandomTie(rng) if tie_break == "random" else FirstInOrder(),
                percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
            ),
            api=self._dispatcher,
            waiting_pods=waiting_pods,
            pods_in_pre_bind=parts.pods_in_pre_bind,
            pod_lister=self._find_pod,
            attempts=Attempts(clock=clock, metrics=metrics, stories=self._stories),
            spawn=self._spawn,
        )
        self._scheduling_loop = SchedulingLoop(cycle_parts, dispatcher=self._dispatcher)
        self._add_handlers(waiting_pods)

    def _complete(self, parts: SchedulerParts) -> None:
        """Hand plugins what has come to be since they were made."""
        recorders = {name: self._broadcaster.recorder(name) for name in self.profiles}
        parts.nominator = self._queue.nominator
        parts.api = self._dispatcher
        parts.spawn = self._spawn_for_plugin
        parts.run_in_parallel = run_in_parallel
        parts.activate = self._scheduling_queue.activate
        parts.listers = self._watch_other_kinds()
        parts.event_recorder_of = recorders.__getitem__

    def _build_queue(self, config: KubeSchedulerConfiguration) -> PriorityQueue:
        first = next(iter(self.profiles.values()))
        return PriorityQueue(
            first.less,
            sort_key=first.sort_key,
            pre_enqueue_plugins=_pre_enqueue_plugins(self.profiles),
            queueing_hint_map={
                name: build_queueing_hint_map(framework.rejecting_plugins)
                for name, framework in self.profiles.items()
            },
            pod_lister=self._find_pod,
            initial_backoff_seconds=float(config.pod_initial_backoff_seconds),
            max_backoff_seconds=float(config.pod_max_backoff_seconds),
            max_in_unschedulable_pods_seconds=self._max_in_unschedulable_pods_seconds,
            metrics=self._metrics,
        )

    def _watch_other_kinds(self) -> dict[str, Lister]:
        """Local copies of what plugins read, and word of changes to those that wait for them."""
        for resource, events in kinds_to_watch(self.profiles):
            informer = self._others[resource.plural] = self._informers.informer(resource)
            for name, actions in events.items():
                handler = ObjectEventHandler(
                    name, actions, queue=self._scheduling_queue, metrics=self._metrics
                )
                informer.add_event_handler(
                    on_add=handler.on_add,
                    on_update=handler.on_update,
                    on_delete=handler.on_delete,
                )
        others = {plural: informer.lister for plural, informer in self._others.items()}
        return {"pods": self._pods.lister, "nodes": self._nodes.lister, **others}

    def _add_handlers(self, waiting_pods: WaitingPods) -> None:
        nodes = NodeEventHandler(
            cache=self._cache, queue=self._scheduling_queue, metrics=self._metrics
        )
        pods = PodEventHandler(
            cache=self._cache,
            queue=self._scheduling_queue,
            waiting_pods=waiting_pods,
            scheduler_names=self.profiles.keys(),
            on_corrupted=self._stop_for,
            metrics=self._metrics,
        )
        self._nodes.add_event_handler(
            on_add=nodes.on_add, on_update=nodes.on_update, on_delete=nodes.on_delete
        )
        self._pods.add_event_handler(
            on_add=pods.on_add, on_update=pods.on_update, on_delete=pods.on_delete
        )
        self._pods.add_event_handler(on_update=self._dispatcher.on_pod_update)

    async def run(self) -> NoReturn:
        """Run until cancelled; raises what cannot be survived.

        That is `ClientError` if the API server cannot be reached at the start,
        `CacheCorruptedError` if a bound pod changes its node, and `LeaderElectionLost`.
        """
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._client)
            await stack.enter_async_context(self._event_client)
            await self._client.request("GET", "/version")
            if self._election is not None:
                # Left after all tasks have ended: whoever takes the lease then is alone.
                await stack.enter_async_context(self._election)
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._broadcaster.run(), name="events")
                group.create_task(self._watch_corruption(), name="corruption")
                if not self._delays_cache:
                    await self._start_informers(group)
                if self._election is None:
                    await self._schedule(group)
                else:
                    self._election.start(group)
                    await self._election.acquire()
                    group.create_task(self._schedule(group), name="active")
                    await self._election.renew()
        raise AssertionError("the scheduler never ends by itself")

    async def _start_informers(self, group: asyncio.TaskGroup) -> None:
        self._informers.start(group)
        await self._informers.wait_for_sync()

    async def _schedule(self, group: asyncio.TaskGroup) -> None:
        self._is_active = True
        if self._delays_cache:
            await self._start_informers(group)
        _log.info("Scheduling for %s", ", ".join(self.profiles))
        group.create_task(self._scheduling_loop.run(), name="scheduler")

    @property
    def leader_election_problem(self) -> Callable[[], str] | None:
        """Asks what is wrong with us as the leader, for health checks; None without election."""
        return None if self._election is None else self._election.problem

    # For whoever drives a scheduler step by step: the conformance runner, tests.

    @property
    def has_synced(self) -> bool:
        """Whether the first lists have been delivered."""
        return not self._informers.unsynced()

    @property
    def is_idle(self) -> bool:
        """Whether nothing will happen until an object changes or time passes."""
        if self._election is not None and not self._election.is_idle:
            return False
        if not self._is_active:
            # What is in the queue is for the leader.
            return self._election is not None and (self.has_synced or self._delays_cache)
        events = self._broadcaster.statistics()
        return (
            self.has_synced
            and self._scheduling_loop.is_idle
            and not self._plugin_works
            and not self._dispatcher.backlog
            and not (events.queued or events.sending)
        )

    @property
    def last_resource_versions(self) -> dict[str, str]:
        """How far each informer has come, by the kind it watches."""
        informers: dict[str, Informer[Any]] = {
            "pods": self._pods,
            "nodes": self._nodes,
            **self._others,
        }
        return {name: informer.last_resource_version for name, informer in informers.items()}

    def statistics(self) -> AppStatistics:
        """What has been done and is to be done."""
        return AppStatistics(
            self._metrics.attempts_by_result(),
            self._queue.statistics(),
            self._cache.statistics(),
        )

    def compare_cache(self) -> CacheDifference:
        """Hold cache and queue against what the informers have; log whatever differs."""
        ours = self.profiles.keys()
        pods = self._pods.lister.list()
        difference = compare_cache(
            self._cache,
            nodes=self._nodes.lister.list(),
            pods=[pod for pod in pods if pod.spec.node_name or pod.spec.scheduler_name in ours],
            queued=[*self._queue.pending_pods()[0], *self._queue.in_flight_pods()],
        )
        for line in difference.lines():
            _log.error("%s", line)
        difference.record(self._metrics)
        return difference

    def dump(self) -> None:
        """Compare, and write all that cache and queue hold to the log (SIGUSR2)."""
        self.compare_cache()
        nodes = dump_nodes(self._cache, self._queue.nominator.nominated_pods_for_node)
        _log.warning("Dump of cached NodeInfo\n%s", "\n\n".join(nodes))
        pods, summary = self._queue.pending_pods()
        lines = "\n".join(dump_pods(pods))
        _log.warning("Dump of scheduling queue, %s\n%s", summary, lines)

    async def compare_cache_every(self, seconds: float) -> NoReturn:
        """Compare again and again, while nothing is under way that explains a difference.

        A comparison that fails is logged, and the next one made all the same.
        """
        while True:
            await self._clock.sleep(seconds)
            if self.has_synced and self.is_idle:
                try:
                    self.compare_cache()
                except Exception:
                    _log.exception("Cache and queue could not be compared with the API's view")

    def metrics_text(self, names: Collection[str] = ()) -> bytes:
        """What /metrics answers: all numbers, or those of these names, in Prometheus' format."""
        return self._exposition.text(names)

    def pod_resources_text(self) -> bytes | None:
        """Return the page /metrics/resources; None before this process may schedule."""
        return pod_resources_text(self._pods.lister.list()) if self._is_active else None

    def story(self, namespace: str, name: str) -> bytes | None:
        """What has happened to a pod, as JSON; None if nothing is known of it, or no longer."""
        return self._stories.as_json(namespace, name)

    def known_stories(self) -> Sequence[str]:
        """The pods that have a story, as `namespace/name`."""
        return self._stories.known()

    def _read_state_metrics(self) -> None:
        """Connect the metrics that are state of the queue and the cache."""
        metrics, queue, cache = self._metrics, self._queue, self._cache
        metrics.queue_incoming_pods.read = lambda: queue.incoming_pods.items()
        metrics.unschedulable_pods.read = lambda: queue.unschedulable_reasons.items()
        metrics.inflight_events.read = lambda: queue.in_flight.by_label().items()
        metrics.pending_pods.read = lambda: [
            ((name,), getattr(queue.statistics(), name))
            for name in ("active", "backoff", "unschedulable", "gated")
        ]
        metrics.cache_size.read = lambda: [
            ((name,), getattr(cache.statistics(), name))
            for name in ("nodes", "pods", "assumed_pods")
        ]

    def check(self) -> None:
        """Verify the invariants of cache and queue; for tests. Raises AssertionError."""
        self._cache.check()
        self._queue.check()

    def _find_pod(self, namespace: str, name: str) -> Pod | None:
        return self._pods.lister.get(name, namespace)

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None] | None:
        assert self._group is not None, "work comes only while running"
        try:
            return self._group.create_task(work, name=name)
        except RuntimeError:
            # We are stopping, and this came from a cycle that had its last turn.
            work.close()
            return None

    def _spawn_for_plugin(self, work: Coroutine[None, None, None], name: str) -> None:
        self._plugin_works += 1
        task = self._spawn(self._for_plugin(work, name), name)
        if task is None:
            work.close()
        else:
            # A task that is cancelled before its first turn has not begun with the work.
            task.add_done_callback(lambda _: work.close())

    async def _for_plugin(self, work: Coroutine[None, None, None], name: str) -> None:
        """See a plugin's work through; what it does not see to itself must not stop us all."""
        try:
            await work
        except Exception:
            _log.exception("Background work of a plugin failed: %s", name)
        finally:
            self._plugin_works -= 1

    def _stop_for(self, error: CacheCorruptedError) -> None:
        if not self._corrupted.done():
            self._corrupted.set_exception(error)

    async def _watch_corruption(self) -> NoReturn:
        await self._corrupted
        raise AssertionError("only an exception is ever set")


def _client(config: KubeSchedulerConfiguration, connection: Connection, clock: Clock) -> RestClient:
    limits = config.client_connection
    return RestClient(
        connection, clock=clock, user_agent=_USER_AGENT, qps=limits.qps, burst=limits.burst
    )


def _pre_enqueue_plugins(
    profiles: Mapping[str, Framework],
) -> dict[str, Sequence[NamedPreEnqueuePlugin]]:
    return {
        name: [cast("NamedPreEnqueuePlugin", p) for p in framework.plugins["pre_enqueue"]]
        for name, framework in profiles.items()
    }
