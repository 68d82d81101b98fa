"""Play the steps of a recorded scenario, and write each step's outcome in the recorded format.

Time passes between steps only, but for a microsecond for each look at the clock. Binding cycles run
after the cycle that began them, one after another.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from scheduler.api.core import ObjectReference, Pod
from scheduler.api.pod_groups import POD_GROUP_SCHEDULED, PodGroup
from scheduler.api_calls.calls import POD_SCHEDULED, PodStatusPatchCall
from scheduler.assembly.core import SchedulerOptions
from scheduler.assembly.in_memory_api import InMemoryApi
from scheduler.client import PODS, object_key
from scheduler.client.kinds import KINDS_BY_NAME, POD_GROUPS
from scheduler.config import KubeSchedulerConfiguration
from scheduler.cycle.pod_group.results import PodGroupAttempt
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.explain.questions import read_object
from scheduler.framework.types import Condition, NominatingInfo
from scheduler.queue.queued_pod_info import QueuedPodInfo

from .attempt_json import SUCCESS, Json, bare, group_attempt_json, pod_json
from .player import START_SECONDS, NoChance, Player, RecordedClock

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


class _Api(InMemoryApi):
    """Records the events of a step, and the nominations in binding cycles."""

    def __init__(self, clock: RecordedClock) -> None:
        super().__init__(clock)
        self.events: Final[list[list[str]]] = []
        self.nominated_for_binding: Final[list[str]] = []
        self.is_binding = False

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
        if related is not None:
            event.append(f"{related.kind}/{related.namespace}/{related.name}")
        self.events.append(event)

    async def patch_pod_status(
        self, pod: Pod, *, condition: Condition | None, nominating_info: NominatingInfo | None
    ) -> bool:
        patch = PodStatusPatchCall(pod, condition, nominating_info)
        if self.is_binding and condition is None and not patch.is_no_op:
            self.nominated_for_binding.append(pod.key)
        return await super().patch_pod_status(
            pod, condition=condition, nominating_info=nominating_info
        )


class StepPlayer(Player):
    """A scheduler in memory that plays steps."""

    def __init__(self, config: KubeSchedulerConfiguration, options: SchedulerOptions) -> None:
        self._clock: Final = RecordedClock()
        self._api: Final = _Api(self._clock)
        super().__init__(config, self._api, options, rng=NoChance())

    def create(self, raw: bytes) -> None:
        """Create an object; a kind that the scheduler does not read is left out."""
        if (decoded := read_object(raw)) is not None:
            self._api.put(*decoded)

    async def play(self, step: Step) -> Json:
        """Play one step; return its outcome."""
        api = self._api
        for noted in (api.events, api.victims, api.nominated_for_binding):
            noted.clear()
        pods, groups = self._states(PODS.plural), self._states(POD_GROUPS.plural)
        outcome: Json = {}
        for raw in step.create:
            self.create(bytes(raw))
        for patch in step.patch:
            self._patch(patch["object"], patch["patch"])
        for name in step.delete:
            api.remove(*_plural_and_key(name))
        for name in step.terminate:
            api.terminate(*_plural_and_key(name))
        if step.finish:
            self._finish()
        if step.advance:
            self._advance(step.advance)
        if step.schedule:
            outcome.update(await self._schedule())
        outcome["pods"] = _changes(pods, self._states(PODS.plural), _pod_change)
        outcome["groups"] = _changes(groups, self._states(POD_GROUPS.plural), _group_change)
        outcome["events"] = sorted(api.events)
        outcome["queue"] = self._queue_json()
        return {key: value for key, value in outcome.items() if value or key == "queue"}

    # Steps.

    def _patch(self, name: str, patch: Json) -> None:
        plural, key = _plural_and_key(name)
        namespace, _, bare = key.rpartition("/")
        old = self._api.objects(plural).get(bare, namespace)
        assert old is not None, "a patched object exists"
        merged = _merged(msgspec.to_builtins(old), patch)
        self._api.put(plural, msgspec.convert(merged, type=type(old)))

    def _finish(self) -> None:
        pods: list[Pod] = self._api.objects(PODS.plural).list()
        for key in sorted(pod.key for pod in pods if pod.metadata.deletion_timestamp is not None):
            self._api.remove(PODS.plural, key)

    def _advance(self, seconds: float) -> None:
        self._clock.pass_by(seconds)
        queue = self.core.queue
        queue.flush_backoff_q_completed(self._clock.now())
        queue.flush_unschedulable_pods_leftover(self._clock.now())

    async def _schedule(self) -> Json:
        queued = self.core.cycle.queue.pop_nowait()
        if queued is None:
            return {"idle": True}
        popped = queued.pod_info
        found = await schedule_one(self.core.cycle, queued)
        self._api.is_binding = True
        while self.bindings:
            await self.bindings.pop(next(iter(self.bindings)))
        self._api.is_binding = False
        attempt: Json = {"popped": popped.key if found is not None else ""}
        if isinstance(found, PodGroupAttempt):
            attempt.update(group_attempt_json(found))
        elif found is not None:
            permit = SUCCESS if found.status is None else None
            attempt["pods"] = [pod_json(popped, found, permit)]
        attempt["victims"] = [*self._api.victims]
        attempt["nominatedForBinding"] = sorted(self._api.nominated_for_binding)
        return {"attempt": bare(attempt, keep=("popped", "placement"))}

    # State.

    def _states(self, kind: str) -> dict[str, Any]:
        return {object_key(obj): obj for obj in self._api.objects(kind).list()}

    def _queue_json(self) -> Json:
        queue = self.core.queue
        waiting = queue.unschedulable_pods.in_order()
        backoff = queue.backoff_q

        def seconds(pods: Iterable[QueuedPodInfo]) -> dict[str, int]:
            # The recording's clock starts at 0.
            return {pod.key: int(backoff.backoff_time(pod) - START_SECONDS) for pod in pods}

        return bare(
            {
                "active": [pod.key for pod in queue.active_q.in_order()],
                "backoff": seconds(backoff.pod_backoff_q),
                "errorBackoff": seconds(backoff.pod_error_backoff_q),
                "unschedulable": {
                    p.key: ",".join(sorted(p.rejector_plugins)) for p in waiting if not p.is_gated
                },
                "gated": {p.key: p.gating_plugin for p in waiting if p.is_gated},
            }
        )


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
