"""Conditions and taints of nodes without heartbeats, and the eviction of pods from them.

    no heartbeat for 50 s ──> conditions Unknown ──> taint unreachable ──> pods are deleted
                                     └─> pods not ready       after their tolerationSeconds

A heartbeat is a renewed lease or a new lastHeartbeatTime of Ready; its age counts from the moment
it is seen. Not implemented: a lower rate of evictions when many nodes of a zone fail.

Source: pkg/controller/{nodelifecycle,tainteviction} of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.events import EventRecorder
from fakeapi.actors.heartbeats import LEASE_NAMESPACE
from fakeapi.actors.objects import NOTHING, Object, condition, with_condition
from fakeapi.actors.resources import LEASES, NODES, PODS
from fakeapi.types import times
from fakeapi.types.objects import Json, mappings, text

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_WATCHED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_TAINT_KEYS: Final = {
    ("Ready", "False"): _NOT_READY,
    ("Ready", "Unknown"): _UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OWN_TAINTS: Final = frozenset(
    [(key, "NoSchedule") for key in (*_TAINT_KEYS.values(), _UNSCHEDULABLE)]
    + [(_NOT_READY, "NoExecute"), (_UNREACHABLE, "NoExecute")]
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeLifecycleOptions:
    """The seconds that a node may be without heartbeat, and a new node without its first."""

    monitor_grace_seconds: float = 50.0
    startup_grace_seconds: float = 60.0


@dataclasses.dataclass(slots=True)
class _Health:
    """The newest heartbeat, and the time at which it was seen."""

    beat: tuple[str, str]
    seen_at: float
    was_ready: bool = True
    has_been_ready: bool = False


class NodeLifecycle(Controller):
    """Sets conditions and taints of nodes, and Ready of the pods on them."""

    name = "node-lifecycle"

    def __init__(self, context: Context, options: NodeLifecycleOptions) -> None:
        super().__init__(context)
        self.options: Final = options
        self._recorder = EventRecorder(context, "node-controller")
        self._health: dict[str, _Health] = {}
        self._registered: dict[str, Object] = {}  # the objects of events, by name
        self._nodes = self.follow(NODES)
        self._pods = self.informer(PODS)
        self._leases = self.informer(LEASES, self._lease_changed)
        self.eviction: Final = TaintEviction(context)

    async def sync(self, key: str) -> None:
        """Update one node by the age of its heartbeat."""
        node = self._nodes.get("", key)
        if node is None:
            self._health.pop(key, None)
            await self._forget(key)
            return
        await self._register(node)
        health = self._observed(node)
        grace = self.options.startup_grace_seconds
        if node.condition("Ready"):
            grace = self.options.monitor_grace_seconds
        remaining = health.seen_at + grace - self.clock.now()
        if remaining > 0:
            self.queue.add_after(key, remaining)
        else:
            node = await self._set_unknown(node)
        await self._taint(node)
        await self._mark_pods(node, health)

    async def _register(self, node: Object) -> None:
        name = node.name
        if name in self._registered:
            return
        involved = Object(metadata={"name": name, "uid": node.uid})
        self._registered[name] = involved
        message = f"Node {name} event: Registered Node {name} in Controller"
        await self._recorder.record(NODES, involved, "RegisteredNode", message)

    async def _forget(self, name: str) -> None:
        gone = self._registered.pop(name, None)
        if gone is not None:
            message = f"Node {name} event: Removing Node {name} from Controller"
            await self._recorder.record(NODES, gone, "RemovingNode", message)

    def _observed(self, node: Object) -> _Health:
        lease = self._leases.get(LEASE_NAMESPACE, node.name) or NOTHING
        beat = (
            text(lease.spec.get("renewTime")),
            text(node.condition("Ready").get("lastHeartbeatTime")),
        )
        now = self.clock.now()
        health = self._health.setdefault(node.name, _Health(beat, now))
        if health.beat != beat:
            health.beat, health.seen_at = beat, now
        return health

    async def _set_unknown(self, node: Object) -> Object:
        now = times.timestamp(self.clock.now())
        changed: list[Json] = []
        for kind in _WATCHED:
            old = node.condition(kind)
            if old.get("status") == "Unknown":
                continue
            reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
            heartbeat = old.get("lastHeartbeatTime")
            if not old:
                reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
                heartbeat = node.metadata.get("creationTimestamp")
            stamps = {"lastHeartbeatTime": heartbeat, "lastTransitionTime": now}
            changed.append(condition(kind, "Unknown", reason, message, **stamps))
        if not changed:
            return node
        return await self.patch_status(NODES, node, {"conditions": changed}, if_unchanged=True)

    async def _taint(self, node: Object) -> None:
        """Add the taints that the node's conditions demand, and remove our others."""
        wanted = _wanted_taints(node)
        present = mappings(node.spec.get("taints"))
        identities = [(text(one.get("key")), text(one.get("effect"))) for one in present]
        kept = [
            taint
            for taint, identity in zip(present, identities, strict=True)
            if identity not in _OWN_TAINTS or identity in wanted
        ]
        now = times.timestamp(self.clock.now())
        added: list[Json] = [
            {"key": key, "effect": effect, "timeAdded": now}
            for key, effect in wanted
            if (key, effect) not in identities
        ]
        if not added and len(kept) == len(present):
            return
        taints = [*kept, *added]
        await self.patch(NODES, node, {"spec": {"taints": taints or None}}, if_unchanged=True)

    async def _mark_pods(self, node: Object, health: _Health) -> None:
        """Set the pods of a node not ready when the node becomes not ready."""
        ready = node.is_ready or not node.condition("Ready")
        if not ready and health.was_ready:
            if health.has_been_ready:
                message = f"Node {node.name} status is now: NodeNotReady"
                await self._recorder.record(NODES, node, "NodeNotReady", message)
            for pod in list(self._pods.objects.values()):
                on_it = pod.node == node.name
                if on_it and pod.is_ready:
                    await self._mark_not_ready(pod)
        health.was_ready = ready
        health.has_been_ready |= node.is_ready

    async def _mark_not_ready(self, pod: Object) -> None:
        now = times.timestamp(self.clock.now())
        unready = {**pod.condition("Ready"), "status": "False"}
        conditions = with_condition(pod.status.get("conditions"), unready, now)
        changed = [one for one in conditions if one.get("type") == "Ready"]
        await self.patch_status(PODS, pod, {"conditions": changed})
        message = "Node is not ready"
        await self._recorder.record(PODS, pod, "NodeNotReady", message, kind="Warning")

    def _lease_changed(self, old: Object | None, new: Object | None) -> None:
        lease = new or old or NOTHING
        if lease.metadata.get("namespace") == LEASE_NAMESPACE:
            self.queue.add(lease.name)


def _wanted_taints(node: Object) -> list[tuple[str, str]]:
    wanted = []
    for (kind, status), key in _TAINT_KEYS.items():
        if node.condition(kind).get("status") == status:
            wanted.append((key, "NoSchedule"))
            if kind == "Ready":
                wanted.append((key, "NoExecute"))
    if node.spec.get("unschedulable"):
        wanted.append((_UNSCHEDULABLE, "NoSchedule"))
    return wanted


class TaintEviction(Controller):
    """Deletes pods from nodes with NoExecute taints that the pods do not tolerate any more."""

    name = "taint-eviction"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._recorder = EventRecorder(context, "taint-eviction-controller")
        self._since: dict[str, float] = {}  # the start of tolerationSeconds, by uid
        self._nodes = self.informer(NODES, self._node_changed)
        self._pods = self.informer(PODS, self._pod_changed)

    async def sync(self, key: str) -> None:
        """Delete one pod, now or later."""
        pod = self._pods.objects.get(key)
        if pod is None or pod.is_deleting:
            return
        spec, uid = pod.spec, pod.uid
        node = self._nodes.get("", text(spec.get("nodeName")))
        taints = taints_of(node or NOTHING, "NoExecute")
        tolerated = toleration_seconds(mappings(spec.get("tolerations")), taints)
        if tolerated is None:
            if self._since.pop(uid, None) is not None:
                await self._record(pod, "Cancelling deletion of Pod")
            return
        now = self.clock.now()
        remaining = self._since.setdefault(uid, now) + tolerated - now
        if remaining > 0:
            self.queue.add_after(key, remaining)
            return
        await self._evict(pod)

    async def _record(self, pod: Object, action: str) -> None:
        message = f"{action} {pod.key}"
        await self._recorder.record(PODS, pod, "TaintManagerEviction", message)

    async def _evict(self, pod: Object) -> None:
        await self._record(pod, "Marking for deletion Pod")
        if not pod.is_true("DisruptionTarget"):
            message = "Taint manager: deleting due to NoExecute taint"
            new = condition("DisruptionTarget", "True", "DeletionByTaintManager", message)
            new["lastTransitionTime"] = times.timestamp(self.clock.now())
            await self.patch_status(PODS, pod, {"conditions": [new]})
        await self.delete(PODS, pod)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._since.pop((old or NOTHING).uid, None)
        elif new.node:
            before, after = (old or NOTHING).spec, new.spec
            fields = ("nodeName", "tolerations")
            if any(before.get(field) != after.get(field) for field in fields):
                self.queue.add(new.key)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None or taints_of(new, "NoExecute") == taints_of(old or NOTHING, "NoExecute"):
            return
        for key, pod in self._pods.objects.items():
            if pod.node == new.name:
                self.queue.add(key)


def taints_of(node: Object, *effects: str) -> list[Json]:
    """Return the node's taints with one of these effects."""
    taints = mappings(node.spec.get("taints"))
    return [taint for taint in taints if taint.get("effect") in effects]


def tolerates(toleration: Json, taint: Json) -> bool:
    """True if a toleration matches a taint."""
    if toleration.get("effect") and toleration.get("effect") != taint.get("effect"):
        return False
    if toleration.get("key") and toleration.get("key") != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    if toleration.get("operator") not in (None, "", "Equal") or not toleration.get("key"):
        return False
    return text(toleration.get("value")) == text(taint.get("value"))


def toleration_seconds(tolerations: Iterable[Json], taints: Iterable[Json]) -> int | None:
    """Return the seconds for which taints are tolerated; None for no limit.

    Source: getMinTolerationTime of tainteviction.
    """
    tolerations = list(tolerations)
    limits: list[int] = []
    for taint in taints:
        used = next((one for one in tolerations if tolerates(one, taint)), None)
        if used is None:
            return 0
        seconds = used.get("tolerationSeconds")
        if isinstance(seconds, int):
            limits.append(max(seconds, 0))
    return min(limits, default=None)
