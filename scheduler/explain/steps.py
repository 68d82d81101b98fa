"""Play the steps of a recorded scenario, and write each step's outcome in the recorded format.

The queue, the event handlers and the cycle are those of the scheduler. The API server is a
dictionary: a write reaches the event handlers before it returns. Time passes between steps only,
but for a microsecond for each look at the clock. Binding cycles run after the cycle that began
them, one after another.
"""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec.structs import replace

from scheduler.api.core import Pod
from scheduler.api.dynamic_resources import ResourceClaim
from scheduler.api.pod_groups import POD_GROUP_SCHEDULED, PodGroup
from scheduler.api_calls.calls import POD_SCHEDULED, PodStatusPatchCall
from scheduler.assembly.event_handlers import NodeEventHandler, ObjectEventHandler, PodEventHandler
from scheduler.assembly.profiles import build_profiles
from scheduler.assembly.watched_kinds import kinds_to_watch
from scheduler.cache import Cache
from scheduler.client import NODES, PODS, Store
from scheduler.client.kinds import KINDS_BY_NAME, POD_GROUPS, kind_key, object_key
from scheduler.clock import SystemClock
from scheduler.config import GANG_SCHEDULING, GENERIC_WORKLOAD
from scheduler.cycle.attempt import Attempts, CycleParts
from scheduler.cycle.pod_group.results import PodGroupAttempt
from scheduler.cycle.schedule_pod import SchedulingAlgorithm
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.explain.attempt_json import SUCCESS, Json, bare, group_attempt_json, pod_json
from scheduler.explain.claims_in_memory import ClaimsInMemory
from scheduler.explain.cluster import with_api_defaults
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import Nominator, PriorityQueue, build_queueing_hint_map
from scheduler.reports.decision import FirstByName
from scheduler.runtime import PluginHandle, PodsInPreBind, WaitingPods
from scheduler.snapshot import Snapshot
from scheduler.stories import PodStories

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping

    from scheduler.api.core import ObjectReference, PodExtendedResourceClaimStatus
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.api.unstructured import Kind
    from scheduler.client import ApiObject
    from scheduler.config import FeatureGates, KubeSchedulerConfiguration
    from scheduler.framework.interface import Plugin
    from scheduler.framework.types import Condition, NominatingInfo
    from scheduler.queue.gating import NamedPreEnqueuePlugin
    from scheduler.runtime.handle import DryRun

_MICROSECOND: Final = 1e-6
_DISRUPTION_TARGET: Final = "DisruptionTarget"


class Step(msgspec.Struct, frozen=True):
    """One step: exactly one field is set. Objects are named `Kind/namespace/name`."""

    create: tuple[msgspec.Raw, ...] = ()
    patch: tuple[dict[str, Any], ...] = ()
    delete: tuple[str, ...] = ()
    terminate: tuple[str, ...] = ()
    finish: bool = False
    advance: float = 0.0
    schedule: bool = False


class _StepClock:
    """Time that passes between steps, and by a microsecond with each look."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        self.seconds += _MICROSECOND
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Wait until cancelled: no timeout ends within a step."""
        await asyncio.Event().wait()


class _Server:
    """The API server of a scenario, and the informers: writes reach the handlers at once."""

    def __init__(self, clock: _StepClock) -> None:
        self._clock: Final = clock
        self.stores: Final[dict[str, Store[Any]]] = {}
        self.handlers: Final[dict[str, list[Any]]] = {}
        self.events: list[list[str]] = []
        self.victims: list[str] = []
        self.nominated_for_binding: list[str] = []
        self.is_binding = False
        self._versions = 0
        self.resource_claims: Final = ClaimsInMemory(
            self.lister(ResourceClaim),
            put=lambda claim: self.put("resourceclaims", claim),
            remove=lambda key: self.remove("resourceclaims", key),
        )

    def lister(self, kind: Kind, /) -> Store[Any]:
        return self.stores.setdefault(kind_key(kind), Store())

    def put(self, key: str, obj: ApiObject) -> None:
        """Create or replace an object of the kind `key`."""
        self._versions += 1
        metadata = replace(obj.metadata, resource_version=str(self._versions))
        obj = replace(cast("Any", obj), metadata=metadata)
        old = self.stores.setdefault(key, Store()).put(obj)
        for handler in self.handlers.get(key, ()):
            if old is None:
                handler.on_add(obj, is_initial=False)
            else:
                handler.on_update(old, obj)

    def remove(self, key: str, name: str) -> None:
        """Delete the object `namespace/name` of the kind `key`; a no-op if there is none."""
        old = self.stores[key].remove(name) if key in self.stores else None
        if old is not None:
            for handler in self.handlers.get(key, ()):
                handler.on_delete(old, final_state_unknown=False)

    def pod(self, pod: Pod) -> Pod | None:
        metadata = pod.metadata
        found: Pod | None = self.lister(Pod).get(metadata.name, metadata.namespace)
        return found if found is not None and found.metadata.uid == metadata.uid else None

    def terminate(self, key: str, name: str) -> None:
        obj = self.stores[key].get(*reversed(name.rpartition("/")[::2]))
        if obj is not None and obj.metadata.deletion_timestamp is None:
            now = datetime.fromtimestamp(self._clock.seconds, UTC)
            metadata = replace(obj.metadata, deletion_timestamp=now)
            self.put(key, replace(obj, metadata=metadata))

    # What the scheduler writes.

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
        event = [f"Pod/{regarding.key}", type, reason, action, note]
        if related is not None and related.kind == "PodGroup":
            # Upstream's events of other preemptions do not name the preemptor.
            event.append(f"{related.kind}/{related.namespace}/{related.name}")
        self.events.append(event)

    async def bind(self, pod: Pod, node_name: str) -> None:
        known = self.pod(pod)
        assert known is not None, "a pod that is being bound exists"
        spec = replace(known.spec, node_name=node_name)
        status = replace(known.status, nominated_node_name="")
        self.put(PODS.plural, replace(known, spec=spec, status=status))

    async def patch_pod_status(
        self,
        pod: Pod,
        *,
        condition: Condition | None,
        nominating_info: NominatingInfo | None,
    ) -> bool:
        known = self.pod(pod)
        if known is None:
            return False
        if PodStatusPatchCall(pod, condition, nominating_info).is_no_op:
            return True
        if self.is_binding and condition is None:
            self.nominated_for_binding.append(pod.key)
        changed = PodStatusPatchCall(known, condition, nominating_info).applied_to(known)
        if changed is not known:
            self.put(PODS.plural, changed)
        return True

    async def patch_pod_group_status(self, pod_group: PodGroup, *, condition: Condition) -> None:
        metadata = pod_group.metadata
        known = self.lister(PodGroup).get(metadata.name, metadata.namespace)
        if known is not None:
            # The status of a group is patched as that of a pod.
            as_pod = Pod(metadata=known.metadata)
            as_pod = replace(
                as_pod, status=replace(as_pod.status, conditions=known.status.conditions)
            )
            changed = PodStatusPatchCall(as_pod, condition, None).applied_to(as_pod)
            if changed is not as_pod:
                status = replace(known.status, conditions=changed.status.conditions)
                self.put(POD_GROUPS.plural, replace(known, status=status))

    async def delete_pod(self, pod: Pod) -> bool:
        self.victims.append(pod.key)
        known = self.pod(pod)
        if known is None:
            return False
        if known.spec.termination_grace_period_seconds == 0:
            self.remove(PODS.plural, known.key)
        else:
            self.terminate(PODS.plural, known.key)
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
        known = self.pod(pod)
        if known is not None:
            changed = replace(known.status, extended_resource_claim_status=status)
            self.put(PODS.plural, replace(known, status=changed))


class StepPlayer:
    """A scheduler in memory that plays steps."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        *,
        feature_gates: FeatureGates,
        plugins: Iterable[type[Plugin] | str] = (),
    ) -> None:
        self._clock: Final = _StepClock()
        self._server: Final = _Server(self._clock)
        self._gates: Final = feature_gates
        self._metrics: Final = SchedulerMetrics()
        self._bindings: Final[list[Coroutine[Any, Any, None]]] = []
        self._cache: Final = Cache(generic_workload=GENERIC_WORKLOAD in feature_gates)
        self._snapshot: Final = Snapshot()
        self._nominator: Final = Nominator(self._find_pod)
        self._waiting_pods: Final = WaitingPods(self._clock, self._metrics)
        self._shared_objects: Final[dict[object, object]] = {}
        self._pods_in_pre_bind: Final = PodsInPreBind()
        self.profiles: Final = build_profiles(config, self._make_handle, plugins=plugins)
        self._priority_queue: Final = self._make_queue(config)
        stories = PodStories()
        self._queue: Final = SchedulingQueue(
            self._priority_queue, clock=self._clock, stories=stories
        )
        self._parts: Final = CycleParts(
            profiles=self.profiles,
            cache=self._cache,
            queue=self._queue,
            algorithm=SchedulingAlgorithm(
                self._snapshot,
                tie_break=FirstByName(),
                percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
            ),
            api=self._server,
            waiting_pods=self._waiting_pods,
            pods_in_pre_bind=self._pods_in_pre_bind,
            pod_lister=self._find_pod,
            attempts=Attempts(clock=self._clock, metrics=self._metrics, stories=stories),
            spawn=self._spawn,
            feature_gates=feature_gates,
            pod_group_lister=lambda namespace, name: self._server.lister(PodGroup).get(
                name, namespace
            ),
        )
        self._add_handlers()

    @property
    def node_order(self) -> list[str]:
        """The nodes in scheduling order."""
        self._cache.update_snapshot(self._snapshot)
        return list(self._snapshot.names)

    def create(self, raw: bytes) -> None:
        """Create an object; a kind that the scheduler does not read is left out."""
        kind = msgspec.json.decode(raw)["kind"]
        resource = KINDS_BY_NAME.get(kind)
        if resource is not None:
            obj = msgspec.json.decode(raw, type=resource.type)
            if isinstance(obj, Pod):
                obj = with_api_defaults(obj)
            self._server.put(resource.plural, obj)

    async def play(self, step: Step) -> Json:
        """Play one step; return its outcome."""
        server = self._server
        server.events, server.victims, server.nominated_for_binding = [], [], []
        before = {key: self._states(kind) for key, kind in (("pods", Pod), ("groups", PodGroup))}
        outcome: Json = {}
        for raw in step.create:
            self.create(bytes(raw))
        for patch in step.patch:
            self._patch(patch["object"], patch["patch"])
        for name in step.delete:
            server.remove(*_plural_and_key(name))
        for name in step.terminate:
            server.terminate(*_plural_and_key(name))
        if step.finish:
            self._finish()
        if step.advance:
            self._advance(step.advance)
        if step.schedule:
            outcome.update(await self._schedule())
        after = _changes(before["pods"], self._states(Pod), _pod_change)
        groups = _changes(before["groups"], self._states(PodGroup), _group_change)
        outcome.update({"pods": after, "groups": groups, "events": sorted(server.events)})
        outcome["queue"] = self._queue_json()
        return {key: value for key, value in outcome.items() if value or key == "queue"}

    # Parts.

    def _make_handle(self, profile_name: str, worlds: DryRun) -> PluginHandle:
        return PluginHandle(
            profile_name=profile_name,
            snapshot=self._snapshot,
            nominator=self._nominator,
            event_recorder=self._server,
            api=self._server,
            feature_gates=self._gates,
            metrics=self._metrics,
            rng=_NoChance(),
            # Start times of pods are compared with the present, not with the queue's time.
            clock=SystemClock(),
            waiting_pods=self._waiting_pods,
            pods_in_pre_bind=self._pods_in_pre_bind,
            worlds=worlds,
            lister=self._server.lister,
            pod_group=self._cache.pod_group,
            activate=lambda pods: self._queue.activate(pods),
            spawn=self._spawn,
            run_in_parallel=_run_in_sequence,
            shared_objects=self._shared_objects,
        )

    def _make_queue(self, config: KubeSchedulerConfiguration) -> PriorityQueue:
        first = next(iter(self.profiles.values()))
        return PriorityQueue(
            first.less,
            sort_key=first.sort_key,
            pre_enqueue_plugins={
                name: sorted(
                    (cast("NamedPreEnqueuePlugin", p) for p in framework.plugins["pre_enqueue"]),
                    key=lambda plugin: plugin.name,
                )
                for name, framework in self.profiles.items()
            },
            queueing_hint_map={
                name: build_queueing_hint_map(framework.registered_events)
                for name, framework in self.profiles.items()
            },
            nominator=self._nominator,
            metrics=self._metrics,
            generic_workload=GENERIC_WORKLOAD in self._gates,
            initial_backoff_seconds=float(config.pod_initial_backoff_seconds),
            max_backoff_seconds=float(config.pod_max_backoff_seconds),
        )

    def _add_handlers(self) -> None:
        handlers = self._server.handlers
        parts: dict[str, Any] = {
            "cache": self._cache, "queue": self._queue, "metrics": self._metrics,
        }  # fmt: skip
        handlers[NODES.plural] = [NodeEventHandler(**parts)]
        handlers[PODS.plural] = [
            PodEventHandler(
                **parts,
                waiting_pods=self._waiting_pods,
                scheduler_names=self.profiles.keys(),
                gang_scheduling=GANG_SCHEDULING in self._gates,
                on_corrupted=_raise,
            )
        ]
        for resource, events, _ in kinds_to_watch(self.profiles):
            handlers[resource.key] = [
                ObjectEventHandler(name, actions, queue=self._queue, metrics=self._metrics)
                for name, actions in events.items()
            ]

    def _find_pod(self, namespace: str, name: str) -> Pod | None:
        found: Pod | None = self._server.lister(Pod).get(name, namespace)
        return found

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Keep a binding cycle for later; run any other work at once."""
        if name.startswith("bind "):
            self._bindings.append(work)
        else:
            _finish_now(work)

    # Steps.

    def _patch(self, name: str, patch: Json) -> None:
        plural, key = _plural_and_key(name)
        namespace, _, bare = key.rpartition("/")
        old = self._server.stores[plural].get(bare, namespace)
        assert old is not None, "a patched object exists"
        merged = _merged(msgspec.to_builtins(old), patch)
        self._server.put(plural, msgspec.convert(merged, type=type(old)))

    def _finish(self) -> None:
        pods: list[Pod] = self._server.lister(Pod).list()
        for key in sorted(pod.key for pod in pods if pod.metadata.deletion_timestamp is not None):
            self._server.remove(PODS.plural, key)

    def _advance(self, seconds: float) -> None:
        self._clock.seconds += seconds
        queue = self._priority_queue
        queue.flush_backoff_q_completed(self._clock.now())
        queue.flush_unschedulable_pods_leftover(self._clock.now())

    async def _schedule(self) -> Json:
        queued = self._queue.pop_nowait()
        if queued is None:
            return {"idle": True}
        popped = queued.pod_info
        found = await schedule_one(self._parts, queued)
        self._server.is_binding = True
        while self._bindings:
            await self._bindings.pop(0)
        self._server.is_binding = False
        attempt: Json = {"popped": popped.key if found is not None else ""}
        if isinstance(found, PodGroupAttempt):
            attempt.update(group_attempt_json(found))
        elif found is not None:
            permit = SUCCESS if found.status is None else None
            attempt["pods"] = [pod_json(popped, found, permit)]
        attempt["victims"] = self._server.victims
        attempt["nominatedForBinding"] = sorted(self._server.nominated_for_binding)
        return {"attempt": bare(attempt, keep=("popped", "placement"))}

    # State.

    def _states(self, kind: type[Any]) -> dict[str, Any]:
        return {object_key(obj): obj for obj in self._server.lister(kind).list()}

    def _queue_json(self) -> Json:
        queue = self._priority_queue
        waiting = queue.unschedulable_pods.in_order()
        heaps = queue.backoff_q
        return bare(
            {
                "active": [pod.key for pod in queue.active_q.in_order()],
                "backoff": {p.key: int(heaps.backoff_time(p)) for p in heaps.pod_backoff_q},
                "errorBackoff": {
                    p.key: int(heaps.backoff_time(p)) for p in heaps.pod_error_backoff_q
                },
                "unschedulable": {
                    p.key: ",".join(sorted(p.rejector_plugins)) for p in waiting if not p.is_gated
                },
                "gated": {p.key: p.gating_plugin for p in waiting if p.is_gated},
            }
        )


class _NoChance(random.Random):
    """Numbers without chance: 0."""

    def random(self) -> float:
        return 0.0

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], change: Any) -> Json:
    changes = {key: change(old, after.get(key)) for key, old in before.items()}
    return {key: change for key, change in changes.items() if change}


def _pod_change(old: Pod, new: Pod | None) -> Json:
    if new is None:
        return {"gone": "deleted"}
    change: Json = {}
    if new.spec.node_name != old.spec.node_name:
        change["node"] = new.spec.node_name
    elif new.status.nominated_node_name != old.status.nominated_node_name:
        change["nominatedNode"] = new.status.nominated_node_name
    for name, type in (("scheduled", POD_SCHEDULED), ("disruptionTarget", _DISRUPTION_TARGET)):
        if condition := _condition_change(old, new, type):
            change[name] = condition
    if new.metadata.deletion_timestamp is not None and old.metadata.deletion_timestamp is None:
        change["gone"] = "terminating"
    return change


def _group_change(old: PodGroup, new: PodGroup | None) -> Json:
    return _condition_change(old, new, POD_GROUP_SCHEDULED) if new is not None else {}


def _condition_change(old: Pod | PodGroup, new: Pod | PodGroup, type: str) -> Json:
    """Return the new condition; nothing if it is as before."""

    def of(obj: Pod | PodGroup) -> Json:
        found = next((c for c in obj.status.conditions if c.type == type), None)
        if found is None:
            return {}
        return bare({"status": found.status, "reason": found.reason, "message": found.message})

    return {} if of(old) == of(new) else of(new)


def _merged(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _plural_and_key(name: str) -> tuple[str, str]:
    """Return the plural of the kind and the key of an object named `Kind/namespace/name`."""
    kind, _, key = name.partition("/")
    return KINDS_BY_NAME[kind].plural, key.removeprefix("/")


def _raise(error: Exception) -> None:
    raise error


def _finish_now(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise AssertionError("background work waits for something that never happens here")


async def _run_in_sequence(works: Iterable[Coroutine[None, None, None]]) -> None:
    for work in works:
        await work


def play(
    config: KubeSchedulerConfiguration,
    objects: Iterable[bytes],
    steps: Iterable[Step],
    *,
    feature_gates: FeatureGates,
    plugins: Iterable[type[Plugin] | str] = (),
) -> Json:
    """Create the objects, play the steps, and return the outcome of each."""

    async def run() -> Json:
        player = StepPlayer(config, feature_gates=feature_gates, plugins=plugins)
        for raw in objects:
            player.create(raw)
        outcomes = [await player.play(step) for step in steps]
        return {"nodeOrder": player.node_order, "steps": outcomes}

    return asyncio.run(run())
