"""What becomes of nodes that are silent, and of the pods on them.

    no heartbeat for 50 s ──> conditions Unknown ──> taints unreachable ──> pods are deleted
                                     └─> pods not ready            once they bear it no longer

A heartbeat is a renewed lease or a new time in the Ready condition; what counts is when it is seen.
Source: pkg/controller/{nodelifecycle,tainteviction} of Kubernetes v1.36.3. Evictions are not
slowed down when many nodes of a zone fail.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from fakeapi.actors.client import STRATEGIC
from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.events import EventRecorder
from fakeapi.actors.heartbeats import LEASE_NAMESPACE
from fakeapi.actors.objects import (
    condition_of,
    is_ready,
    key_of,
    node_of,
    spec_of,
    status_of,
    uid_of,
    with_condition,
)
from fakeapi.actors.resources import LEASES, NODES, PODS
from fakeapi.actors.tolerations import patience_seconds, taints_of
from fakeapi.types import times
from fakeapi.types.objects import Json, is_deleting, mappings, metadata_of, name_of, text

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_WATCHED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_TAINT_KEYS: Final = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OURS: Final = frozenset(
    [(key, "NoSchedule") for key in (*_TAINT_KEYS.values(), UNSCHEDULABLE)]
    + [(NOT_READY, "NoExecute"), (UNREACHABLE, "NoExecute")]
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeLifecycleOptions:
    """How long a node may be silent, and how long one that has never spoken; seconds."""

    monitor_grace_seconds: float = 50.0
    startup_grace_seconds: float = 60.0


@dataclasses.dataclass(slots=True)
class _Health:
    """The newest heartbeat that was seen, and when that was."""

    beat: tuple[str, str]
    seen_at: float
    was_ready: bool = True
    has_been_ready: bool = False


class NodeLifecycle(Controller):
    """Watches over heartbeats and sets conditions and taints."""

    name = "node-lifecycle"

    def __init__(self, context: Context, options: NodeLifecycleOptions) -> None:
        super().__init__(context)
        self.options: Final = options
        self._recorder = EventRecorder(context, "node-controller")
        self._health: dict[str, _Health] = {}
        self._registered: dict[str, Json] = {}  # what events of a node are about, by its name
        self._nodes = self.follow(NODES)
        self._pods = self.informer(PODS)
        self._leases = self.informer(LEASES)
        self._leases.subscribe(self._lease_changed)
        self.eviction: Final = TaintEviction(context)

    async def sync(self, key: str) -> None:
        """Judge one node. Raises ActorApiError."""
        node = self._nodes.get("", key)
        if node is None:
            self._health.pop(key, None)
            await self._forget(key)
            return
        await self._register(node)
        health = self._observed(node)
        known = bool(condition_of(node, "Ready"))
        options = self.options
        grace = options.monitor_grace_seconds if known else options.startup_grace_seconds
        silent_since = health.seen_at + grace
        remaining = silent_since - self.clock.now()
        if remaining > 0:
            self.queue.add_after(key, remaining)
        else:
            node = await self._declare_unknown(node)
        await self._taint(node)
        await self._disown_pods(node, health)

    async def _register(self, node: Json) -> None:
        name = name_of(node)
        if name in self._registered:
            return
        known: Json = {"metadata": {"name": name, "uid": uid_of(node)}}
        self._registered[name] = known
        message = f"Node {name} event: Registered Node {name} in Controller"
        await self._recorder.record(NODES, known, "RegisteredNode", message)

    async def _forget(self, name: str) -> None:
        gone = self._registered.pop(name, None)
        if gone is not None:
            message = f"Node {name} event: Removing Node {name} from Controller"
            await self._recorder.record(NODES, gone, "RemovingNode", message)

    def _observed(self, node: Json) -> _Health:
        lease = self._leases.get(LEASE_NAMESPACE, name_of(node)) or {}
        beat = (
            text(spec_of(lease).get("renewTime")),
            text(condition_of(node, "Ready").get("lastHeartbeatTime")),
        )
        now = self.clock.now()
        health = self._health.setdefault(name_of(node), _Health(beat, now))
        if health.beat != beat:
            health.beat, health.seen_at = beat, now
        return health

    async def _declare_unknown(self, node: Json) -> Json:
        now = times.timestamp(self.clock.now())
        changed: list[Json] = []
        for kind in _WATCHED:
            condition = condition_of(node, kind)
            if condition.get("status") == "Unknown":
                continue
            reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
            heartbeat = condition.get("lastHeartbeatTime")
            if not condition:
                reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
                heartbeat = metadata_of(node).get("creationTimestamp")
            changed.append(
                {
                    "type": kind,
                    "status": "Unknown",
                    "reason": reason,
                    "message": message,
                    "lastHeartbeatTime": heartbeat,
                    "lastTransitionTime": now,
                }
            )
        if not changed:
            return node
        patch: Json = {
            "metadata": {"resourceVersion": metadata_of(node).get("resourceVersion")},
            "status": {"conditions": changed},
        }
        return await self.patch(NODES, node, patch, subresource="status", content_type=STRATEGIC)

    async def _taint(self, node: Json) -> None:
        """Give the node the taints that its conditions call for, and take off those they do not."""
        wanted = _wanted_taints(node)
        present = mappings(spec_of(node).get("taints"))
        identities = [(text(one.get("key")), text(one.get("effect"))) for one in present]
        kept = [
            taint
            for taint, identity in zip(present, identities, strict=True)
            if identity not in _OURS or identity in wanted
        ]
        now = times.timestamp(self.clock.now())
        added: list[Json] = [
            {"key": key, "effect": effect, "timeAdded": now}
            for key, effect in wanted
            if (key, effect) not in identities
        ]
        if not added and len(kept) == len(present):
            return
        patch: Json = {
            "metadata": {"resourceVersion": metadata_of(node).get("resourceVersion")},
            "spec": {"taints": [*kept, *added] or None},
        }
        await self.patch(NODES, node, patch)

    async def _disown_pods(self, node: Json, health: _Health) -> None:
        """When a node ceases to be ready so do its pods."""
        ready = is_ready(node) or not condition_of(node, "Ready")
        if not ready and health.was_ready:
            if health.has_been_ready:
                message = f"Node {name_of(node)} status is now: NodeNotReady"
                await self._recorder.record(NODES, node, "NodeNotReady", message)
            for pod in list(self._pods.objects.values()):
                on_it = node_of(pod) == name_of(node)
                if on_it and is_ready(pod):
                    await self._disown(pod)
        health.was_ready = ready
        health.has_been_ready |= is_ready(node)

    async def _disown(self, pod: Json) -> None:
        now = times.timestamp(self.clock.now())
        condition = {**condition_of(pod, "Ready"), "status": "False"}
        conditions = with_condition(status_of(pod).get("conditions"), condition, now)
        changed = [one for one in conditions if one.get("type") == "Ready"]
        await self.patch(
            PODS,
            pod,
            {"status": {"conditions": changed}},
            subresource="status",
            content_type=STRATEGIC,
        )
        message = "Node is not ready"
        await self._recorder.record(PODS, pod, "NodeNotReady", message, kind="Warning")

    def _lease_changed(self, old: Json | None, new: Json | None) -> None:
        lease = new or old or {}
        if metadata_of(lease).get("namespace") == LEASE_NAMESPACE:
            self.queue.add(name_of(lease))


def _wanted_taints(node: Json) -> list[tuple[str, str]]:
    wanted = []
    for (kind, status), key in _TAINT_KEYS.items():
        if condition_of(node, kind).get("status") == status:
            wanted.append((key, "NoSchedule"))
            if kind == "Ready":
                wanted.append((key, "NoExecute"))
    if spec_of(node).get("unschedulable"):
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    return wanted


class TaintEviction(Controller):
    """Deletes pods from nodes whose NoExecute taints they do not bear, or no longer."""

    name = "taint-eviction"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._recorder = EventRecorder(context, "taint-eviction-controller")
        self._since: dict[str, float] = {}  # by uid of the pod: since when it bears its taints
        self._nodes = self.informer(NODES)
        self._pods = self.informer(PODS)
        self._pods.subscribe(self._pod_changed)
        self._nodes.subscribe(self._node_changed)

    async def sync(self, key: str) -> None:
        """Delete one pod, or plan to. Raises ActorApiError."""
        pod = self._pods.objects.get(key)
        if pod is None or is_deleting(pod):
            return
        spec, uid = spec_of(pod), uid_of(pod)
        node = self._nodes.get("", text(spec.get("nodeName")))
        taints = taints_of(node or {}, "NoExecute")
        patience = patience_seconds(mappings(spec.get("tolerations")), taints) if taints else None
        if patience is None:
            if self._since.pop(uid, None) is not None:
                await self._tell(pod, "Cancelling deletion of Pod")
            return
        now = self.clock.now()
        remaining = self._since.setdefault(uid, now) + patience - now
        if remaining > 0:
            self.queue.add_after(key, remaining)
            return
        await self._evict(pod)

    async def _tell(self, pod: Json, what: str) -> None:
        message = f"{what} {key_of(pod)}"
        await self._recorder.record(PODS, pod, "TaintManagerEviction", message)

    async def _evict(self, pod: Json) -> None:
        await self._tell(pod, "Marking for deletion Pod")
        condition: Json = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        if condition_of(pod, "DisruptionTarget").get("status") != "True":
            condition["lastTransitionTime"] = times.timestamp(self.clock.now())
            await self.patch(
                PODS,
                pod,
                {"status": {"conditions": [condition]}},
                subresource="status",
                content_type=STRATEGIC,
            )
        await self.delete(PODS, pod)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            self._since.pop(uid_of(old or {}), None)
        elif node_of(new):
            before, after = spec_of(old or {}), spec_of(new)
            fields = ("nodeName", "tolerations")
            if any(before.get(field) != after.get(field) for field in fields):
                self.queue.add(key_of(new))

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None or taints_of(new, "NoExecute") == taints_of(old or {}, "NoExecute"):
            return
        for key, pod in self._pods.objects.items():
            if node_of(pod) == name_of(new):
                self.queue.add(key)
