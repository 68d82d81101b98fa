"""A kubelet for every node: runs pods that are bound, ends those that are deleted, and says so.

Annotations of a pod say what its containers do (`fakeapi.kubesched.io/` and then `startup-seconds`,
`run-seconds`, `exit-codes` (`1,1,0`: of run after run), `termination-seconds`); what they do not
say is said by `KubeletOptions`, and what is not understood is told by an event of the pod. A node
with the annotation `fakeapi.kubesched.io/stopped: "true"` has a kubelet that does nothing, as
`Kubelet.stop_node` makes it.

Source: pkg/kubelet (syncPod, status manager, nodelease, nodestatus) of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

from fakeapi.actors import pod_runs
from fakeapi.actors.client import STRATEGIC, ActorApiError
from fakeapi.actors.container_events import ContainerEvents
from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.objects import (
    annotation,
    key_of,
    node_of,
    spec_of,
    status_of,
    uid_of,
    with_condition,
)
from fakeapi.actors.resources import LEASES, NODES, PODS
from fakeapi.actors.wishes import Complaints, Wishes
from fakeapi.types import times
from fakeapi.types.objects import Json, is_deleting, mappings, metadata_of, name_of, text

if TYPE_CHECKING:
    from fakeapi.actors.pod_runs import PodPlan, PodRun

STOPPED: Final = "fakeapi.kubesched.io/stopped"
LEASE_NAMESPACE: Final = "kube-node-lease"
_LEASE_DURATION_SECONDS: Final = 40
_OF_PODS: Final = ("startup-seconds", "run-seconds", "exit-codes", "termination-seconds")
_OF_NODES: Final = ("stopped",)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KubeletOptions:
    """How all pods behave that do not say otherwise; seconds.

    `run_seconds` None lets pods run until they are deleted, `termination_seconds` None lets them
    use all their grace. Leases are renewed and statuses sent as often as upstream's kubelet does.
    """

    startup_seconds: float = 1.0
    run_seconds: float | None = None
    exit_code: int = 0
    termination_seconds: float | None = None
    lease_renew_seconds: float = 10.0
    status_report_seconds: float = 300.0


class Kubelet(Controller):
    """Runs the pods of all nodes but those that are stopped."""

    name = "kubelet"

    def __init__(self, context: Context, options: KubeletOptions) -> None:
        super().__init__(context)
        self.options: Final = options
        self._stopped: set[str] = set()
        self._runs: dict[str, PodRun] = {}
        self._events = ContainerEvents(context)
        self._complaints = Complaints(context)
        self._noticed: dict[str, float] = {}  # when the end of a pod was first seen, by uid
        self._addresses: dict[str, str] = {}
        self._addresses_of_pods: dict[str, int] = {}
        self._pod_count = 0
        self._nodes = self.informer(NODES)
        self._pods = self.informer(PODS)
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)
        self.heartbeats: Final = NodeHeartbeats(context, self)

    def stop_node(self, name: str) -> None:
        """Let the node's kubelet do nothing from now on, as if the machine were gone."""
        self._stopped.add(name)
        self._requeue(name)

    def start_node(self, name: str) -> None:
        """Let the node's kubelet go on."""
        self._stopped.discard(name)
        self._requeue(name)

    def is_stopped(self, node: Json) -> bool:
        """Whether the node's kubelet does nothing."""
        return name_of(node) in self._stopped or annotation(node, STOPPED) == "true"

    async def sync(self, key: str) -> None:
        """Bring one pod to where it should be by now. Raises ActorApiError."""
        pod = self._pods.objects.get(key)
        if pod is None:
            return
        node = self._nodes.get("", _node_name(pod))
        if node is None or self.is_stopped(node):
            return
        if is_deleting(pod):
            await self._end(key, pod, node)
        else:
            await self._run(key, pod, node)

    async def _run(self, key: str, pod: Json, node: Json) -> None:
        now = self.clock.now()
        run = self._run_of(pod, now)
        before = run.state, run.restarts
        remaining = pod_runs.step(run, pod, await self._plan(pod), now)
        await self._report(pod, node, run, now)
        await self._events.stepped(pod, before, run)
        if remaining is not None:
            self.queue.add_after(key, remaining)

    async def _end(self, key: str, pod: Json, node: Json) -> None:
        """Wait until the grace is over, say how the containers ended, then let go of the pod."""
        now, uid = self.clock.now(), uid_of(pod)
        run, plan = self._run_of(pod, now), await self._plan(pod)
        end = times.epoch_seconds(text(metadata_of(pod).get("deletionTimestamp")))
        killed = plan.termination_seconds is None
        if uid not in self._noticed:
            self._noticed[uid] = now
            if run.state == "running":
                await self._events.killed(pod)
        if plan.termination_seconds is not None:
            own = self._noticed[uid] + plan.termination_seconds
            killed, end = own > end, min(end, own)
        if end > now and run.state == "running":
            self.queue.add_after(key, end - now)
            return
        self._runs[uid] = run = pod_runs.terminated(run, now, killed=killed)
        await self._report(pod, node, run, now)
        await self.delete(PODS, pod, gracePeriodSeconds=0)

    async def _report(self, pod: Json, node: Json, run: PodRun, now: float) -> None:
        host_ip = self.address_of(node)
        status = pod_runs.pod_status(
            run, pod, host_ip=host_ip, pod_ip=self._pod_ip(pod, host_ip), now=now
        )
        old = status_of(pod)
        changes = {name: value for name, value in status.items() if old.get(name) != value}
        conditions = mappings(old.get("conditions"))
        wanted = mappings(status["conditions"])
        changes["conditions"] = _merge_patch_of(wanted, conditions)
        if all(condition in conditions for condition in wanted):
            del changes["conditions"]
        if changes:
            await self.patch(
                PODS, pod, {"status": changes}, subresource="status", content_type=STRATEGIC
            )

    def _run_of(self, pod: Json, now: float) -> PodRun:
        uid = uid_of(pod)
        run = self._runs.get(uid)
        if run is None:
            fresh = not status_of(pod).get("startTime")
            run = pod_runs.begun(now) if fresh else pod_runs.recovered(pod, now)
            self._runs[uid] = run
        return run

    async def _plan(self, pod: Json) -> PodPlan:
        """What the pod is to do; its author is told what of that is not understood."""
        options, wishes = self.options, Wishes(pod, _OF_PODS)
        startup = wishes.seconds("startup-seconds", options.startup_seconds)
        plan = pod_runs.PodPlan(
            startup_seconds=startup or 0.0,
            run_seconds=wishes.seconds("run-seconds", options.run_seconds),
            exit_codes=wishes.codes("exit-codes", (options.exit_code,)),
            termination_seconds=wishes.seconds("termination-seconds", options.termination_seconds),
        )
        await self._complaints.tell(PODS, pod, wishes, _node_name(pod))
        return plan

    async def judge(self, node: Json) -> None:
        """Tell what is wrong with the annotations of a node."""
        wishes = Wishes(node, _OF_NODES)
        wishes.flag("stopped")
        await self._complaints.tell(NODES, node, wishes, name_of(node))

    def address_of(self, node: Json) -> str:
        """The node's internal address; one is made up for a node that has none."""
        for address in mappings(status_of(node).get("addresses")):
            if address.get("type") == "InternalIP":
                return text(address.get("address"))
        number = len(self._addresses) + 1
        made = f"172.{16 + number // 65536}.{number // 256 % 256}.{number % 256}"
        return self._addresses.setdefault(name_of(node), made)

    def _pod_ip(self, pod: Json, host_ip: str) -> str:
        present = text(status_of(pod).get("podIP"))
        if present:
            return present
        if spec_of(pod).get("hostNetwork"):
            return host_ip
        uid = uid_of(pod)
        number = self._addresses_of_pods.get(uid)
        if number is None:
            self._pod_count += 1
            number = self._addresses_of_pods[uid] = self._pod_count
        return f"10.{number // 65536 % 256}.{number // 256 % 256}.{number % 256}"

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None and _node_name(new):
            self.queue.add(key_of(new))
        elif new is None and old is not None:
            uid = uid_of(old)
            self._runs.pop(uid, None)
            self._noticed.pop(uid, None)
            self._addresses_of_pods.pop(uid, None)
            self._complaints.forget(uid)

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        was = old is not None and not self.is_stopped(old)
        runs = new is not None and not self.is_stopped(new)
        if new is None:
            self._complaints.forget(uid_of(old or {}))
        if runs and not was:
            self._requeue(name_of(new or {}))

    def _requeue(self, node: str) -> None:
        for key, pod in self._pods.objects.items():
            if _node_name(pod) == node:
                self.queue.add(key)
        self.heartbeats.queue.add(node)


class NodeLeases(Controller):
    """Renews the lease of every node but those whose annotation says that it is stopped."""

    name = "kubelet"

    def __init__(self, context: Context, renew_seconds: float = 10.0) -> None:
        super().__init__(context)
        self._renew_seconds = renew_seconds
        self.nodes: Final = self.follow(NODES)
        self._leases = self.informer(LEASES)

    def is_stopped(self, node: Json) -> bool:
        """Whether nobody renews the node's lease."""
        return annotation(node, STOPPED) == "true"

    async def sync(self, key: str) -> None:
        """Renew one lease when it is time. Raises ActorApiError."""
        node = self.nodes.get("", key)
        if node is not None and not self.is_stopped(node):
            self.plan(key, await self.renewed(node))

    def plan(self, key: str, due: float) -> None:
        """Come back at that time."""
        self.queue.add_after(key, max(due - self.clock.now(), 0.001))

    async def renewed(self, node: Json) -> float:
        """Renew a node's lease if it is time; when it is next. Raises ActorApiError."""
        now = self.clock.now()
        lease = await self._lease_of(node, now)
        renewed = _epoch(spec_of(lease).get("renewTime"))
        if now - renewed >= self._renew_seconds:
            await self._renew(lease, now)
            renewed = now
        return renewed + self._renew_seconds

    async def _lease_of(self, node: Json, now: float) -> Json:
        lease = self._leases.get(LEASE_NAMESPACE, name_of(node))
        if lease is not None:
            return lease
        owner = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": name_of(node),
            "uid": uid_of(node),
        }
        metadata: Json = {
            "name": name_of(node),
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [owner],
        }
        spec: Json = {
            "holderIdentity": name_of(node),
            "leaseDurationSeconds": _LEASE_DURATION_SECONDS,
            "renewTime": _micro(now),
        }
        return await self.create(LEASES, {"metadata": metadata, "spec": spec})

    async def _renew(self, lease: Json, now: float) -> None:
        spec = {**spec_of(lease), "renewTime": _micro(now)}
        try:
            await self.update(LEASES, {**lease, "spec": spec})
        except ActorApiError as error:
            if error.code != 404:
                raise
            self.queue.add(name_of(lease))  # deleted just now: the next turn makes a new one


class NodeHeartbeats(NodeLeases):
    """Renews the lease of every node, and sends its status now and then."""

    def __init__(self, context: Context, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        super().__init__(context, kubelet.options.lease_renew_seconds)

    def is_stopped(self, node: Json) -> bool:
        """Whether the node's kubelet does nothing."""
        return self._kubelet.is_stopped(node)

    async def sync(self, key: str) -> None:
        """Renew one lease and send one status, each when it is time. Raises ActorApiError."""
        node = self.nodes.get("", key)
        if node is None:
            return
        await self._kubelet.judge(node)
        if self.is_stopped(node):
            return
        renewal, now = await self.renewed(node), self.clock.now()
        pause = self._kubelet.options.status_report_seconds
        reported = _reported(node, now)
        if now - reported >= pause:
            await self._report(node, now)
            reported = math.floor(now)
        self.plan(key, min(renewal, reported + pause))

    async def _report(self, node: Json, now: float) -> None:
        stamp = times.timestamp(now)
        conditions: object = status_of(node).get("conditions")
        for kind, status, reason, message in _CONDITIONS:
            condition: Json = {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": stamp,
            }
            conditions = with_condition(conditions, condition, stamp)
        patch: Json = {"conditions": conditions}
        if not mappings(status_of(node).get("addresses")):
            patch["addresses"] = [
                {"type": "InternalIP", "address": self._kubelet.address_of(node)},
                {"type": "Hostname", "address": name_of(node)},
            ]
        await self.patch(
            NODES, node, {"status": patch}, subresource="status", content_type=STRATEGIC
        )


_CONDITIONS: Final = (
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def _reported(node: Json, now: float) -> float:
    """When the kubelet last sent the node's status; long ago if others have changed it since."""
    conditions = {one.get("type"): one for one in mappings(status_of(node).get("conditions"))}
    beats = []
    for kind, status, *_ in _CONDITIONS:
        condition = conditions.get(kind, {})
        if condition.get("status") != status:
            return -math.inf
        beats.append(_epoch(condition.get("lastHeartbeatTime")))
    return min(min(beats), now)


def _epoch(stamp: object) -> float:
    return times.epoch_seconds(text(stamp)) if stamp else -math.inf


def _micro(now: float) -> str:
    whole = math.floor(now)
    fraction = int((now - whole) * 1_000_000)
    return f"{times.timestamp(whole)[:-1]}.{fraction:06}Z"


def _merge_patch_of(conditions: list[Json], old: object) -> list[Json]:
    """Return conditions for a strategic patch, with null for fields that are to be removed."""
    before = {one.get("type"): one for one in mappings(old)}
    return [
        {**dict.fromkeys(before.get(one.get("type"), {}).keys() - one.keys()), **one}
        for one in conditions
    ]


def _node_name(pod: Json) -> str:
    return node_of(pod)
