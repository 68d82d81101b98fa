"""Leases and status of nodes, renewed and reported as their kubelets do.

Source: pkg/kubelet/nodestatus, component-helpers/apimachinery/lease of Kubernetes v1.36.3.
"""

from __future__ import annotations

import math
from typing import Final

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.kubelet_annotations import AnnotationReports, KubeletAnnotations
from fakeapi.actors.objects import NOTHING, Object, condition, with_condition
from fakeapi.actors.resources import LEASES, NODES
from fakeapi.types import times
from fakeapi.types.objects import Json, mapping, mappings, text

LEASE_NAMESPACE: Final = "kube-node-lease"
_STOPPED: Final = "fakeapi.kubesched.io/stopped"
_LEASE_DURATION_SECONDS: Final = 40
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


class NodeHeartbeats(Controller):
    """Renews leases and reports the status of nodes: conditions, addresses, allocatable.

    A resource whose capacity alone was changed gets the same amount as allocatable.
    """

    name = "kubelet"

    def __init__(
        self, context: Context, *, lease_renew_seconds: float, status_report_seconds: float
    ) -> None:
        super().__init__(context)
        self._renew_seconds = lease_renew_seconds
        self._report_seconds = status_report_seconds
        self._annotation_reports = AnnotationReports(context)
        self._stopped: set[str] = set()
        self._addresses: dict[str, str] = {}
        self._uncopied: dict[str, set[str]] = {}  # resources with a new capacity, by node
        self.nodes: Final = self.follow(NODES)
        self._leases = self.informer(LEASES)
        self.nodes.subscribe(self._node_changed)

    def stop(self, node: str) -> None:
        """Stop the node's kubelet."""
        self._stopped.add(node)

    def start_again(self, node: str) -> None:
        """Start the node's kubelet again."""
        self._stopped.discard(node)
        self.queue.add(node)

    def is_stopped(self, node: Object) -> bool:
        """True if the node's kubelet does nothing."""
        return node.name in self._stopped or node.annotation(_STOPPED) == "true"

    def address_of(self, node: Object) -> str:
        """Return the node's internal address, a generated one if it has none."""
        for address in mappings(node.status.get("addresses")):
            if address.get("type") == "InternalIP":
                return text(address.get("address"))
        number = len(self._addresses) + 1
        made = f"172.{16 + number // 65536}.{number // 256 % 256}.{number % 256}"
        return self._addresses.setdefault(node.name, made)

    async def sync(self, key: str) -> None:
        """Renew the lease and report the status of one node, each when it is time."""
        node = self.nodes.get("", key)
        if node is None:
            return
        annotations = KubeletAnnotations(node, ("stopped",))
        annotations.flag("stopped")
        await self._annotation_reports.report(NODES, node, annotations, key)
        if self.is_stopped(node):
            return
        await self._copy_capacity(node)
        renewal, now = await self._renew(node), self.clock.now()
        reported = _reported(node, now)
        if now - reported >= self._report_seconds:
            await self._report(node, now)
            reported = math.floor(now)
        due = min(renewal, reported + self._report_seconds)
        self.queue.add_after(key, max(due - self.clock.now(), 0.001))

    async def _renew(self, node: Object) -> float:
        """Renew a node's lease if it is time; return the time of the next renewal."""
        now = self.clock.now()
        lease = self._leases.get(LEASE_NAMESPACE, node.name) or await self._create(node, now)
        renewed = _epoch(lease.spec.get("renewTime"))
        if now - renewed < self._renew_seconds:
            return renewed + self._renew_seconds
        spec = {**lease.spec, "renewTime": times.micro_timestamp(now)}
        try:
            await self.update(LEASES, {**lease, "spec": spec})
        except ActorApiError as error:
            if error.code != 404:
                raise
            self.queue.add(node.name)  # deleted meanwhile: create it
        return now + self._renew_seconds

    async def _create(self, node: Object, now: float) -> Object:
        name = node.name
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid}
        spec: Json = {
            "holderIdentity": name,
            "leaseDurationSeconds": _LEASE_DURATION_SECONDS,
            "renewTime": times.micro_timestamp(now),
        }
        metadata: Json = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
        return await self.create(LEASES, {"metadata": metadata, "spec": spec})

    async def _report(self, node: Object, now: float) -> None:
        stamp = times.timestamp(now)
        conditions: object = node.status.get("conditions")
        for kind, status, reason, message in _CONDITIONS:
            new = condition(kind, status, reason, message, lastHeartbeatTime=stamp)
            conditions = with_condition(conditions, new, stamp)
        patch: Json = {"conditions": conditions}
        if not mappings(node.status.get("addresses")):
            patch["addresses"] = [
                {"type": "InternalIP", "address": self.address_of(node)},
                {"type": "Hostname", "address": node.name},
            ]
        await self.patch_status(NODES, node, patch)

    async def _copy_capacity(self, node: Object) -> None:
        """Copy new amounts of the capacity to allocatable."""
        capacity = mapping(node.status.get("capacity"))
        allocatable = mapping(node.status.get("allocatable"))
        uncopied = self._uncopied.pop(node.name, set())
        names = uncopied | (capacity.keys() - allocatable.keys())
        changes: Json = {
            name: capacity.get(name)
            for name in sorted(names)
            if capacity.get(name) != allocatable.get(name)
        }
        if not changes:
            return
        try:
            await self.patch_status(NODES, node, {"allocatable": changes})
        except ActorApiError:
            self._uncopied.setdefault(node.name, set()).update(uncopied)
            raise

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._annotation_reports.forget((old or NOTHING).uid)
            self._uncopied.pop((old or NOTHING).name, None)
        elif old is not None:
            had, has = (mapping(node.status.get("capacity")) for node in (old, new))
            could, can = (mapping(node.status.get("allocatable")) for node in (old, new))
            changed = {name for name in had.keys() | has.keys() if had.get(name) != has.get(name)}
            changed = {name for name in changed if could.get(name) == can.get(name)}
            self._uncopied.setdefault(new.name, set()).update(changed)


def _reported(node: Object, now: float) -> float:
    """Return the time of the last report, -inf if the conditions have changed since then."""
    beats = []
    for kind, status, *_ in _CONDITIONS:
        present = node.condition(kind)
        if present.get("status") != status:
            return -math.inf
        beats.append(_epoch(present.get("lastHeartbeatTime")))
    return min(*beats, now)


def _epoch(stamp: object) -> float:
    return times.epoch_seconds(text(stamp)) if stamp else -math.inf
