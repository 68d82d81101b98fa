"""Build the core of a scheduler: everything between the API and the plugins, without I/O.

    informers, nominator -> plugins -> queue -> cycle -> event handlers

The core reaches everything outside through its ports. The process connects them to an API server,
`kubesched-explain` and the player of recordings to objects in memory.
Everything that the handle of a plugin offers exists before the first plugin is created.
Source: `New` in `pkg/scheduler/scheduler.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, cast

from scheduler.api.core import Namespace
from scheduler.assembly.event_handlers import NodeEventHandler, PodEventHandler
from scheduler.assembly.informers import Informers
from scheduler.assembly.profiles import build_profiles, with_extenders
from scheduler.assembly.shadow import Shadow
from scheduler.cache import Cache
from scheduler.client.informer import Required
from scheduler.client.kinds import POD_GROUPS, WORKLOADS
from scheduler.clock import run_on
from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    DEFAULT_VERSION,
    GENERIC_WORKLOAD,
    POP_FROM_BACKOFF_Q,
    SchedulerVersion,
    uses_queueing_hints,
)
from scheduler.cycle.attempt import CLEAR_NOMINATED_NODE, NOMINATES, Attempts, CycleParts
from scheduler.cycle.schedule_pod import SchedulingAlgorithm
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.framework.events import SCHEDULE_ATTEMPT_FAILURE, pod_events
from scheduler.metrics.exposition import ALL_METRICS
from scheduler.plugins import IN_TREE
from scheduler.queue import Nominator, PriorityQueue, build_queueing_hint_map
from scheduler.queue.queued_pod_info import COUNTED_IN_1_36, POPPABLE, WAITING, CountedReasons
from scheduler.queue.without_hints import PreChecks, events_without_hints
from scheduler.runtime import PluginHandle, WaitingPods
from scheduler.runtime.handle import run_in_parallel
from scheduler.runtime.pods_in_pre_bind import PodsInPreBind
from scheduler.snapshot import Snapshot
from scheduler.stories import PodStories

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence

    from scheduler.assembly.informers import MakesInformers
    from scheduler.assembly.shadow import ShadowOptions
    from scheduler.clock import Clock
    from scheduler.config import (
        EffectiveVersion,
        FeatureGates,
        KubeSchedulerConfiguration,
    )
    from scheduler.cycle.schedule_pod import TieBreak
    from scheduler.framework.extender import Extender
    from scheduler.framework.handle import ApiWriter, EventSink
    from scheduler.framework.interface import Plugin
    from scheduler.framework.registrations import PluginEvents
    from scheduler.metrics import SchedulerMetrics
    from scheduler.metrics.exposition import MetricsOptions
    from scheduler.queue.gating import NamedPreEnqueuePlugin
    from scheduler.runtime import Framework
    from scheduler.runtime.handle import DryRuns
    from scheduler.snapshot import PodInfo

_COUNTED_REASONS: Final[Mapping[SchedulerVersion, CountedReasons]] = {
    SchedulerVersion.V1_34: CountedReasons((), each_rejection=True),
    SchedulerVersion.V1_35: CountedReasons((), each_rejection=True),
    SchedulerVersion.V1_36: COUNTED_IN_1_36,
    SchedulerVersion.V1_37: CountedReasons((*WAITING, *POPPABLE)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """The options of a scheduler that its configuration does not have.

    `seed` makes random choices repeatable. `tie_break` is `random`, or `first` for the first of
    several best nodes. A pod is retried after `max_in_unschedulable_pods_seconds` even without an
    event. Without `members_back_off` the members of a pod group are popped before their backoff
    ends, as upstream does. `effective_version` has the version to decide as, `feature_gates` the
    gates that are enabled in it. `metrics_options` selects metrics. `identity` is the name in the
    leader election, by default unique to the process. With `shadow` the scheduler compares and
    writes nothing.
    """

    plugins: Sequence[type[Plugin] | str] = ()
    seed: int | None = None
    tie_break: str = "random"
    max_in_unschedulable_pods_seconds: float = 300.0
    members_back_off: bool = True
    identity: str = ""
    feature_gates: FeatureGates = DEFAULT_FEATURE_GATES
    effective_version: EffectiveVersion = DEFAULT_VERSION
    metrics_options: MetricsOptions = ALL_METRICS
    shadow: ShadowOptions | None = None


class Tasks(Protocol):
    """Runs work in the background."""

    def spawn(self, work: Coroutine[None, None, None], name: str, /) -> object:
        """Start work of the scheduler: a binding cycle (`bind NS/NAME`), a report of a failure."""

    def spawn_for_plugin(self, work: Coroutine[None, None, None], name: str, /) -> None:
        """Start work of a plugin, whose exceptions do not stop the scheduler."""

    def fail(self, error: Exception, /) -> None:
        """Stop the scheduler with this error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports of the core: objects, writes, events, time, chance and tasks, from outside.

    `recorder` returns the recorder of events of a profile. `let_others_run` is called within long
    work (`scheduler.clock.Turns`).
    """

    factory: MakesInformers
    api: ApiWriter
    recorder: Callable[[str], EventSink]
    clock: Clock
    rng: random.Random
    tie_break: TieBreak
    tasks: Tasks
    metrics: SchedulerMetrics
    run_in_parallel: Callable[[Iterable[Coroutine[None, None, None]]], Awaitable[None]] = (
        run_in_parallel
    )
    extenders: Sequence[Extender] = ()
    let_others_run: Callable[[], Awaitable[None]] = run_on


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The parts of a scheduler that decide. `profiles` are by scheduler name."""

    ports: Ports
    informers: Informers
    profiles: Mapping[str, Framework]
    cache: Cache
    snapshot: Snapshot
    queue: PriorityQueue
    stories: PodStories
    #: The parts of a scheduling cycle, for `scheduler.cycle`.
    cycle: CycleParts
    shadow: Shadow | None


def build_core(
    config: KubeSchedulerConfiguration,
    ports: Ports,
    options: SchedulerOptions,
    *,
    cache: Cache | None = None,
    queues_pods: bool = True,
) -> Core:
    """Build the core. Raises `PluginSetupError` for profiles that cannot work.

    `cache` takes the place of a new one. Without `queues_pods` the queue stays empty: the caller
    decides which pod is scheduled when.
    """
    config = with_extenders(config)
    gates, metrics = options.feature_gates, ports.metrics
    version = options.effective_version.scheduler
    informers = Informers(ports.factory, config.extenders, gates, version)
    cache = cache or Cache(generic_workload=GENERIC_WORKLOAD in gates)
    shared = _Shared(ports, informers, cache, options)
    profiles = build_profiles(config, shared.handle, plugins=options.plugins, version=version)
    queue, stories = _queue(config, profiles, shared, options), PodStories()
    shared.queue = SchedulingQueue(queue, clock=ports.clock, stories=stories)
    cycle = _cycle_parts(config, shared, profiles, stories)
    if GENERIC_WORKLOAD in gates:
        groups = POD_GROUPS if version >= SchedulerVersion.V1_36 else WORKLOADS
        informers.watch(groups, required=Required.IF_SERVED)
    informers.watch_other_kinds(profiles, shared.queue, metrics, shared.pre_checks)
    shadow = None
    if options.shadow is not None:
        shadow, queues_pods = _shadow(options.shadow, shared, profiles), False
    _add_event_handlers(shared, cycle, queues_pods=queues_pods)
    if version < SchedulerVersion.V1_36:
        metrics.event_stopwatch = lambda: 0.0
    _read_state_metrics(metrics, queue, shared.cache, cycle.version)
    return Core(
        ports=ports,
        informers=informers,
        profiles=profiles,
        cache=shared.cache,
        snapshot=shared.snapshot,
        queue=queue,
        stories=stories,
        cycle=cycle,
        shadow=shadow,
    )


class _Shared:
    """The parts that exist before the first plugin. The handles of all profiles share them."""

    def __init__(
        self, ports: Ports, informers: Informers, cache: Cache, options: SchedulerOptions
    ) -> None:
        self.ports: Final = ports
        self.informers: Final = informers
        self.feature_gates: Final = options.feature_gates
        self.version: Final = options.effective_version.scheduler
        self.cache: Final = cache
        self.uses_hints: Final = uses_queueing_hints(self.feature_gates, self.version)
        self.pod_events: Final = pod_events(self.feature_gates, self.version)
        self.pre_checks: Final = (
            None if self.uses_hints else PreChecks(cache.table, informers.lister(Namespace))
        )
        self.snapshot: Final = Snapshot()
        counts_gated = self.version >= SchedulerVersion.V1_37
        self.nominator: Final = Nominator(informers.find_pod, counts_gated=counts_gated)
        self.waiting_pods: Final = WaitingPods(ports.clock, ports.metrics)
        self.pods_in_pre_bind: Final = PodsInPreBind()
        self._shared_objects: Final[dict[object, object]] = {}
        #: Set before the first pod is scheduled.
        self.queue: SchedulingQueue | None = None

    def handle(self, profile_name: str, dry_runs: DryRuns) -> PluginHandle:
        """Make the handle of one profile."""
        ports = self.ports
        return PluginHandle(
            profile_name=profile_name,
            snapshot=self.snapshot,
            nominator=self.nominator,
            event_recorder=ports.recorder(profile_name),
            api=ports.api,
            feature_gates=self.feature_gates,
            version=self.version,
            metrics=ports.metrics,
            rng=ports.rng,
            clock=ports.clock,
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=self.pods_in_pre_bind,
            dry_runs=dry_runs,
            lister=self.informers.lister,
            on_change=self.informers.on_change,
            pod_group=self.cache.pod_group,
            active_pods=self._active_pods,
            activate=self._activate,
            spawn=ports.tasks.spawn_for_plugin,
            run_in_parallel=ports.run_in_parallel,
            shared_objects=self._shared_objects,
            extenders=ports.extenders,
            let_others_run=ports.let_others_run,
        )

    def _active_pods(self, count: int) -> Sequence[PodInfo]:
        return () if self.queue is None else self.queue.active_pods(count)

    def _activate(self, pods: Mapping[str, PodInfo]) -> None:
        assert self.queue is not None, "plugins activate pods only while pods are scheduled"
        self.queue.activate(pods)


def _queue(
    config: KubeSchedulerConfiguration,
    profiles: Mapping[str, Framework],
    shared: _Shared,
    options: SchedulerOptions,
) -> PriorityQueue:
    first = next(iter(profiles.values()))
    has_groups = GENERIC_WORKLOAD in options.feature_gates
    return PriorityQueue(
        first.less,
        sort_key=first.sort_key,
        pre_enqueue_plugins={
            name: _by_name(framework.plugins["pre_enqueue"]) for name, framework in profiles.items()
        },
        queueing_hint_map={
            name: build_queueing_hint_map(_registered_events(framework, shared), shared.version)
            for name, framework in profiles.items()
        },
        nominator=shared.nominator,
        initial_backoff_seconds=float(config.pod_initial_backoff_seconds),
        max_backoff_seconds=float(config.pod_max_backoff_seconds),
        max_in_unschedulable_pods_seconds=options.max_in_unschedulable_pods_seconds,
        gated_wait_anew=shared.version >= SchedulerVersion.V1_37,
        counted_reasons=_COUNTED_REASONS[shared.version],
        metrics=shared.ports.metrics,
        pod_events=shared.pod_events,
        generic_workload=has_groups,
        members_back_off=has_groups and options.members_back_off,
        uses_hints=shared.uses_hints,
        pops_from_backoff=POP_FROM_BACKOFF_Q in options.feature_gates,
        order_changes=first.queue_sort_plugin.order_changes,
    )


def _registered_events(framework: Framework, shared: _Shared) -> Sequence[PluginEvents]:
    registered = framework.registered_events
    if shared.uses_hints:
        return registered
    return [
        events_without_hints(of, is_in_tree=IN_TREE.get(of.plugin.name) is type(of.plugin))
        for of in registered
    ]


def _by_name(plugins: Iterable[Plugin]) -> list[NamedPreEnqueuePlugin]:
    """Sort PreEnqueue plugins. Upstream leaves their order, and so the gating one, to chance."""
    named = (cast("NamedPreEnqueuePlugin", plugin) for plugin in plugins)
    return sorted(named, key=lambda plugin: plugin.name)


def _cycle_parts(
    config: KubeSchedulerConfiguration,
    shared: _Shared,
    profiles: Mapping[str, Framework],
    stories: PodStories,
) -> CycleParts:
    ports = shared.ports
    assert shared.queue is not None, "the queue is built before the cycle"
    keeps = shared.version < SchedulerVersion.V1_35
    keeps_failed = keeps and NOMINATES in shared.feature_gates
    return CycleParts(
        profiles=profiles,
        cache=shared.cache,
        queue=shared.queue,
        algorithm=SchedulingAlgorithm(
            shared.snapshot,
            tie_break=ports.tie_break,
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
            extenders=ports.extenders,
        ),
        api=ports.api,
        waiting_pods=shared.waiting_pods,
        pods_in_pre_bind=shared.pods_in_pre_bind,
        pod_lister=shared.informers.find_pod,
        attempts=Attempts(clock=ports.clock, metrics=ports.metrics, stories=stories),
        spawn=ports.tasks.spawn,
        feature_gates=shared.feature_gates,
        version=shared.version,
        pod_group_lister=shared.informers.find_pod_group,
        let_others_run=ports.let_others_run,
        nomination_of_failed=None if keeps_failed else CLEAR_NOMINATED_NODE,
        nomination_without_post_filter=None if keeps else CLEAR_NOMINATED_NODE,
    )


def _shadow(options: ShadowOptions, shared: _Shared, profiles: Mapping[str, Framework]) -> Shadow:
    """Build shadow mode; its event handler goes before the cache's handlers."""
    shadow = Shadow(
        options=options,
        profiles=profiles,
        cache=shared.cache,
        snapshot=shared.snapshot,
        nominator=shared.nominator,
        pods=shared.informers.pods,
        metrics=shared.ports.metrics,
        clock=shared.ports.clock,
    )
    shared.informers.pods.add_event_handler(
        on_add=shadow.on_add, on_update=shadow.on_update, on_delete=shadow.on_delete
    )
    return shadow


def _add_event_handlers(shared: _Shared, cycle: CycleParts, *, queues_pods: bool) -> None:
    """Connect the informers of pods and nodes to cache and queue."""
    metrics, informers = shared.ports.metrics, shared.informers
    nodes = NodeEventHandler(
        cache=cycle.cache, queue=cycle.queue, metrics=metrics, pre_checks=shared.pre_checks
    )
    pods = PodEventHandler(
        cache=cycle.cache,
        queue=cycle.queue,
        waiting_pods=cycle.waiting_pods,
        scheduler_names=cycle.profiles.keys() if queues_pods else (),
        feature_gates=cycle.feature_gates,
        on_corrupted=shared.ports.tasks.fail,
        metrics=metrics,
        pod_events=shared.pod_events,
        frees_assumed=cycle.version >= SchedulerVersion.V1_35,
        pre_checks=shared.pre_checks,
    )
    informers.nodes.add_event_handler(
        on_add=nodes.on_add, on_update=nodes.on_update, on_delete=nodes.on_delete
    )
    informers.pods.add_event_handler(
        on_add=pods.on_add, on_update=pods.on_update, on_delete=pods.on_delete
    )


def _read_state_metrics(
    metrics: SchedulerMetrics, queue: PriorityQueue, cache: Cache, version: SchedulerVersion
) -> None:
    """Connect the metrics that are state of the queue and the cache.

    An entity is counted where a pod arrives from elsewhere: not after a failed attempt, nor if an
    event lets it wait for the end of its backoff.
    """
    without_entity = ("unschedulable", SCHEDULE_ATTEMPT_FAILURE)
    of_groups = ("incomplete", "pending") if version >= SchedulerVersion.V1_37 else ()

    def waiting() -> list[tuple[tuple[str], int]]:
        return [
            ((name,), getattr(queue.statistics(), name))
            for name in ("active", "backoff", "unschedulable", "gated")
        ]

    metrics.queue_incoming_pods.read = lambda: queue.incoming_pods.items()
    metrics.unschedulable_pods.read = lambda: queue.unschedulable_reasons.items()
    metrics.inflight_events.read = lambda: queue.in_flight.by_label().items()
    metrics.pending_pods.read = lambda: [*waiting(), *(((name,), 0) for name in of_groups)]
    metrics.queued_entities.read = lambda: [
        ((*labels, "pod"), count) for labels, count in waiting()
    ]
    metrics.queue_incoming_entities.read = lambda: [
        ((*labels, "pod"), count)
        for labels, count in queue.incoming_pods.items()
        if labels[0] != "backoff" and labels != without_entity
    ]
    metrics.cache_size.read = lambda: [
        ((name,), getattr(cache.statistics(), name)) for name in ("nodes", "pods", "assumed_pods")
    ]
