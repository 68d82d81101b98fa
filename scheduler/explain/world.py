"""Decide pods one after another in a cluster in memory.

The core is the scheduler's own, on an API server in memory. The differences: time stands still,
the caller chooses the pods one by one, out of the queue or not, and among equal best nodes the
first by name is chosen, so that equal input gives equal output.
"""

from __future__ import annotations

import random
from functools import cmp_to_key
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from scheduler.assembly.core import SchedulerOptions, build_core
from scheduler.assembly.in_memory_api import AtOnce, InMemoryApi
from scheduler.assembly.watched_kinds import kinds_to_watch
from scheduler.client import NODES, PODS
from scheduler.clock import SystemClock
from scheduler.config import (
    DEFAULT_SCHEDULER_VERSION,
    EffectiveVersion,
    default_feature_gates,
)
from scheduler.cycle.schedule_pod import NoNodesAvailableError, SchedulingAlgorithm
from scheduler.framework.cycle_state import CycleState, claim_statuses
from scheduler.framework.status import Code, Status
from scheduler.framework.types import PODS_TO_ACTIVATE, NominatingInfo, NominatingMode
from scheduler.preemption import PREEMPTION
from scheduler.preemption.executor import ASYNC_PREEMPTION
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.reports.build import pod_report, report_over
from scheduler.reports.decision import (
    Decision,
    FirstByName,
    PostFilterOutcome,
    decide,
    failed,
    result_of,
)
from scheduler.runtime import FrameworkError, PluginFailedError, PreFlight
from scheduler.snapshot import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.api.core import Node, Pod
    from scheduler.assembly.in_memory_api import Changes
    from scheduler.assembly.watched_kinds import WatchedKind
    from scheduler.client import ApiObject
    from scheduler.config import FeatureGates, KubeSchedulerConfiguration, SchedulerVersion
    from scheduler.framework.extender import Extender
    from scheduler.framework.interface import Plugin, PreEnqueuePlugin
    from scheduler.reports.model import PodReport
    from scheduler.runtime import Framework
    from scheduler.snapshot import Snapshot
    from scheduler.snapshot.node_table import NodeTable

#: The plugin whose PreBind runs. That of others waits for controllers, which do not exist here.
_DYNAMIC_RESOURCES: Final = "DynamicResources"

_NOTHING: Final[Mapping[str, Iterable[ApiObject]]] = MappingProxyType({})


class World:
    """A cluster in memory: nodes, the pods on them, and the profiles that decide further pods.

    `extenders` are called; without extenders the coroutines here never wait.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        *,
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        others: Mapping[str, Iterable[ApiObject]] = _NOTHING,
        plugins: Iterable[type[Plugin] | str] = (),
        version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION,
        feature_gates: FeatureGates | None = None,
        extenders: Sequence[Extender] = (),
    ) -> None:
        self._api: Final = InMemoryApi(_VirtualClock())
        ports = self._api.ports(
            rng=random.Random(0), tie_break=FirstByName(), tasks=AtOnce(), extenders=extenders
        )
        gates = default_feature_gates(version) if feature_gates is None else feature_gates
        options = SchedulerOptions(
            plugins=tuple(plugins),
            feature_gates=gates - {ASYNC_PREEMPTION},
            effective_version=EffectiveVersion.of(version),
        )
        self._core: Final = build_core(config, ports, options, queues_pods=False)
        self.profiles: Final = self._core.profiles
        #: The search that stops early, of which only the numbers of nodes are used.
        self._sampling: Final = SchedulingAlgorithm(
            self.snapshot,
            tie_break=FirstByName(),
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
        )
        self.load(nodes, pods, others)

    def load(
        self,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        others: Mapping[str, Iterable[ApiObject]] = _NOTHING,
    ) -> None:
        """Add objects; `others` maps the key of a kind (`kind_key`) to its objects."""
        pods = list(pods)
        self._api.load({NODES.plural: nodes, **others, PODS.plural: pods})
        for pod in pods:
            if pod.status.nominated_node_name and not pod.spec.node_name:
                self._core.queue.nominator.add_nominated_pod(PodInfo(pod), None)
        self._core.cache.update_snapshot(self.snapshot)

    @property
    def kinds(self) -> list[WatchedKind]:
        """The kinds that decisions depend on, beside nodes and pods."""
        return kinds_to_watch(self.profiles)

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as of the last decision."""
        return self._core.snapshot

    @property
    def table(self) -> NodeTable:
        """The nodes and pods after the last decision. Do not write to it."""
        return self._core.cache.table

    def expect(self, pods: Iterable[Pod]) -> None:
        """Queue pods that are decided later: plugins may look at them (`Handle.active_pods`)."""
        for pod in pods:
            self._core.cycle.queue.add(PodInfo(pod))

    async def decide(self, pod: Pod) -> Decision:
        """Schedule a pod. Later decisions include the pod on its node."""
        state = CycleState()
        # It is a cycle of the pod, and not a report: plugins may plan other pods in it.
        state.write(PODS_TO_ACTIVATE, {})
        queued = self._core.cycle.queue.pop_specific_pod(pod.key)
        try:
            decision = await self._decide(pod, state)
            if decision.node:
                return await self._bind(state, decision, decision.node)
            return await self._post_filter(state, decision)
        finally:
            if queued is not None:
                self._core.cycle.queue.done(queued.uid)

    def take_changes(self) -> Changes:
        """Return the objects that have changed since the last call; none in the first."""
        return self._api.take_changes()

    async def decide_beside(
        self, pod: Pod, other: World, theirs: Decision, changes: Changes
    ) -> Decision:
        """Decide a pod that another world has decided, and carry out the other decision.

        Both worlds had equal clusters before, and have equal clusters afterwards. `changes` are
        those that the other decision has made; both worlds have noted changes since the start.
        """
        state = CycleState()
        decision = await self._decide(pod, state)
        found = decision.schedule_result
        if found is not None:
            if theirs.node in found.feasible_nodes.names:
                bound = await self._bind(state, decision, theirs.node)
                decision = bound if theirs.node == decision.node else decision
        else:
            decision = await self._post_filter(state, decision)
        self._follow(other, theirs, changes)
        return decision

    def _follow(self, other: World, theirs: Decision, changes: Changes) -> None:
        nominator = self._core.queue.nominator
        nominator.delete_nominated_pod_if_exists(theirs.pod)
        self._api.follow(other._api, changes)
        if theirs.post_filter is not None and theirs.post_filter.nominated_node:
            info = NominatingInfo(theirs.post_filter.nominated_node, NominatingMode.OVERRIDE)
            nominator.add_nominated_pod(theirs.pod, info)

    async def _decide(self, pod: Pod, state: CycleState) -> Decision:
        """Return the decision of the cycle up to the choice of a node."""
        framework = self.profiles.get(pod.spec.scheduler_name)
        self._api.put(PODS.plural, pod)
        listed = self._core.informers.find_pod(pod.metadata.namespace, pod.metadata.name)
        info = PodInfo(listed or pod)
        if framework is None:
            return Decision(info, "ignored")
        for plugin in framework.plugins["pre_enqueue"]:
            status = cast("PreEnqueuePlugin", plugin).pre_enqueue(info)
            if status is not None and not status.is_success:
                return Decision(info, "gated", status=status.with_plugin(plugin.name))
        self._core.cache.update_snapshot(self.snapshot)
        try:
            found, diagnosis = await self._sampling.find_nodes_that_fit_pod(
                framework, CycleState(), info
            )
        except NoNodesAvailableError as error:
            return Decision(info, "unschedulable", message=str(error))
        except FrameworkError as error:
            return failed(info, error)
        decision = await decide(
            self.snapshot, framework, state, info, extenders=self._core.ports.extenders
        )
        if decision.result != "scheduled":
            return decision
        counts = (len(found) + len(diagnosis.node_to_status), len(found))
        return decision._replace(counts=counts)

    def report(self, decision: Decision, *, scenario: str = "") -> PodReport:
        """Return the report on the last decision."""
        framework = self.profiles.get(decision.pod.spec.scheduler_name)
        return pod_report(decision, framework, self.snapshot, scenario=scenario)

    async def report_again(self, pod: Pod) -> PodReport:
        """Report where a pod that has a node would be placed in the cluster without this pod.

        Nothing changes for later decisions, and nothing is preempted.
        """
        self._core.cache.update_snapshot(self.snapshot)
        return await report_over(
            self.snapshot,
            self.profiles.get(pod.spec.scheduler_name),
            PodInfo(pod),
            pods=self._core.informers.pods.lister,
            sampling=self._sampling,
            extenders=self._core.ports.extenders,
        )

    def in_queue_order(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return waiting pods in the order of the queue (QueueSort), as if none was tried before.

        A pod enters the queue when it is created. Pods that are equal keep their order.
        """
        less = next(iter(self.profiles.values())).less
        queued = [QueuedPodInfo(PodInfo(pod), timestamp=_created_at(pod)) for pod in pods]
        queued.sort(key=cmp_to_key(lambda a, b: less(b, a) - less(a, b)))
        return [each.pod_info.pod for each in queued]

    async def _post_filter(self, state: CycleState, decision: Decision) -> Decision:
        """Preempt for a pod that fits on no node, if the nodes were filtered."""
        if decision.diagnosis is None:
            return decision
        pod, framework = decision.pod, self._framework(decision.pod)
        victims = self._api.victims
        victims.clear()
        try:
            work = framework.run_post_filter_plugins(state, pod, decision.diagnosis.node_to_status)
            # Only extenders may wait: nothing else happens here.
            result, status = await work if self._core.ports.extenders else result_of(work)
        except PluginFailedError as failure:
            outcome = PostFilterOutcome(Status(Code.ERROR, str(failure)), "", (), None)
            return decision._replace(post_filter=outcome)
        for key in victims:
            self._api.remove(PODS.plural, key)
        info = result.nominating_info if result is not None else None
        if info is not None:
            self._core.queue.nominator.add_nominated_pod(pod, info)
        nominated_node = info.nominated_node_name if info is not None else ""
        outcome = PostFilterOutcome(status, nominated_node, [*victims], state.find(PREEMPTION))
        return decision._replace(post_filter=outcome, reserved=tuple(state.notes))

    async def _bind(self, state: CycleState, decision: Decision, host: str) -> Decision:
        """Reserve what the pod needs on a node and bind it, or undo all."""
        pod, result = decision.pod, decision.schedule_result
        assert result is not None, "a scheduled pod has a result"
        framework, cache = self._framework(pod), self._core.cache
        binding = framework.binding
        assumed = pod.assigned_to(host, claim_statuses(state, host))
        cache.assume_pod(assumed)
        self._core.queue.nominator.delete_nominated_pod_if_exists(pod)
        status = binding.reserve(state, assumed, host)
        if status is not None:
            outcome = "unschedulable" if status.is_rejected else "error"
            decision = Decision(pod, outcome, result, result.diagnosis, status, status.message)
        else:
            decision = decision._replace(reserved=tuple(state.notes))
            groups = binding.pre_bind_pre_flight(state, assumed, host).groups
            plugins = [p for group in groups for p in group if p.name == _DYNAMIC_RESOURCES]
            if plugins:
                flight = PreFlight(None, [plugins])
                status = await binding.pre_bind(flight, state, assumed, host)
        if status is None:
            await self._api.bind(pod.pod, host)
        else:
            binding.unreserve(state, assumed, host)
            cache.forget_pod(assumed)
        return decision

    def _framework(self, pod: PodInfo) -> Framework:
        return self.profiles[pod.spec.scheduler_name]


def _created_at(pod: Pod) -> float:
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0


class _VirtualClock:
    """Time stands still, but for the waits of PreBind, which end at once."""

    def __init__(self) -> None:
        self._seconds = SystemClock().now()

    def now(self) -> float:
        return self._seconds

    monotonic = now

    async def sleep(self, seconds: float) -> None:
        self._seconds += seconds
