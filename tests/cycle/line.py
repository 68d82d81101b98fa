"""The core of a scheduler around fake plugins: queue, cache, cycle and binding, no sockets.

Stands where upstream's tests put together a `Scheduler` with a fake client: everything between the
queue and the API server is real, and the client only takes notes.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from scheduler.api.core import Node, Pod, PodCondition
from scheduler.api.pod_groups import PodGroup, PodGroupStatus
from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.assembly.core import SchedulerOptions, build_core
from scheduler.assembly.in_memory_api import AtOnce, InMemoryApi
from scheduler.client import ConnectionFailed, Store
from scheduler.client.kinds import POD_GROUPS
from scheduler.config import DEFAULT_FEATURE_GATES, GENERIC_WORKLOAD, FeatureGates, default_config
from scheduler.config import types as config
from scheduler.cycle.schedule_pod import FirstInOrder
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.framework import Plugin
from scheduler.framework.extender import Extender
from scheduler.plugins import SCHEME
from scheduler.snapshot import PodInfo
from scheduler.testing import VirtualClock, make_node
from scheduler.testing.fake_api import RecordedEvents


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


class Client:
    """Records writes; bindings fail with `bind_failure`, if there is one.

    `statuses` are the patched statuses of pods, by name. The conditions of `groups` are replaced as
    by a server.
    """

    def __init__(self, groups: Store[PodGroup]) -> None:
        self.bound: dict[str, str] = {}
        self.conditions: list[dict[str, str]] = []
        self.nominated: list[str] = []
        self.statuses: dict[str, dict[str, Any]] = {}
        self.groups = groups
        self.bind_failure: Exception | None = None

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.bound[pod.metadata.name] = node_name
        if self.bind_failure is not None:
            raise self.bind_failure

    async def get(self, resource: object, name: str, **options: str) -> Pod:
        raise ConnectionFailed(f"upstream's client is not read: {name}")

    async def patch(
        self, resource: object, name: str, patch: dict[str, Any], **options: str
    ) -> None:
        status: dict[str, Any] = patch["status"]
        if resource is POD_GROUPS:
            self._set_conditions(name, status["conditions"])
            return
        self.statuses[name] = status
        self.conditions += status.get("conditions", ())
        if "nominatedNodeName" in status:
            self.nominated.append(status["nominatedNodeName"] or "")

    def _set_conditions(self, name: str, patches: list[dict[str, Any]]) -> None:
        """Merge conditions into those of a pod group, by type; null removes a field."""
        group = self.groups.get(name, "default")
        assert group is not None, "a pod group that is patched exists"
        by_type = {c["type"]: c for c in msgspec.to_builtins(group.status.conditions)}
        for patch in patches:
            merged = {**by_type.get(patch["type"], {}), **patch}
            by_type[patch["type"]] = {k: v for k, v in merged.items() if v is not None}
        conditions = msgspec.convert([*by_type.values()], tuple[PodCondition, ...])
        self.groups.put(msgspec.structs.replace(group, status=PodGroupStatus(conditions)))


class Line(AtOnce):
    """Profiles with one cache and one queue; binding cycles are tasks.

    `known` are the pods that the informer has. A pod that is put there reaches no event handler.
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
        self.clock = VirtualClock()
        self.recorders: dict[str, RecordedEvents] = defaultdict(RecordedEvents)
        self._tasks: list[asyncio.Task[None]] = []
        self.client = Client(Store())
        ports = InMemoryApi(self.clock).ports(
            rng=random.Random(0), tie_break=FirstInOrder(), tasks=self, extenders=extenders
        )
        core = build_core(
            msgspec.structs.replace(
                default_config(SCHEME._replace(gates=feature_gates)), profiles=tuple(profiles)
            ),
            replace(
                ports,
                api=ApiDispatcher(self.client, self.clock),  # type: ignore[arg-type] # takes notes
                recorder=self.recorders.__getitem__,
            ),
            SchedulerOptions(plugins=tuple(plugins), feature_gates=feature_gates),
        )
        self.profiles, self.cache, self.queue = core.profiles, core.cache, core.queue
        self.stories, self.cycle_parts, self.metrics = core.stories, core.cycle, ports.metrics
        self.waiting_pods = core.cycle.waiting_pods
        self.pods_in_pre_bind = core.cycle.pods_in_pre_bind
        self.pods = core.informers.pods
        self.known = self.pods.lister
        for node in [make_node("node1")] if nodes is None else nodes:
            core.informers.nodes.put(node)
        if GENERIC_WORKLOAD in feature_gates:
            self.client.groups = core.informers.by_kind[POD_GROUPS.key].lister
            for group in groups:
                self.client.groups.put(group)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work, name=name))

    async def schedule(self, pod: Pod, *, known: Pod | None = None) -> None:
        """Queue a pod, run its cycle and its background work, as far as that needs no time.

        `known` is the pod that the informer has by then.
        """
        self.known.put(known or pod)
        self.cache.set_pod_group_member(PodInfo(pod))
        self.queue.add(PodInfo(pod), self.clock.now())
        await self.schedule_next()

    async def schedule_next(self) -> None:
        """Run the cycle of the pod at the head of the queue, as `schedule` does."""
        queued, _ = self.queue.pop_nowait(self.clock.now())
        assert queued is not None
        await schedule_one(self.cycle_parts, queued)
        await self.rest()
        self.queue.check()
        self.cache.check()

    async def rest(self) -> None:
        """Let background work run as far as it gets without time passing."""
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def places(self) -> dict[str, list[str]]:
        """The names of the pods in each place where there are some."""
        queue = self.queue
        queued = {
            "active": queue.active_q.in_order(),
            "backoff": queue.backoff_q.in_order(),
            "waiting": queue.unschedulable_pods,
            "in_flight": queue.in_flight.pods(),
        }
        found = {place: [pod.pod_info.name for pod in pods] for place, pods in queued.items()}
        found["cache"] = [pod.name for pod in self.cache.pods.values()]
        return {place: names for place, names in found.items() if names}

    def names(self, place: str) -> list[str]:
        """Return the names of the pods in a place: active, backoff, waiting, in_flight or cache."""
        return self.places.get(place, [])
