"""A whole scheduler over an `ApiStore`: every part its own but the HTTP and the writing of events.

Informers and reflectors, event handlers, queue, cache, the default profile, cycles, dispatcher.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeVar, cast

from scheduler.api.core import Node, Pod
from scheduler.api.dynamic_resources import EXTENDED_RESOURCE_CLAIM, ResourceClaim
from scheduler.api.pod_groups import PodGroup
from scheduler.api.unstructured import Unstructured
from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.assembly.core import Ports, SchedulerOptions, build_core
from scheduler.cache import Cache
from scheduler.client import ApiObject, Informer, Resource, RestClient
from scheduler.client.kinds import GroupVersionResource
from scheduler.config import GANG_SCHEDULING, GENERIC_WORKLOAD, FeatureGates, default_config
from scheduler.cycle.schedule_pod import (
    FirstInOrder,
    NoNodesAvailableError,
    RandomTie,
    SchedulingAlgorithm,
)
from scheduler.cycle.scheduling_loop import SchedulingLoop
from scheduler.devices.claims import ClaimTracker
from scheduler.devices.manager import DraManager
from scheduler.devices.pools import DeviceId
from scheduler.framework import CycleState, Plugin, Status, wait
from scheduler.framework.types import FitError
from scheduler.metrics import SchedulerMetrics
from scheduler.plugins import SCHEME
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import VirtualClock
from tests.cycle.running import schedule_pod

from .api_store import ApiStore, Objects, Source
from .writes import Writes

T = TypeVar("T", bound=ApiObject)

_INFORMER_LOG = logging.getLogger("scheduler.client.informer")


class WatchfulCache(Cache):
    """Checks every decision: the node must exist and have room."""

    def __init__(self, *, generic_workload: bool) -> None:
        super().__init__(generic_workload=generic_workload)
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


class WatchfulTracker(ClaimTracker):
    """Counts the devices that were given back without an event that helps a waiting pod.

    DynamicResources is not registered for deleted claims, nor for allocations that are not written.
    A claim for extended resources that PostFilter deletes counts too, as its pod waits for nothing.
    """

    silent_releases = 0

    def remove_pending_allocation(self, uid: str, *, force: bool) -> bool:
        allocation = self.pending_allocation(uid)
        dropped = super().remove_pending_allocation(uid, force=force)
        for result in allocation.devices.results if dropped and allocation is not None else ():
            device = DeviceId(result.driver, result.pool, result.device)
            self.silent_releases += not self.allocated.is_allocated(device)
        return dropped

    def on_delete(self, claim: ResourceClaim, *, final_state_unknown: bool) -> None:
        is_extended = EXTENDED_RESOURCE_CLAIM in claim.metadata.annotations
        self.silent_releases += is_extended or claim.status.allocation is not None


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

    def __init__(
        self,
        store: ApiStore,
        writes: Writes,
        clock: VirtualClock,
        seed: int,
        feature_gates: FeatureGates,
    ) -> None:
        self.clock, self.feature_gates = clock, feature_gates
        self.has_groups = GENERIC_WORKLOAD in feature_gates
        self.cache = WatchfulCache(generic_workload=self.has_groups)
        self.corruptions: list[Exception] = []
        self.failures: list[BaseException] = []
        self.failed_handlers = FailedHandlers()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._rng = random.Random(seed)
        self.sources: dict[str, Source[Any]] = {
            "pods": Source(store.pods, _is_unfinished),
            "nodes": Source(store.nodes, lambda node: True),
        }
        if self.has_groups:
            self.sources["podgroups"] = Source(store.pod_groups, lambda group: True)
        self.sources |= {
            "resourceclaims": Source(store.claims, lambda claim: True),
            "resourceslices": Source(store.slices, lambda slice: True),
            "deviceclasses": Source(store.classes, lambda device_class: True),
        }
        self._nothing = Objects[Any](lambda: 0)
        self.dispatcher = ApiDispatcher(cast("RestClient", writes), clock)
        self.metrics = SchedulerMetrics()
        core = build_core(
            default_config(SCHEME._replace(gates=feature_gates)),
            Ports(
                factory=self,
                api=self.dispatcher,
                recorder=lambda profile_name: Silence(),
                clock=clock,
                rng=self._rng,
                tie_break=RandomTie(self._rng),
                tasks=self,
                metrics=self.metrics,
            ),
            SchedulerOptions(plugins=[Doorkeeper], feature_gates=feature_gates),
            cache=self.cache,
        )
        self.snapshot, self.stories, self.queue = core.snapshot, core.stories, core.queue
        self.profiles, self.waiting_pods = core.profiles, core.cycle.waiting_pods
        self.informers = core.informers.by_kind
        self.scheduler = SchedulingLoop(core.cycle, dispatcher=self.dispatcher)
        (framework,) = self.profiles.values()
        self.devices = framework.handle.shared(DraManager)
        self.tracker = self.devices.claims = WatchfulTracker(framework.handle)
        self.informers["pods"].add_event_handler(on_update=self.dispatcher.on_pod_update)
        self.informers["resourceclaims"].add_event_handler(on_delete=self.tracker.on_delete)

    # The ports of the core.

    def informer(
        self,
        resource: Resource[T],
        *,
        field_selector: str = "",
        transform: Callable[[T], T] | None = None,
    ) -> Informer[T]:
        """Make an informer over the store. There is nothing of a kind that has no source."""
        source = self.sources.get(resource.key) or Source(self._nothing, lambda _: True)
        name = resource.plural
        return Informer(source, name=name, clock=self.clock, rng=self._rng, transform=transform)

    def discovered(self, name: GroupVersionResource) -> Informer[Unstructured]:
        """There are none."""
        raise NotImplementedError

    def spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        if name.startswith("bind "):
            self._check_gang(name.removeprefix("bind "))
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    spawn_for_plugin = spawn

    def fail(self, error: Exception) -> None:
        self.corruptions.append(error)

    async def start(self) -> None:
        """As `SchedulerApp.run` does: first lists, then the loop."""
        _INFORMER_LOG.addHandler(self.failed_handlers)
        for kind in self.sources:
            informer = self.informers[kind]
            self.spawn(cast("Any", informer.run()), kind)
            await informer.wait_for_sync()
        self.spawn(cast("Any", self.scheduler.run()), "scheduler")

    async def stop(self) -> None:
        """As a process that is killed does: nothing under way is seen through."""
        while tasks := list(self._tasks):
            # A task may have started others before it is cancelled.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        _INFORMER_LOG.removeHandler(self.failed_handlers)
        for source in self.sources.values():
            source.close()

    def could_run(self) -> dict[str, str]:
        """Return the node of each waiting single pod that would get one if it was tried now."""
        found = {}
        algorithm = SchedulingAlgorithm(self.snapshot, tie_break=FirstInOrder())
        self.cache.update_snapshot(self.snapshot)
        for pod in self.queue.pending_pods()[0]:
            if pod.spec.scheduling_gates or pod.metadata.deletion_timestamp is not None:
                continue
            if self.has_groups and pod.spec.scheduling_group is not None:
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

    def find_pod_group(self, namespace: str, name: str) -> PodGroup | None:
        informer = self.informers.get("podgroups")
        found = None if informer is None else informer.lister.get(name, namespace)
        return cast("PodGroup | None", found)

    def min_count_of(self, pod: Pod) -> int:
        """Return minCount of the pod's gang as the informer has it; 0 if it is in none."""
        group = pod.spec.scheduling_group
        if group is None or GANG_SCHEDULING not in self.feature_gates:
            return 0
        known = self.find_pod_group(pod.metadata.namespace, group.pod_group_name)
        gang = None if known is None else known.spec.scheduling_policy.gang
        return 0 if gang is None else gang.min_count

    def _check_gang(self, pod_name: str) -> None:
        """Complain if a member is bound before its gang has minCount members with a node.

        The binding cycle of a member starts while later members have no node yet; then Permit must
        hold it. Only what the scheduler can know counts: it may have seen no deletion yet.
        """
        (pod,) = (p for p in self.cache.pods.values() if p.key == pod_name)
        waiting = self.waiting_pods.get(pod.uid)
        if waiting is not None and "GangScheduling" in waiting.pending_plugins:
            return
        state = self.cache.pod_group_of(pod)
        with_node = 0 if state is None else state.scheduled_pods_count
        if with_node < (min_count := self.min_count_of(pod.pod)):
            self.cache.complaints.append(
                f"{pod.uid} is bound, but {with_node} of {min_count} members have a node"
            )

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(error)


def _is_unfinished(pod: Pod) -> bool:
    return pod.status.phase not in {"Succeeded", "Failed"}
