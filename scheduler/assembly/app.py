"""A whole scheduler: run it, and see if it is idle.

    connection -> informers (first lists delivered) -> lease -> scheduling loop

Everything runs in one task group, so a part that fails stops the others and the process reports
the error. With `delayCacheUntilActive` the lease comes before the informers; without `leaderElect`
there is no lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import msgspec

from scheduler.assembly import debugging
from scheduler.assembly.build import build
from scheduler.assembly.core import SchedulerOptions
from scheduler.assembly.live_answers import live_pod, live_state
from scheduler.client import ClientError, Forbidden, KubeconfigError, NotFound, Unauthorized
from scheduler.client.flow_control import Backoff
from scheduler.metrics.exposition import Exposition
from scheduler.metrics.pod_resources import pod_resources_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from scheduler.cache import CacheDifference, CacheStatistics
    from scheduler.client import Connection
    from scheduler.clock import Clock
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.metrics import SchedulerMetrics
    from scheduler.queue import QueueStatistics
    from scheduler.runtime import Framework

_log: Final = logging.getLogger(__name__)

_NO_OPTIONS: Final = SchedulerOptions()


def _nothing() -> None:
    """Do nothing."""


class _ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = "unknown"


class AppStatistics(NamedTuple):
    """Counts: attempts by result, pods in the queue, objects in the cache."""

    attempts: Mapping[str, int]
    queue: QueueStatistics
    cache: CacheStatistics


class SchedulerApp:
    """A whole scheduler. It is built by the constructor and started by `run`.

    With `options.shadow` it compares and writes nothing, whatever `config` has about leader
    election. Raises `PluginSetupError` for profiles that cannot work, and `ConfigError` for an
    election that cannot.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        connection: Connection,
        *,
        clock: Clock,
        options: SchedulerOptions = _NO_OPTIONS,
    ) -> None:
        if options.shadow is not None:
            election = msgspec.structs.replace(config.leader_election, leader_elect=False)
            config = msgspec.structs.replace(config, leader_election=election)
        self._parts: Final = build(config, connection, options, clock=clock)
        self._core: Final = self._parts.core
        self._outside: Final = self._parts.outside
        self.effective_version: Final = options.effective_version
        self._url: Final = connection.base_url
        self._election: Final = self._outside.election
        self._exposition: Final = Exposition(self._outside.metrics, options.metrics_options)
        self._delays_cache: Final = config.delay_cache_until_active and self._election is not None
        self._dump: asyncio.Future[None] | None = None
        #: Called once the first lists are delivered.
        self.on_synced: Callable[[], None] = _nothing
        #: True once this process may schedule: it is the leader, or there is no election.
        self._is_active = False

    @property
    def metrics(self) -> SchedulerMetrics:
        """The metrics as numbers."""
        return self._outside.metrics

    @property
    def profiles(self) -> Mapping[str, Framework]:
        """The frameworks by scheduler name."""
        return self._core.profiles

    async def run(self) -> NoReturn:
        """Run until cancelled.

        An API server that cannot be reached is waited for. Raises `KubeconfigError` if there are no
        credentials, `CacheCorruptedError` if a bound pod changes its node, and
        `LeaderElectionLost`.
        """
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._outside.client)
            await stack.enter_async_context(self._outside.event_client)
            await stack.enter_async_context(self._outside.extenders)
            await self._wait_for_server()
            if self._election is not None:
                # The lease is released after all tasks have ended.
                await stack.enter_async_context(self._election)
            async with asyncio.TaskGroup() as group:
                self._outside.tasks.group = group
                group.create_task(self._outside.broadcaster.run(), name="events")
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

    async def _wait_for_server(self) -> None:
        """Wait until the API server answers; log the wait and its end.

        What cannot heal is raised: the credentials of the kubeconfig cannot be had.
        """
        backoff = Backoff(clock=self._outside.clock, rng=self._outside.rng)
        reported: type[ClientError] | None = None
        while True:
            try:
                body = await self._outside.client.request("GET", "/version")
            except (KubeconfigError, Forbidden, NotFound) as error:
                if isinstance(error, KubeconfigError):
                    raise
                body = b"{}"
            except ClientError as error:
                if reported is not type(error):
                    reported = type(error)
                    text = "The API server cannot be reached; trying again until it can"
                    if isinstance(error, Unauthorized):
                        text = "The API server refuses the credentials; trying again"
                    _log.error(text, {"err": error, "server": self._url})
                await backoff.pause()
                continue
            break
        server = _ServerVersion()
        with contextlib.suppress(msgspec.DecodeError):
            server = msgspec.json.decode(body, type=_ServerVersion)
        _log.info(
            "Connected to the API server", {"server": self._url, "version": server.git_version}
        )

    async def _start_informers(self, group: asyncio.TaskGroup) -> None:
        factory, informers = self._outside.informer_factory, self._core.informers
        factory.start(group)
        await factory.wait_for_sync()
        nodes, pods = len(informers.nodes.lister), len(informers.pods.lister)
        _log.info("Caches are synced", {"nodes": nodes, "pods": pods})
        self.on_synced()

    async def _schedule(self, group: asyncio.TaskGroup) -> None:
        self._is_active = True
        if self._delays_cache:
            await self._start_informers(group)
        if (shadow := self._core.shadow) is not None:
            _log.info("Comparing, not scheduling", {"profiles": [*self.profiles]})
            group.create_task(shadow.run(), name="shadow")
            return
        _log.info("Starting to schedule", {"profiles": [*self.profiles]})
        group.create_task(self._parts.loop.run(), name="scheduler")

    @property
    def leader_election_problem(self) -> Callable[[], str] | None:
        """The health check of the leader, which returns "" or a problem; None without election."""
        return None if self._election is None else self._election.problem

    # For programs that run a scheduler step by step: the conformance runner, tests.

    @property
    def has_synced(self) -> bool:
        """True once the first lists have been delivered."""
        return self._outside.informer_factory.has_synced

    @property
    def is_idle(self) -> bool:
        """True if nothing will happen until an object changes or time passes."""
        if self._election is not None and not self._election.is_idle:
            return False
        if not self._is_active:
            # The leader schedules the pods in the queue.
            return self._election is not None and (self.has_synced or self._delays_cache)
        return (
            self.has_synced
            and self._parts.loop.is_idle
            and self._outside.tasks.is_idle
            and (self._core.shadow is None or self._core.shadow.is_idle)
            and not self._outside.dispatcher.backlog
            and self._outside.broadcaster.is_idle
        )

    @property
    def last_resource_versions(self) -> dict[str, str]:
        """The last resource version of each informer by kind, without kinds that do not exist."""
        return {
            kind: informer.last_resource_version
            for kind, informer in self._core.informers.by_kind.items()
            if informer.is_available
        }

    def statistics(self) -> AppStatistics:
        return AppStatistics(
            self._outside.metrics.attempts_by_result(),
            self._core.queue.statistics(),
            self._core.cache.statistics(),
        )

    def compare_cache(self) -> CacheDifference:
        """Compare cache and queue with the informers; differences are logged and counted."""
        return debugging.compare(self._core)

    def dump(self) -> None:
        """Compare cache and queue with the informers, then log their contents (SIGUSR2).

        The text is made in a thread, from copies.
        """
        self.compare_cache()
        self._dump = asyncio.ensure_future(asyncio.to_thread(debugging.dump_of(self._core)))

    async def compare_cache_every(self, seconds: float) -> NoReturn:
        """Compare at intervals, whenever the scheduler is idle.

        An idle scheduler has no work under way that explains a difference. A comparison that fails
        is logged.
        """
        while True:
            await self._outside.clock.sleep(seconds)
            if self.has_synced and self.is_idle:
                try:
                    self.compare_cache()
                except Exception:  # noqa: BLE001 - a diagnosis that fails stops nothing
                    _log.exception("Cache and queue could not be compared with the API's view")

    def metrics_text(self, names: Collection[str] = ()) -> bytes:
        """Return the page /metrics in Prometheus' format: all metrics, or the named ones."""
        return self._exposition.text(names)

    async def pod_resources_text(self) -> bytes | None:
        """Return the page /metrics/resources; None before this process may schedule.

        It is written in a thread, from pods that never change: 150,000 take seconds.
        """
        pods = self._core.informers.pods.lister.list()
        return await asyncio.to_thread(pod_resources_text, pods) if self._is_active else None

    def story(self, namespace: str, name: str) -> bytes | None:
        """Return the story of a pod as JSON; None if it has none, or no longer."""
        return self._core.stories.as_json(namespace, name)

    def group_story(self, namespace: str, name: str) -> bytes | None:
        """Return the story of a pod group as JSON; None if it has none, or no longer."""
        return self._core.stories.group_as_json(namespace, name)

    def known_stories(self) -> Sequence[str]:
        """The pods that have a story, as `namespace/name`."""
        return self._core.stories.known()

    def ui_state(self) -> bytes:
        """Return the state for the page /debug/ui as JSON."""
        return live_state(self._core, self._parts.outside.clock.now())

    def ui_pod(self, namespace: str, name: str) -> bytes | None:
        """Return a pod for the page /debug/ui as JSON; None if it has no story."""
        is_in_cycle = self._parts.loop.is_in_cycle
        return live_pod(self._core, namespace, name, is_in_cycle=is_in_cycle)

    def shadow_report(self) -> bytes | None:
        """Return the page /debug/shadow as JSON; None without shadow mode."""
        return None if self._core.shadow is None else self._core.shadow.as_json()

    def check(self) -> None:
        """Verify the invariants of cache and queue; for tests. Raises AssertionError."""
        self._core.cache.check()
        self._core.queue.check()
