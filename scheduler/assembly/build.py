"""Build a scheduler's process: its core, connected to an API server.

clients, informers, dispatcher, leader election -> core -> scheduling loop
"""

from __future__ import annotations

import asyncio
import functools
import os
import platform
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.assembly.background import BackgroundTasks
from scheduler.assembly.core import Ports, build_core
from scheduler.assembly.profiles import with_extenders
from scheduler.client import EventBroadcaster, InformerFactory, RestClient
from scheduler.client.retries import Retry
from scheduler.clock import Turns
from scheduler.config import SchedulerVersion
from scheduler.config.feature_gates import feature_states
from scheduler.cycle.schedule_pod import FirstInOrder, RandomTie
from scheduler.cycle.scheduling_loop import SchedulingLoop
from scheduler.extenders import HTTPExtenders
from scheduler.leader_election.elector import LeaderElection, new_identity
from scheduler.metrics import SchedulerMetrics
from scheduler.metrics.installation import Installation

if TYPE_CHECKING:
    from scheduler.assembly.core import Core, SchedulerOptions
    from scheduler.client import Connection
    from scheduler.clock import Clock
    from scheduler.config import EffectiveVersion, KubeSchedulerConfiguration

USER_AGENT: Final = "kubesched/scheduler"
_ELECTION_USER_AGENT: Final = "kubesched/leader-election"
_COORDINATED: Final = "CoordinatedLeaderElection"


class Outside:
    """The parts of the process around the core: connections, the election, background tasks."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        connection: Connection,
        options: SchedulerOptions,
        *,
        clock: Clock,
    ) -> None:
        self._only_reads: Final = options.shadow is not None
        version = options.effective_version.scheduler
        self._deciding_as: Final = f"(kube-scheduler {version.release})"
        self.clock: Final = clock
        self.turns: Final = Turns(clock)
        self.rng: Final = random.Random(options.seed)
        self.metrics: Final = SchedulerMetrics(clock.monotonic)
        self.tasks: Final = BackgroundTasks()
        self.election: Final = self._election(config, connection, options)
        self.client: Final = self._client(config, connection)
        # Events have a rate limit of their own, so that they do not delay bindings.
        self.event_client: Final = self._client(config, connection)
        self.broadcaster: Final = EventBroadcaster(self.event_client, clock=clock, rng=self.rng)
        self.extenders: Final = HTTPExtenders(
            with_extenders(config).extenders, clock=clock, environ=os.environ
        )
        self.informer_factory: Final = InformerFactory(self.client, clock=clock, rng=self.rng)
        since_1_37 = version >= SchedulerVersion.V1_37
        # Source: `BindPod` in `pkg/scheduler/util`, v1.37.
        binding_retry = Retry.IF_REFUSED if since_1_37 else Retry.IF_NOT_SENT
        self.dispatcher: Final = ApiDispatcher(self.client, clock, binding_retry=binding_retry)

    def _election(
        self, config: KubeSchedulerConfiguration, connection: Connection, options: SchedulerOptions
    ) -> LeaderElection | None:
        if not config.leader_election.leader_elect:
            return None
        is_coordinated = _COORDINATED in options.feature_gates
        version = options.effective_version
        return LeaderElection(
            config,
            connection,
            identity=options.identity or new_identity(),
            clock=self.clock,
            seed=options.seed,
            metrics=self.metrics,
            user_agent=f"{_ELECTION_USER_AGENT} {self._deciding_as}",
            coordinated_as=version if is_coordinated else None,
            releases_despite_conflicts=version.scheduler >= SchedulerVersion.V1_37,
        )

    def ports(self, tie_break: str) -> Ports:
        """Return the ports of the core."""
        return Ports(
            factory=self.informer_factory,
            api=self.dispatcher,
            recorder=self.broadcaster.recorder,
            clock=self.clock,
            rng=self.rng,
            tie_break=RandomTie(self.rng) if tie_break == "random" else FirstInOrder(),
            tasks=self.tasks,
            metrics=self.metrics,
            extenders=self.extenders.in_order,
            let_others_run=self.turns.let_others_run,
        )

    def _client(self, config: KubeSchedulerConfiguration, connection: Connection) -> RestClient:
        limits = config.client_connection
        return RestClient(
            connection,
            clock=self.clock,
            user_agent=f"{USER_AGENT} {self._deciding_as}",
            qps=limits.qps,
            burst=limits.burst,
            metrics=self.metrics,
            write_refusal=self._write_refusal,
            yields_to=None if self.election is None else self.election.retries_end,
        )

    def _write_refusal(self) -> str:
        if self._only_reads:
            return "this process only reads"
        if self.election is not None and not self.election.leads:
            return "another process may lead now"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltScheduler:
    """A built scheduler."""

    core: Core
    outside: Outside
    loop: SchedulingLoop


def build(
    config: KubeSchedulerConfiguration,
    connection: Connection,
    options: SchedulerOptions,
    *,
    clock: Clock,
) -> BuiltScheduler:
    """Build a scheduler; `SchedulerApp` describes the parameters."""
    outside = Outside(config, connection, options, clock=clock)
    core = build_core(config, outside.ports(options.tie_break), options)
    core.informers.pods.add_event_handler(on_update=outside.dispatcher.on_pod_update)
    gates, version = options.feature_gates, options.effective_version
    if version.scheduler >= SchedulerVersion.V1_37:
        outside.informer_factory.measure(outside.metrics)
    outside.metrics.feature_enabled.read = lambda: feature_states(gates, version)
    _read_process_metrics(outside.metrics, version)
    loop = SchedulingLoop(core.cycle, dispatcher=outside.dispatcher)
    return BuiltScheduler(core=core, outside=outside, loop=loop)


@functools.cache  # it does not change, and a process that tests builds hundreds of schedulers
def _installation() -> Installation:
    return Installation.find()


def _read_process_metrics(metrics: SchedulerMetrics, version: EffectiveVersion) -> None:
    """Connect the metrics of the program and its event loop."""
    python = f"python{platform.python_version()}"
    where = f"{platform.system().lower()}/{platform.machine()}"
    compiler = platform.python_implementation()
    installed = _installation()
    commit, tree = installed.commit, "clean" if installed.commit else ""
    release, minor = version.scheduler.release, str(int(version.scheduler))
    labels = (installed.date, compiler, commit, tree, release, python, "1", minor, where)
    metrics.build_info.read = lambda: [(labels, 1.0)]
    metrics.version_info.read = lambda: [((release.removeprefix("v"), "kube", *version.texts), 1.0)]
    metrics.go_goroutines.read = lambda: [((), float(len(asyncio.all_tasks())))]
