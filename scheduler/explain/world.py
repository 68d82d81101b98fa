"""Decide pods one after another in a cluster in memory.

Cache, snapshot, framework and algorithm are those of the scheduler. The differences: nothing is
written, time stands still, and among equal best nodes the first by name is chosen, so that equal
input gives equal output.
"""

from __future__ import annotations

import contextlib
import random
from functools import cmp_to_key
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from scheduler.assembly.profiles import build_profiles
from scheduler.assembly.watched_kinds import kinds_to_watch
from scheduler.cache import Cache
from scheduler.client import NODES, PODS, Store
from scheduler.client.kinds import kind_key
from scheduler.clock import SystemClock
from scheduler.config import DEFAULT_FEATURE_GATES, GENERIC_WORKLOAD
from scheduler.cycle.schedule_pod import NoNodesAvailableError, SchedulingAlgorithm
from scheduler.explain.claims_in_memory import ClaimsInMemory
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import KindNotWatchedError
from scheduler.framework.status import Code, Status
from scheduler.framework.types import FitError
from scheduler.metrics import SchedulerMetrics
from scheduler.preemption import PREEMPTION
from scheduler.preemption.executor import ASYNC_PREEMPTION
from scheduler.queue import Nominator
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.reports.build import report_over
from scheduler.reports.decision import (
    Decision,
    DeviceWrites,
    FirstByName,
    PostFilterOutcome,
    decide_with_extenders,
    failed,
    result_of,
    unschedulable,
)
from scheduler.runtime import (
    FrameworkError,
    PluginFailedError,
    PluginHandle,
    PodsInPreBind,
    PreFlight,
    WaitingPods,
)
from scheduler.snapshot import PodInfo, Snapshot

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping, Sequence

    from scheduler.api.core import Node, ObjectReference, Pod, PodExtendedResourceClaimStatus
    from scheduler.api.dynamic_resources import ResourceClaim
    from scheduler.api.pod_groups import PodGroup
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.api.unstructured import Kind
    from scheduler.client import ApiObject
    from scheduler.config import FeatureGates, KubeSchedulerConfiguration
    from scheduler.framework.extender import Extender
    from scheduler.framework.interface import Plugin, PreEnqueuePlugin
    from scheduler.framework.types import Condition, NominatingInfo
    from scheduler.reports.model import PodReport
    from scheduler.runtime import Framework
    from scheduler.runtime.handle import DryRun, MakeHandle
    from scheduler.snapshot.node_table import NodeTable

R = TypeVar("R")

#: The plugin whose PreBind runs. That of others waits for controllers, which do not exist here.
_DYNAMIC_RESOURCES: Final = "DynamicResources"


class RunToEnd(Protocol):
    """A function that runs a coroutine and returns its result."""

    def __call__(self, work: Coroutine[Any, Any, R], /) -> R: ...


_NOTHING: Final[Mapping[str, Iterable[ApiObject]]] = MappingProxyType({})


class World:
    """A cluster in memory: nodes, the pods on them, and the profiles that decide further pods.

    `others` maps the key of a kind (`kind_key`) to its objects. With `nominates`, a pod that
    preempts others is nominated to its node, as in the scheduler; recorded runs have no
    nominations. `extenders` are called; `run` is then a function that runs a coroutine which waits
    for them.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        *,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        others: Mapping[str, Iterable[ApiObject]] = _NOTHING,
        plugins: Iterable[type[Plugin] | str] = (),
        nominates: bool = True,
        feature_gates: FeatureGates = DEFAULT_FEATURE_GATES,
        extenders: Sequence[Extender] = (),
        run: RunToEnd = result_of,
    ) -> None:
        self._extenders: Final = extenders
        self._run: Final = run
        self._gates: Final = feature_gates - {ASYNC_PREEMPTION}
        self._nominates: Final = nominates
        self._cache: Final = Cache(generic_workload=GENERIC_WORKLOAD in feature_gates)
        self.snapshot: Final = Snapshot()
        nodes, pods = list(nodes), list(pods)
        stores = _stores({**others, NODES.plural: nodes, PODS.plural: pods})
        self._pods: Final[Store[Pod]] = stores[PODS.plural]
        self._nominator: Final = Nominator(lambda namespace, name: self._pods.get(name, namespace))
        claims: Store[ResourceClaim] = stores.setdefault("resourceclaims", Store())
        self._claims: Final = ClaimsInMemory(claims, put=claims.put, remove=claims.remove)
        self._api: Final = _NoApi(self._claims)
        self._clock: Final = _VirtualClock()
        #: By key of a pod that is scheduled and not bound: what its binding needs.
        self._reserved: Final[dict[str, tuple[Framework, CycleState, str]]] = {}
        #: The keys of the kinds that plugins read or register for; None until all are created.
        self._watched: frozenset[str] | None = None
        self.profiles: Final[Mapping[str, Framework]] = build_profiles(
            config, self._make_handle(stores), plugins=plugins
        )
        self._watched = frozenset(kind.resource.key for kind in kinds_to_watch(self.profiles))
        self._sampling: Final = SchedulingAlgorithm(
            self.snapshot,
            tie_break=FirstByName(),
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
        )
        # In the order in which an API server lists them.
        for node in sorted(nodes, key=lambda node: node.metadata.name):
            self._cache.add_node(node)
        for pod in pods:
            if pod.spec.node_name:
                self._cache.add_pod(PodInfo(pod))
            elif pod.status.nominated_node_name:
                self._nominator.add_nominated_pod(PodInfo(pod), None)
        self._cache.update_snapshot(self.snapshot)

    def _make_handle(self, stores: dict[str, Store[Any]]) -> MakeHandle:
        clock, metrics, rng = self._clock, SchedulerMetrics(), random.Random(0)
        waiting_pods, pods_in_pre_bind = WaitingPods(clock, metrics), PodsInPreBind()
        shared_objects: dict[object, object] = {}
        # The kinds that plugins list while they are created.
        listed = {NODES.plural, PODS.plural}

        def lister(kind: Kind, /) -> Store[Any]:
            key = kind_key(kind)
            if self._watched is None:
                listed.add(key)
            elif key not in self._watched and key not in listed:
                raise KindNotWatchedError(key)
            return stores.setdefault(key, Store())

        def make_handle(profile_name: str, worlds: DryRun) -> PluginHandle:
            return PluginHandle(
                profile_name=profile_name,
                snapshot=self.snapshot,
                nominator=self._nominator,
                event_recorder=self._api,
                api=self._api,
                feature_gates=self._gates,
                metrics=metrics,
                rng=rng,
                clock=clock,
                waiting_pods=waiting_pods,
                pods_in_pre_bind=pods_in_pre_bind,
                worlds=worlds,
                lister=lister,
                pod_group=self._cache.pod_group,
                activate=_ignore,
                spawn=_run_at_once,
                run_in_parallel=_run_in_sequence,
                shared_objects=shared_objects,
                extenders=self._extenders,
            )

        return make_handle

    def decide(self, pod: Pod, *, binds: bool = True) -> Decision:
        """Schedule a pod. If a node is found, later decisions include the pod on it.

        With `binds` its resource claims are written as well; otherwise `bind` does so later.
        """
        self._claims.clear()
        decision = self._decide(pod)
        if binds and decision.result == "scheduled":
            return self.bind(decision)
        return decision._replace(device_writes=self._device_writes())

    def bind(self, decision: Decision) -> Decision:
        """Write the resource claims of a scheduled pod; if that fails the pod is forgotten."""
        self._claims.clear()
        framework, state, host = self._reserved.pop(decision.pod.key)
        assumed = decision.pod.assigned_to(host)
        binding = framework.binding
        groups = binding.pre_bind_pre_flight(state, assumed, host).groups
        plugins = [p for group in groups for p in group if p.name == _DYNAMIC_RESOURCES]
        status = None
        if plugins:
            run = binding.pre_bind(PreFlight(None, [plugins]), state, assumed, host)
            status = result_of(run)
        if status is not None:
            binding.unreserve(state, assumed, host)
            self._cache.forget_pod(assumed)
        return decision._replace(pre_bind=status, device_writes=self._device_writes())

    def _device_writes(self) -> DeviceWrites:
        claims = {key: self._claims.stored(key) for key in self._claims.changed}
        return DeviceWrites(
            tuple(self._claims.writes),
            claims,
            frozenset(self._claims.created),
            self._claims.extended_status,
        )

    def _decide(self, pod: Pod) -> Decision:
        info = PodInfo(pod)
        framework = self.profiles.get(pod.spec.scheduler_name)
        if framework is None:
            return Decision(info, "ignored")
        for plugin in framework.plugins["pre_enqueue"]:
            status = cast("PreEnqueuePlugin", plugin).pre_enqueue(info)
            if status is not None and not status.is_success:
                return Decision(info, "gated", status=status.with_plugin(plugin.name))
        self._cache.update_snapshot(self.snapshot)
        self._pods.put(pod)
        state = CycleState()
        try:
            sampled = result_of(
                self._sampling.find_nodes_that_fit_pod(framework, CycleState(), info)
            )
            decision = self._decide_over(self.snapshot, framework, state, info)
        except FitError as error:
            return unschedulable(error, self._post_filter(framework, state, info, error))
        except NoNodesAvailableError as error:
            return Decision(info, "unschedulable", message=str(error))
        except FrameworkError as error:
            return failed(info, error)
        if decision.result != "scheduled":
            return decision
        found, searched = sampled[0], sampled[1].node_to_status
        counts = (len(found) + len(searched), len(found))
        return self._assume(framework, state, decision._replace(counts=counts))

    def report_again(self, pod: Pod) -> PodReport:
        """Report where a pod that has a node would be placed in the cluster without this pod.

        Nothing changes for later decisions, and nothing is preempted.
        """
        self._cache.update_snapshot(self.snapshot)
        framework = self.profiles.get(pod.spec.scheduler_name)
        return report_over(
            self.snapshot, framework, PodInfo(pod), pods=self._pods, decide=self._decide_over
        )

    def in_queue_order(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return waiting pods in the order of the queue (QueueSort), as if none was tried before.

        A pod enters the queue when it is created. Pods that are equal keep their order.
        """
        less = next(iter(self.profiles.values())).less
        queued = [QueuedPodInfo(PodInfo(pod), timestamp=_created_at(pod)) for pod in pods]
        queued.sort(key=cmp_to_key(lambda a, b: less(b, a) - less(a, b)))
        return [each.pod_info.pod for each in queued]

    def _decide_over(
        self, snapshot: Snapshot, framework: Framework, state: CycleState, pod: PodInfo
    ) -> Decision:
        return self._run(
            decide_with_extenders(snapshot, framework, state, pod, extenders=self._extenders)
        )

    @property
    def table(self) -> NodeTable:
        """The nodes and pods after the last decision. Do not write to it."""
        return self._cache.table

    def _post_filter(
        self, framework: Framework, state: CycleState, pod: PodInfo, fit_error: FitError
    ) -> PostFilterOutcome:
        self._api.deleted.clear()
        statuses = fit_error.diagnosis.node_to_status
        try:
            work = framework.run_post_filter_plugins(state, pod, statuses)
            result, status = self._run(work)
        except PluginFailedError as failure:
            return PostFilterOutcome(Status(Code.ERROR, str(failure)), "", (), None)
        info = result.nominating_info if result is not None else None
        nominated_node = info.nominated_node_name if info is not None else ""
        if info is not None and self._nominates:
            self._nominator.add_nominated_pod(pod, info)
        for victim in self._api.deleted:
            self._cache.remove_pod(victim)
            self._pods.remove(victim.key)
        victims = [victim.key for victim in self._api.deleted]
        return PostFilterOutcome(status, nominated_node, victims, state.find(PREEMPTION))

    def _assume(self, framework: Framework, state: CycleState, decision: Decision) -> Decision:
        pod, result = decision.pod, decision.schedule_result
        assert result is not None, "a scheduled pod has a result"
        host = result.suggested_host
        assumed = pod.assigned_to(host)
        self._cache.assume_pod(assumed)
        self._nominator.delete_nominated_pod_if_exists(pod)
        status = framework.binding.reserve(state, assumed, host)
        if status is None:
            self._reserved[pod.key] = (framework, state, host)
            return decision._replace(reserved=tuple(state.notes))
        framework.binding.unreserve(state, assumed, host)
        self._cache.forget_pod(assumed)
        outcome = "unschedulable" if status.is_rejected else "error"
        return Decision(pod, outcome, result, result.diagnosis, status, status.message)


def _created_at(pod: Pod) -> float:
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0


def _stores(objects: Mapping[str, Iterable[ApiObject]]) -> dict[str, Store[Any]]:
    """Return a store per kind that has objects, by the key of the kind (`kind_key`)."""
    return {key: Store(of_kind) for key, of_kind in objects.items()}


class _NoApi:
    """Ignores events and writes; records the pods to delete, which `World` then removes."""

    def __init__(self, claims: ClaimsInMemory) -> None:
        self.deleted: Final[list[Pod]] = []
        self.resource_claims: Final = claims

    def event(
        self,
        regarding: Pod,
        *,
        related: ObjectReference | None = None,
        type: str,
        reason: str,
        action: str,
        note: str,
    ) -> None:
        pass

    async def bind(self, pod: Pod, node_name: str) -> None:
        pass

    async def patch_pod_status(
        self,
        pod: Pod,
        *,
        condition: Condition | None,
        nominating_info: NominatingInfo | None,
    ) -> bool:
        return True

    async def patch_pod_group_status(self, pod_group: PodGroup, *, condition: Condition) -> None:
        pass

    async def delete_pod(self, pod: Pod) -> bool:
        self.deleted.append(pod)
        return True

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        return volume

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        return claim

    async def patch_extended_resource_claim_status(
        self, pod: Pod, status: PodExtendedResourceClaimStatus
    ) -> None:
        self.resource_claims.patch_pod(pod, status)


class _VirtualClock:
    """Time stands still, but for the waits of PreBind, which end at once."""

    def __init__(self) -> None:
        self._seconds = SystemClock().now()

    def now(self) -> float:
        return self._seconds

    def monotonic(self) -> float:
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        self._seconds += seconds


def _ignore(pods: Mapping[str, PodInfo]) -> None:
    """Do nothing: there is no queue."""


def _run_at_once(work: Coroutine[None, None, None], name: str) -> None:
    """Run the work of the background to its end; errors would only be logged."""
    with contextlib.suppress(Exception):
        result_of(work)


async def _run_in_sequence(works: Iterable[Coroutine[None, None, None]]) -> None:
    for work in works:
        await work
