"""Build the parts of a scheduler from its configuration and connect them.

    clients, informers, dispatcher, nominator -> plugins -> queue -> cycle -> event handlers

Everything that the handle of a plugin offers exists before the first plugin is created.
Source: `New` in `pkg/scheduler/scheduler.go`.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, overload

import msgspec

from scheduler.api.pod_groups import PodGroup
from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.assembly import gated_fields
from scheduler.assembly.background import BackgroundTasks
from scheduler.assembly.event_handlers import NodeEventHandler, ObjectEventHandler, PodEventHandler
from scheduler.assembly.part_sharing import PartSharing
from scheduler.assembly.profiles import build_profiles, with_extenders
from scheduler.assembly.shadow import Shadow, ShadowOptions
from scheduler.assembly.watched_kinds import kinds_to_watch
from scheduler.cache import Cache
from scheduler.client import (
    NODES,
    PODS,
    EventBroadcaster,
    Informer,
    InformerFactory,
    RestClient,
)
from scheduler.client.informer import Required
from scheduler.client.kinds import (
    POD_GROUPS,
    GroupVersionResource,
    kind_key,
    resource_named,
)
from scheduler.config import GANG_SCHEDULING, GENERIC_WORKLOAD, KUBERNETES_VERSION
from scheduler.config.feature_gates import feature_states
from scheduler.cycle.attempt import Attempts, CycleParts
from scheduler.cycle.schedule_pod import FirstInOrder, RandomTie, SchedulingAlgorithm
from scheduler.cycle.scheduling_loop import SchedulingLoop
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.extenders import HTTPExtenders
from scheduler.framework.handle import KindNotWatchedError
from scheduler.leader_election.elector import LeaderElection
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import Nominator, PriorityQueue, build_queueing_hint_map
from scheduler.runtime import PluginHandle, WaitingPods
from scheduler.runtime.handle import run_in_parallel
from scheduler.runtime.pods_in_pre_bind import PodsInPreBind
from scheduler.snapshot import Snapshot
from scheduler.stories import PodStories

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from scheduler.api.core import Pod
    from scheduler.api.unstructured import Kind, Unstructured
    from scheduler.client import Connection, Resource
    from scheduler.clock import Clock
    from scheduler.config import (
        EffectiveVersion,
        Extender,
        FeatureGates,
        KubeSchedulerConfiguration,
    )
    from scheduler.framework.handle import Lister
    from scheduler.framework.interface import Plugin
    from scheduler.runtime import Framework
    from scheduler.runtime.handle import DryRun
    from scheduler.snapshot import PodInfo

T = TypeVar("T")

#: Finished pods need no node and use no resources.
_UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
_USER_AGENT: Final = "kubesched/scheduler"


class Informers:
    """The informers of the scheduler, by the key of the kind they watch (`kind_key`)."""

    def __init__(
        self, factory: InformerFactory, extenders: Sequence[Extender], gates: FeatureGates
    ) -> None:
        self.factory: Final = factory
        self._transforms: Final = gated_fields.transforms(gates)
        without_cache = [extender for extender in extenders if not extender.node_cache_capable]
        sends_victims = any(extender.preempt_verb for extender in without_cache)
        self.pods: Final = factory.informer(
            replace(PODS, keeps_json=bool(extenders)),
            field_selector=_UNFINISHED,
            transform=PartSharing(
                keeps_json=sends_victims, first=self._transforms.get(PODS.plural)
            ),
        )
        self.nodes: Final = factory.informer(replace(NODES, keeps_json=bool(without_cache)))
        self.by_kind: Final[dict[str, Informer[Any]]] = {"pods": self.pods, "nodes": self.nodes}
        self._is_complete = False

    @overload
    def lister(self, kind: type[T], /) -> Lister[T]: ...

    @overload
    def lister(self, kind: str, /) -> Lister[Unstructured]: ...

    def lister(self, kind: Kind, /) -> Lister[Any]:
        """Return the objects of a kind, watched from now on if plugins are still being created.

        Raises `KindNotWatchedError` for a kind that is not watched.
        """
        key = kind_key(kind)
        if key not in self.by_kind and not self._is_complete:
            self.watch(resource_named(kind), required=Required.NO)
        if key not in self.by_kind:
            raise KindNotWatchedError(key)
        return self.by_kind[key].lister

    def watch(
        self, resource: Resource[Any] | GroupVersionResource, *, required: Required
    ) -> Informer[Any]:
        """Return the informer of a kind, made if there is none yet."""
        informer = self.by_kind.get(resource.key)
        if informer is None:
            if isinstance(resource, GroupVersionResource):
                informer = self.factory.discovered(resource)
            else:
                transform = self._transforms.get(resource.plural)
                informer = self.factory.informer(resource, transform=transform)
            informer.required = Required.NO
            self.by_kind[resource.key] = informer
        informer.required = max(informer.required, required)
        return informer

    def watch_other_kinds(
        self,
        profiles: Mapping[str, Framework],
        queue: SchedulingQueue,
        metrics: SchedulerMetrics,
    ) -> None:
        """Watch the kinds that plugins read or register for; events go to the queue."""
        for resource, events, required in kinds_to_watch(profiles):
            informer = self.watch(resource, required=required)
            for name, actions in events.items():
                handler = ObjectEventHandler(name, actions, queue=queue, metrics=metrics)
                informer.add_event_handler(
                    on_add=handler.on_add,
                    on_update=handler.on_update,
                    on_delete=handler.on_delete,
                )
        self._is_complete = True

    def find_pod_group(self, namespace: str, name: str) -> PodGroup | None:
        """Return a pod group as the informer has it; None if there is none."""
        return self.lister(PodGroup).get(name, namespace)

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod as the informer has it; None if there is none."""
        return self.pods.lister.get(name, namespace)


class BaseParts:
    """The parts that exist before the first plugin. The handles of all profiles share them."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        connection: Connection,
        *,
        clock: Clock,
        seed: int | None,
        identity: str,
        feature_gates: FeatureGates,
        only_reads: bool,
    ) -> None:
        self._only_reads: Final = only_reads
        self.clock: Final = clock
        self.feature_gates: Final = feature_gates
        self.cache: Final = Cache(generic_workload=GENERIC_WORKLOAD in feature_gates)
        self.rng: Final = random.Random(seed)
        self.metrics: Final = SchedulerMetrics(clock.monotonic)
        self.tasks: Final = BackgroundTasks()
        self.election: Final = LeaderElection.from_config(
            config,
            connection,
            identity=identity,
            clock=clock,
            seed=seed,
            metrics=self.metrics,
        )
        self.client: Final = self._client(config, connection)
        # Events have a rate limit of their own, so that they do not delay bindings.
        self.event_client: Final = self._client(config, connection)
        self.broadcaster: Final = EventBroadcaster(self.event_client, clock=clock, rng=self.rng)
        config = with_extenders(config)
        self.extenders: Final = HTTPExtenders(config.extenders, clock=clock, environ=os.environ)
        self.informers: Final = Informers(
            InformerFactory(self.client, clock=clock, rng=self.rng), config.extenders, feature_gates
        )
        self.nominator: Final = Nominator(self.informers.find_pod)
        self.dispatcher: Final = ApiDispatcher(self.client, clock)
        self.waiting_pods: Final = WaitingPods(clock, self.metrics)
        self.pods_in_pre_bind: Final = PodsInPreBind()
        self.snapshot: Final = Snapshot()
        self.shared_objects: Final[dict[object, object]] = {}
        #: Set before the first pod is scheduled.
        self.queue: SchedulingQueue | None = None

    def handle(self, profile_name: str, worlds: DryRun) -> PluginHandle:
        """Make the handle of one profile."""
        return PluginHandle(
            profile_name=profile_name,
            snapshot=self.snapshot,
            nominator=self.nominator,
            event_recorder=self.broadcaster.recorder(profile_name),
            api=self.dispatcher,
            feature_gates=self.feature_gates,
            metrics=self.metrics,
            rng=self.rng,
            clock=self.clock,
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=self.pods_in_pre_bind,
            worlds=worlds,
            lister=self.informers.lister,
            pod_group=self.cache.pod_group,
            activate=self._activate,
            spawn=self.tasks.spawn_for_plugin,
            run_in_parallel=run_in_parallel,
            shared_objects=self.shared_objects,
            extenders=self.extenders.in_order,
        )

    def _client(self, config: KubeSchedulerConfiguration, connection: Connection) -> RestClient:
        limits = config.client_connection
        return RestClient(
            connection,
            clock=self.clock,
            user_agent=_USER_AGENT,
            qps=limits.qps,
            burst=limits.burst,
            metrics=self.metrics,
            write_refusal=self._write_refusal,
        )

    def _write_refusal(self) -> str:
        if self._only_reads:
            return "this process only reads"
        if self.election is not None and not self.election.leads:
            return "another process may lead now"
        return ""

    def _activate(self, pods: Mapping[str, PodInfo]) -> None:
        assert self.queue is not None, "plugins activate pods only while pods are scheduled"
        self.queue.activate(pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltScheduler:
    """A built scheduler. `profiles` are by scheduler name."""

    base: BaseParts
    stories: PodStories
    profiles: Mapping[str, Framework]
    cache: Cache
    queue: PriorityQueue
    loop: SchedulingLoop
    shadow: Shadow | None


def build(
    config: KubeSchedulerConfiguration,
    connection: Connection,
    *,
    clock: Clock,
    plugins: Iterable[type[Plugin] | str],
    seed: int | None,
    tie_break: str,
    max_in_unschedulable_pods_seconds: float,
    identity: str,
    feature_gates: FeatureGates,
    effective_version: EffectiveVersion,
    shadow: ShadowOptions | None,
) -> BuiltScheduler:
    """Build a scheduler; the parameters are those of `SchedulerApp`."""
    base = BaseParts(
        config,
        connection,
        clock=clock,
        seed=seed,
        identity=identity,
        feature_gates=feature_gates,
        only_reads=shadow is not None,
    )
    profiles = build_profiles(config, base.handle, plugins=plugins)
    stories = PodStories()
    queue = _queue(
        config,
        profiles,
        base,
        max_in_unschedulable_pods_seconds=max_in_unschedulable_pods_seconds,
    )
    base.queue = SchedulingQueue(queue, clock=clock, stories=stories)
    cycle_parts = _cycle_parts(config, base, profiles, base.queue, stories, tie_break=tie_break)
    if GENERIC_WORKLOAD in feature_gates:
        base.informers.watch(POD_GROUPS, required=Required.IF_SERVED)
    base.informers.watch_other_kinds(profiles, base.queue, base.metrics)
    shadowing = None if shadow is None else _shadow(shadow, base, profiles)
    _add_event_handlers(
        base, cycle_parts, scheduler_names=profiles.keys() if shadowing is None else ()
    )
    _read_state_metrics(base.metrics, queue, base.cache)
    base.metrics.feature_enabled.read = lambda: feature_states(feature_gates, effective_version)
    _read_process_metrics(base.metrics, effective_version)
    return BuiltScheduler(
        base=base,
        stories=stories,
        profiles=profiles,
        cache=base.cache,
        queue=queue,
        loop=SchedulingLoop(cycle_parts, dispatcher=base.dispatcher),
        shadow=shadowing,
    )


def _shadow(options: ShadowOptions, base: BaseParts, profiles: Mapping[str, Framework]) -> Shadow:
    """Build shadow mode; its event handler goes before those of the cache."""
    shadow = Shadow(
        options=options,
        profiles=profiles,
        cache=base.cache,
        snapshot=base.snapshot,
        nominator=base.nominator,
        pods=base.informers.pods,
        metrics=base.metrics,
        clock=base.clock,
    )
    base.informers.pods.add_event_handler(
        on_add=shadow.on_add, on_update=shadow.on_update, on_delete=shadow.on_delete
    )
    return shadow


def _cycle_parts(
    config: KubeSchedulerConfiguration,
    base: BaseParts,
    profiles: Mapping[str, Framework],
    queue: SchedulingQueue,
    stories: PodStories,
    *,
    tie_break: str,
) -> CycleParts:
    return CycleParts(
        profiles=profiles,
        cache=base.cache,
        queue=queue,
        algorithm=SchedulingAlgorithm(
            base.snapshot,
            tie_break=RandomTie(base.rng) if tie_break == "random" else FirstInOrder(),
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
            extenders=base.extenders.in_order,
        ),
        api=base.dispatcher,
        waiting_pods=base.waiting_pods,
        pods_in_pre_bind=base.pods_in_pre_bind,
        pod_lister=base.informers.find_pod,
        attempts=Attempts(clock=base.clock, metrics=base.metrics, stories=stories),
        spawn=base.tasks.spawn,
        feature_gates=base.feature_gates,
        pod_group_lister=base.informers.find_pod_group,
    )


def _queue(
    config: KubeSchedulerConfiguration,
    profiles: Mapping[str, Framework],
    base: BaseParts,
    *,
    max_in_unschedulable_pods_seconds: float,
) -> PriorityQueue:
    first = next(iter(profiles.values()))
    return PriorityQueue(
        first.less,
        sort_key=first.sort_key,
        pre_enqueue_plugins={
            name: framework.plugins["pre_enqueue"] for name, framework in profiles.items()
        },
        queueing_hint_map={
            name: build_queueing_hint_map(framework.registered_events)
            for name, framework in profiles.items()
        },
        nominator=base.nominator,
        initial_backoff_seconds=float(config.pod_initial_backoff_seconds),
        max_backoff_seconds=float(config.pod_max_backoff_seconds),
        max_in_unschedulable_pods_seconds=max_in_unschedulable_pods_seconds,
        metrics=base.metrics,
        generic_workload=GENERIC_WORKLOAD in base.feature_gates,
        members_back_off=GENERIC_WORKLOAD in base.feature_gates,
    )


def _add_event_handlers(
    base: BaseParts, parts: CycleParts, *, scheduler_names: Collection[str]
) -> None:
    """Connect the informers of pods and nodes to cache and queue."""
    nodes = NodeEventHandler(cache=parts.cache, queue=parts.queue, metrics=base.metrics)
    pods = PodEventHandler(
        cache=parts.cache,
        queue=parts.queue,
        waiting_pods=base.waiting_pods,
        scheduler_names=scheduler_names,
        gang_scheduling=GANG_SCHEDULING in base.feature_gates,
        on_corrupted=base.tasks.fail,
        metrics=base.metrics,
    )
    base.informers.nodes.add_event_handler(
        on_add=nodes.on_add, on_update=nodes.on_update, on_delete=nodes.on_delete
    )
    base.informers.pods.add_event_handler(
        on_add=pods.on_add, on_update=pods.on_update, on_delete=pods.on_delete
    )
    base.informers.pods.add_event_handler(on_update=base.dispatcher.on_pod_update)


def _read_state_metrics(metrics: SchedulerMetrics, queue: PriorityQueue, cache: Cache) -> None:
    """Connect the metrics that are state of the queue and the cache."""
    metrics.queue_incoming_pods.read = lambda: queue.incoming_pods.items()
    metrics.unschedulable_pods.read = lambda: queue.unschedulable_reasons.items()
    metrics.inflight_events.read = lambda: queue.in_flight.by_label().items()
    metrics.pending_pods.read = lambda: [
        ((name,), getattr(queue.statistics(), name))
        for name in ("active", "backoff", "unschedulable", "gated")
    ]
    metrics.cache_size.read = lambda: [
        ((name,), getattr(cache.statistics(), name)) for name in ("nodes", "pods", "assumed_pods")
    ]


class Installation(NamedTuple):
    """The git commit that pip has installed (PEP 610), and when; empty if that is unknown."""

    commit: str
    date: str

    @classmethod
    def find(cls) -> Installation:
        try:
            found = importlib.metadata.distribution("kubesched")
        except importlib.metadata.PackageNotFoundError:
            return cls("", "")
        try:
            text = found.read_text("direct_url.json")
            origin = msgspec.json.decode(text or "{}", type=_Origin)
        except msgspec.DecodeError:
            origin = _Origin()
        # An installer writes this file last.
        record = Path(str(found.locate_file(f"kubesched-{found.version}.dist-info/RECORD")))
        try:
            seconds = record.stat().st_mtime
        except OSError:
            date = ""
        else:
            date = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return cls(origin.vcs_info.get("commit_id", ""), date)


class _Origin(msgspec.Struct):
    vcs_info: dict[str, str] = msgspec.field(default_factory=dict)


def _read_process_metrics(metrics: SchedulerMetrics, version: EffectiveVersion) -> None:
    """Connect the metrics of the program and its event loop."""
    python = f"python{platform.python_version()}"
    where = f"{platform.system().lower()}/{platform.machine()}"
    compiler = platform.python_implementation()
    installed = Installation.find()
    commit, tree = installed.commit, "clean" if installed.commit else ""
    labels = (installed.date, compiler, commit, tree, KUBERNETES_VERSION, python, "1", "36", where)
    metrics.build_info.read = lambda: [(labels, 1.0)]
    metrics.version_info.read = lambda: [
        ((KUBERNETES_VERSION.removeprefix("v"), "kube", *version.texts), 1.0)
    ]
    metrics.go_goroutines.read = lambda: [((), float(len(asyncio.all_tasks())))]
