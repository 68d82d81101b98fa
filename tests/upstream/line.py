"""A scheduling line for upstream's cases: queue, cache, cycle and binding around fake plugins.

Stands where upstream's tests put together a `Scheduler` with a fake client: everything between the
queue and the API server is real, and the client only takes notes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from scheduler.api.core import Node, Pod, PodCondition
from scheduler.api.pod_groups import PodGroup, PodGroupStatus
from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.assembly.event_handlers import NodeEventHandler, PodEventHandler
from scheduler.cache import Cache
from scheduler.client import ConnectionFailed
from scheduler.client.kinds import POD_GROUPS
from scheduler.config import DEFAULT_FEATURE_GATES, GENERIC_WORKLOAD, FeatureGates
from scheduler.config import types as config
from scheduler.cycle.attempt import Attempts, CycleParts
from scheduler.cycle.schedule_pod import FirstInOrder, SchedulingAlgorithm
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.framework import Code, Plugin, Status
from scheduler.framework.extender import Extender
from scheduler.metrics import SchedulerMetrics
from scheduler.plugins import IN_TREE
from scheduler.queue import Nominator, PriorityQueue, build_queueing_hint_map
from scheduler.runtime import Framework, PodsInPreBind, Registry, WaitingPods
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.stories import PodStories
from scheduler.testing import FakeHandle, VirtualClock, make_node
from scheduler.testing.doubles import FakeLister
from tests.upstream.loading import Fields


def profile_of(
    *names: str, scheduler_name: str = "default-scheduler", weights: Mapping[str, int] | None = None
) -> config.KubeSchedulerProfile:
    """A profile of these plugins, of PrioritySort and DefaultBinder."""
    weights = weights or {}
    enabled = tuple(
        config.Plugin(name, weights.get(name, 0))
        for name in ("PrioritySort", *names, "DefaultBinder")
    )
    plugins = config.Plugins(multi_point=config.PluginSet(enabled=enabled))
    return config.KubeSchedulerProfile(scheduler_name=scheduler_name, plugins=plugins)


def status_of(value: Fields | str) -> Status:
    """A status from data: a code, or `{code:, reasons: [...]}`. Wait is for a minute."""
    name = value if isinstance(value, str) else value["code"]
    reasons = () if isinstance(value, str) else value.get("reasons", ())
    code = next(code for code in Code if str(code) == name)
    return Status(code, *reasons, timeout_seconds=60.0)


class Client:
    """Records writes; bindings fail with `bind_failure`, if there is one.

    `statuses` are the patched statuses of pods, by name. `groups` are the pod groups by name, whose
    conditions are replaced as by a server.
    """

    def __init__(self, groups: Iterable[PodGroup] = ()) -> None:
        self.bound: dict[str, str] = {}
        self.conditions: list[dict[str, str]] = []
        self.nominated: list[str] = []
        self.statuses: dict[str, Fields] = {}
        self.groups = {group.metadata.name: group for group in groups}
        self.bind_failure: Exception | None = None

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.bound[pod.metadata.name] = node_name
        if self.bind_failure is not None:
            raise self.bind_failure

    async def get(self, resource: object, name: str, **options: str) -> Pod:
        raise ConnectionFailed(f"upstream's client is not read: {name}")

    async def patch(self, resource: object, name: str, patch: Fields, **options: str) -> None:
        status: dict[str, Any] = patch["status"]
        if resource is POD_GROUPS:
            self._set_conditions(name, status["conditions"])
            return
        self.statuses[name] = status
        self.conditions += status.get("conditions", ())
        if "nominatedNodeName" in status:
            self.nominated.append(status["nominatedNodeName"] or "")

    def _set_conditions(self, name: str, patches: list[Fields]) -> None:
        """Merge conditions into those of a pod group, by type; null removes a field."""
        conditions = msgspec.to_builtins(self.groups[name].status.conditions)
        by_type = {condition["type"]: condition for condition in conditions}
        for patch in patches:
            merged = {**by_type.get(patch["type"], {}), **patch}
            by_type[patch["type"]] = {k: v for k, v in merged.items() if v is not None}
        merged_conditions = msgspec.convert([*by_type.values()], tuple[PodCondition, ...])
        self.groups[name] = msgspec.structs.replace(
            self.groups[name], status=PodGroupStatus(merged_conditions)
        )


class Line:
    """Some profiles and what they share. `known` are the pods of the informer, by key.

    `groups` are the pod groups that the informer has at the start.
    """

    def __init__(
        self,
        profiles: Iterable[config.KubeSchedulerProfile],
        plugins: Iterable[type[Plugin]] = (),
        *,
        nodes: Iterable[Node] | None = None,
        feature_gates: FeatureGates = DEFAULT_FEATURE_GATES,
        groups: Iterable[PodGroup] = (),
        extenders: Sequence[Extender] = (),
    ) -> None:
        self._extenders = extenders
        self.clock, self.client = VirtualClock(), Client(groups)
        self.cache = Cache(generic_workload=GENERIC_WORKLOAD in feature_gates)
        self._feature_gates = feature_gates
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
            "feature_gates": feature_gates,
            "pod_group": self.cache.pod_group,
        }
        own = {plugin.name: plugin for plugin in plugins}
        registry = Registry({**IN_TREE, **own}.values())
        self.profiles = {p.scheduler_name: self._framework(p, registry) for p in profiles}
        first = next(iter(self.profiles.values()))
        self.queue = PriorityQueue(
            first.less,
            pre_enqueue_plugins={},
            queueing_hint_map={
                name: build_queueing_hint_map(framework.registered_events)
                for name, framework in self.profiles.items()
            },
            nominator=nominator,
            metrics=SchedulerMetrics(),
            generic_workload=GENERIC_WORKLOAD in feature_gates,
            members_back_off=GENERIC_WORKLOAD in feature_gates,
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
            algorithm=SchedulingAlgorithm(
                snapshot, tie_break=FirstInOrder(), extenders=self._extenders
            ),
            api=dispatcher,
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=self.pods_in_pre_bind,
            pod_lister=self._find,
            attempts=attempts,
            spawn=self._spawn,
            feature_gates=self._feature_gates,
            pod_group_lister=lambda namespace, name: self.client.groups.get(name),
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

    def _framework(self, profile: config.KubeSchedulerProfile, registry: Registry) -> Framework:
        name = profile.scheduler_name
        groups = FakeLister(self.client.groups.values())
        self.recorders[name] = FakeHandle(listers={PodGroup: groups})
        make_handle = self.recorders[name].with_parts(**self._parts)
        return Framework(profile, registry=registry, make_handle=make_handle)

    def _find(self, namespace: str, name: str) -> Pod | None:
        return self.known.get(f"{namespace}/{name}")

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work, name=name))

    async def schedule(self, pod: Pod) -> None:
        """Queue a pod, run its cycle and its background work, as far as that needs no time."""
        self.known.setdefault(pod.key, pod)
        self.cache.set_pod_group_member(PodInfo(pod))
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
