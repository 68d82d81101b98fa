"""Schedule recorded pods one after another, and write the decisions in the recorded format.

Each pod is created when it is its turn, and goes through queue, scheduling cycle and binding cycle.
As in the recording all nodes are filtered and scored, whatever the percentage is; nothing is bound:
a pod stays assumed; and a pod that is not scheduled is deleted after its decision.
"""

import asyncio
import dataclasses
import random
from collections.abc import Coroutine, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from scheduler.api.core import Pod
from scheduler.api.dynamic_resources import ResourceClaim
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.assembly.core import SchedulerOptions
from scheduler.assembly.in_memory_api import InMemoryApi
from scheduler.client import PODS
from scheduler.config import KubeSchedulerConfiguration
from scheduler.cycle.schedule_one import Found
from scheduler.cycle.schedule_pod import ScheduleResult, SchedulingAlgorithm, prioritize_nodes
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.explain.cluster import with_api_defaults
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.interface import PreEnqueuePlugin
from scheduler.framework.status import Code, Status
from scheduler.framework.types import Diagnosis, FitError
from scheduler.reports.decision import FirstByName
from scheduler.runtime import Framework
from scheduler.runtime.scoring import NodeScores
from scheduler.snapshot import Nodes, PodInfo

from .attempt_json import sorted_status_json as status_json
from .player import Player, RecordedClock

#: A JSON object.
Json = dict[str, Any]

_CLAIMS: Final = "resourceclaims"
_VOLUMES: Final = ("persistentvolumes", "persistentvolumeclaims")
#: Longer than the timeouts of devices in recordings, shorter than that of volumes.
_WAIT_SECONDS: Final = 10.0
#: Turns of the event loop in which a binding cycle gets as far as it can.
_TURNS: Final = 20


class _Api(InMemoryApi):
    """An API server that never answers bindings of pods and volumes.

    `asked` are the keys of the pods that wait for an answer.
    """

    def __init__(self, clock: RecordedClock) -> None:
        super().__init__(clock)
        self.asked: Final[set[str]] = set()

    def _next_version(self, kind: str) -> str:
        """Volumes and their claims have no versions in recordings, which matters to 1.34."""
        return "" if kind in _VOLUMES else super()._next_version(kind)

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.asked.add(pod.key)
        await _never()

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        await _never()
        return volume

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        await _never()
        return claim


async def _never() -> None:
    await asyncio.Event().wait()


class _EveryNode(SchedulingAlgorithm):
    """Filters and scores all nodes, also a single one that fits.

    `counts` are the numbers of evaluated and of feasible nodes in the search that stops early,
    which goes before. Its failures count.
    """

    def __init__(self, sampling: SchedulingAlgorithm) -> None:
        super().__init__(sampling.snapshot, tie_break=FirstByName(), exhaustive=True)
        self._sampling: Final = sampling
        self.counts = (0, 0)
        self._scores: NodeScores | None = None

    async def find_nodes_that_fit_pod(
        self, framework: Framework, state: CycleState, pod: PodInfo
    ) -> tuple[Nodes, Diagnosis]:
        found, diagnosis = await self._sampling.find_nodes_that_fit_pod(
            framework, CycleState(), pod
        )
        self.counts = (len(found) + len(diagnosis.node_to_status), len(found))
        feasible, diagnosis = await super().find_nodes_that_fit_pod(framework, state, pod)
        if len(feasible) == 1:
            self._scores = await prioritize_nodes(framework, state, pod, feasible)
        return feasible, diagnosis

    def select_host(
        self, feasible: Nodes, diagnosis: Diagnosis, scores: NodeScores | None
    ) -> ScheduleResult:
        return super().select_host(feasible, diagnosis, scores or self._scores)


class PodPlayer(Player):
    """A scheduler that schedules recorded pods."""

    def __init__(self, config: KubeSchedulerConfiguration, options: SchedulerOptions) -> None:
        self._clock: Final = RecordedClock()
        self.api: Final = _Api(self._clock)
        super().__init__(config, self.api, options, rng=random.Random(0))
        cycle = self.core.cycle
        self._every_node: Final = _EveryNode(cycle.algorithm)
        self._cycle: Final = dataclasses.replace(cycle, algorithm=self._every_node)
        #: By key of the pod.
        self._binding: Final[dict[str, asyncio.Task[None]]] = {}
        self._works: Final[list[asyncio.Task[None]]] = []

    def spawn_for_plugin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start work that may wait for time to pass."""
        self._works.append(asyncio.create_task(work, name=name))

    async def play(self, pods: Sequence[Pod], *, late: Sequence[str] = ()) -> list[Json]:
        """Schedule pods; those in `late` are bound after the last decision, in this order."""
        answers = [
            await self._decide(pod, binds=pod.key not in late)
            for pod in map(with_api_defaults, pods)
        ]
        of_pod = {answer["pod"]: answer for answer in answers}
        for key in late:
            if of_pod[key]["result"] == "scheduled":
                of_pod[key].update(await self._bind(key))
        for task in self._binding.values():
            task.cancel()
        await asyncio.gather(*self._binding.values(), return_exceptions=True)
        return answers

    async def _decide(self, pod: Pod, *, binds: bool) -> Json:
        api = self.api
        api.victims.clear()
        api.resource_claims.writes.clear()
        claims = self._claims()
        api.put(PODS.plural, pod)
        queued = self._cycle.queue.pop_specific_pod(pod.key)
        if queued is None:
            answer = self._not_queued(pod)
        else:
            found = await schedule_one(self._cycle, queued)
            await self._rest()
            assert isinstance(found, Found), "a pod that is popped is scheduled"
            answer = self._found(pod.key, found)
        for key in api.victims:
            api.remove(PODS.plural, key)
        if answer["result"] != "scheduled":
            api.remove(PODS.plural, pod.key)
        elif pod.key not in self.bindings:
            # Reserve has failed. In the recording the pod stays on its node all the same.
            answer["message"] = f"reserve: {self._failure(pod.key)}"
            self.core.cache.assume_pod(PodInfo(_on_node(pod, answer["node"])))
        elif binds:
            return answer | await self._bind(pod.key)
        return answer | self._written(pod.key, claims)

    def _not_queued(self, pod: Pod) -> Json:
        framework = self.core.profiles.get(pod.spec.scheduler_name)
        if framework is None:
            return {"pod": pod.key, "result": "ignored"}
        for plugin in framework.plugins["pre_enqueue"]:
            status = cast("PreEnqueuePlugin", plugin).pre_enqueue(PodInfo(pod))
            if status is not None and not status.is_success:
                rejection = status_json(status.with_plugin(plugin.name))
                return {"pod": pod.key, "result": "gated", "preFilter": rejection}
        raise AssertionError(f"{pod.key} is not in the queue")

    def _found(self, key: str, found: Found) -> Json:
        answer: Json = {"pod": key, "result": "scheduled"}
        if found.result is not None:
            answer |= _diagnosis_json(found.result.diagnosis)
            return answer | _placement_json(found.result, self._every_node.counts)
        status = found.status
        assert status is not None, "without a node there is a reason"
        answer |= {"result": "unschedulable" if status.is_rejected else "error"}
        if not isinstance(status.cause, FitError):
            return answer | {"message": status.message}
        diagnosis = status.cause.diagnosis
        # The text was recorded before PostFilter.
        diagnosis.post_filter_message = ""
        answer |= {"message": str(status.cause), **_diagnosis_json(diagnosis)}
        answer["unschedulablePlugins"] = sorted(diagnosis.unschedulable_plugins)
        # Without PostFilter plugins this is what was recorded.
        post_filter = found.post_filter or Status(Code.UNSCHEDULABLE)
        outcome: Json = {"code": str(post_filter.code), "victims": [*self.api.victims]}
        if post_filter.message:
            outcome["message"] = post_filter.message
        if found.nominating_info is not None and found.nominating_info.nominated_node_name:
            outcome["nominatedNode"] = found.nominating_info.nominated_node_name
        return answer | {"postFilter": outcome}

    async def _bind(self, key: str) -> Json:
        """Run a binding cycle up to the binding; if it fails the pod is deleted."""
        self.api.resource_claims.writes.clear()
        claims = self._claims()
        self._binding[key] = asyncio.create_task(self.bindings.pop(key))
        await self._rest()
        # Volumes are bound by a controller, which does not exist here: wait no longer.
        self.api.asked.add(key)
        answer = self._written(key, claims)
        for condition in self._pod(key).status.conditions:
            if condition.reason == "SchedulerError":
                answer["preBind"] = status_json(Status(Code.ERROR, condition.message))
                self.api.remove(PODS.plural, key)
        return answer

    async def _rest(self) -> None:
        """Let time pass until all work has ended, or waits for what never happens."""
        end = self._clock.monotonic() + _WAIT_SECONDS
        while not await self._is_at_rest():
            due = self._clock.next_wake_up
            if due is None or self._clock.monotonic() > end:
                return
            self._clock.advance_nowait(max(0.0, due - self._clock.now()))

    async def _is_at_rest(self) -> bool:
        """Let tasks run; return True if all have ended, or have asked for their binding."""
        asked = self.api.asked
        for _ in range(_TURNS):
            binding = [task for key, task in self._binding.items() if key not in asked]
            if all(task.done() for task in (*binding, *self._works)):
                for work in self._works:
                    work.result()
                self._works.clear()
                return True
            await asyncio.sleep(0)
        return False

    def _claims(self) -> dict[str, ResourceClaim]:
        return {claim.key: claim for claim in self.api.objects(_CLAIMS).list()}

    def _written(self, key: str, before: dict[str, ResourceClaim]) -> Json:
        """Return the writes for claims, and the claims that they have changed."""
        answer: Json = {}
        writes, after = [*self.api.resource_claims.writes], self._claims()
        if writes:
            answer["writes"] = writes
        claims: dict[str, Json | None] = {
            name: _claim_json(claim, is_new=name not in before)
            for name, claim in after.items()
            if claim is not before.get(name)
        }
        claims |= dict.fromkeys(before.keys() - after.keys())
        if claims:
            answer["claims"] = claims
        if f"patch pods/status {key}" in writes:
            extended = self._pod(key).status.extended_resource_claim_status
            answer["extendedResourceClaimStatus"] = msgspec.to_builtins(extended)
            statuses = self._pod(key).status.node_allocatable_resource_claim_statuses
            answer["nodeAllocatableResourceClaimStatuses"] = msgspec.to_builtins(statuses)
        return answer

    def _failure(self, key: str) -> str:
        conditions = self._pod(key).status.conditions
        return next(condition.message for condition in conditions if condition.message)

    def _pod(self, key: str) -> Pod:
        namespace, _, name = key.partition("/")
        pod = self.api.objects(PODS.plural).get(name, namespace)
        assert isinstance(pod, Pod), f"{key} exists"
        return pod


def _on_node(pod: Pod, node: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node))


def _diagnosis_json(diagnosis: Diagnosis) -> Json:
    answer: Json = {}
    if diagnosis.pre_filter_status is not None:
        answer["preFilter"] = status_json(diagnosis.pre_filter_status)
    if diagnosis.pre_filter_node_names is not None:
        answer["preFilterNodes"] = sorted(diagnosis.pre_filter_node_names)
    if rejected := {name: status_json(s) for name, s in diagnosis.node_to_status.items()}:
        answer["filter"] = rejected
    return answer


def _placement_json(result: ScheduleResult, counts: tuple[int, int]) -> Json:
    assert result.scores is not None, "all nodes are scored"
    names = result.feasible_nodes.names
    total = result.scores.total.tolist()
    highest = max(total)
    by_plugin = {plugin: s.tolist() for plugin, s in result.scores.by_plugin.items()}
    return {
        "node": result.suggested_host,
        "best": sorted(n for n, score in zip(names, total, strict=True) if score == highest),
        "evaluated": counts[0],
        "feasible": counts[1],
        "scores": {
            name: {plugin: scores[position] for plugin, scores in by_plugin.items()}
            for position, name in enumerate(names)
        },
        "total": dict(zip(names, total, strict=True)),
    }


def _claim_json(claim: ResourceClaim, *, is_new: bool) -> Json:
    """Return a claim as it was written; of a new one also what it was created with."""
    found = msgspec.to_builtins(claim)
    metadata, parts = found["metadata"], dict(found.get("status", {}))
    parts["finalizers"] = metadata.get("finalizers", [])
    if is_new:
        for name in ("generateName", "annotations", "ownerReferences"):
            parts[name] = metadata.get(name)
        parts["spec"] = found.get("spec")
    return parts
