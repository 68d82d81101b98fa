"""Leases and status of nodes, renewed and reported as their kubelets do.

Source: pkg/kubelet/nodestatus, component-helpers/apimachinery/lease of Kubernetes v1.36.3.
"""

from __future__ import annotations

import math
from typing import Final

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.kubelet_annotations import AnnotationReports, KubeletAnnotations
from fakeapi.actors.objects import (
    annotation,
    condition_of,
    spec_of,
    status_of,
    uid_of,
    with_condition,
)
from fakeapi.actors.resources import LEASES, NODES
from fakeapi.types import times
from fakeapi.types.objects import Json, mapping, mappings, name_of, text

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


class NodeLeases(Controller):
    """Renews the lease of every node that is not stopped by its annotation."""

    name = "kubelet"

    def __init__(self, context: Context, renew_seconds: float = 10.0) -> None:
        super().__init__(context)
        self._renew_seconds = renew_seconds
        self.nodes: Final = self.follow(NODES)
        self._leases = self.informer(LEASES)

    def is_stopped(self, node: Json) -> bool:
        """True if the node's kubelet does nothing."""
        return annotation(node, _STOPPED) == "true"

    async def sync(self, key: str) -> None:
        """Renew one lease when it is time."""
        node = self.nodes.get("", key)
        if node is not None and not self.is_stopped(node):
            self.plan(key, await self.renew(node))

    def plan(self, key: str, due: float) -> None:
        """Queue the node again at a time, in epoch seconds."""
        self.queue.add_after(key, max(due - self.clock.now(), 0.001))

    async def renew(self, node: Json) -> float:
        """Renew a node's lease if it is time; return the time of the next renewal."""
        now = self.clock.now()
        lease = self._leases.get(LEASE_NAMESPACE, name_of(node)) or await self._create(node, now)
        renewed = _epoch(spec_of(lease).get("renewTime"))
        if now - renewed < self._renew_seconds:
            return renewed + self._renew_seconds
        spec = {**spec_of(lease), "renewTime": _micro_time(now)}
        try:
            await self.update(LEASES, {**lease, "spec": spec})
        except ActorApiError as error:
            if error.code != 404:
                raise
            self.queue.add(name_of(node))  # deleted meanwhile: create it
        return now + self._renew_seconds

    async def _create(self, node: Json, now: float) -> Json:
        name = name_of(node)
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid_of(node)}
        spec: Json = {
            "holderIdentity": name,
            "leaseDurationSeconds": _LEASE_DURATION_SECONDS,
            "renewTime": _micro_time(now),
        }
        metadata: Json = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
        return await self.create(LEASES, {"metadata": metadata, "spec": spec})


class NodeHeartbeats(NodeLeases):
    """Renews leases and reports the status of nodes: conditions, addresses, allocatable.

    A resource whose capacity alone was changed gets the same amount as allocatable.
    """

    def __init__(
        self, context: Context, *, lease_renew_seconds: float, status_report_seconds: float
    ) -> None:
        super().__init__(context, lease_renew_seconds)
        self._report_seconds = status_report_seconds
        self._annotation_reports = AnnotationReports(context)
        self._stopped: set[str] = set()
        self._addresses: dict[str, str] = {}
        self._uncopied: dict[str, set[str]] = {}  # resources with a new capacity, by node
        self.nodes.subscribe(self._node_changed)

    def stop(self, node: str) -> None:
        """Stop the node's kubelet."""
        self._stopped.add(node)

    def start_again(self, node: str) -> None:
        """Start the node's kubelet again."""
        self._stopped.discard(node)
        self.queue.add(node)

    def is_stopped(self, node: Json) -> bool:
        return name_of(node) in self._stopped or super().is_stopped(node)

    def address_of(self, node: Json) -> str:
        """Return the node's internal address, a generated one if it has none."""
        for address in mappings(status_of(node).get("addresses")):
            if address.get("type") == "InternalIP":
                return text(address.get("address"))
        number = len(self._addresses) + 1
        made = f"172.{16 + number // 65536}.{number // 256 % 256}.{number % 256}"
        return self._addresses.setdefault(name_of(node), made)

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
        renewal, now = await self.renew(node), self.clock.now()
        reported = _reported(node, now)
        if now - reported >= self._report_seconds:
            await self._report(node, now)
            reported = math.floor(now)
        self.plan(key, min(renewal, reported + self._report_seconds))

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
                {"type": "InternalIP", "address": self.address_of(node)},
                {"type": "Hostname", "address": name_of(node)},
            ]
        await self.patch_status(NODES, node, patch)

    async def _copy_capacity(self, node: Json) -> None:
        """Copy new amounts of the capacity to allocatable."""
        capacity = mapping(status_of(node).get("capacity"))
        allocatable = mapping(status_of(node).get("allocatable"))
        uncopied = self._uncopied.pop(name_of(node), set())
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
            self._uncopied.setdefault(name_of(node), set()).update(uncopied)
            raise

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            self._annotation_reports.forget(uid_of(old or {}))
            self._uncopied.pop(name_of(old or {}), None)
        elif old is not None:
            had, has = (mapping(status_of(node).get("capacity")) for node in (old, new))
            could, can = (mapping(status_of(node).get("allocatable")) for node in (old, new))
            changed = {name for name in had.keys() | has.keys() if had.get(name) != has.get(name)}
            changed = {name for name in changed if could.get(name) == can.get(name)}
            self._uncopied.setdefault(name_of(new), set()).update(changed)


def _reported(node: Json, now: float) -> float:
    """Return the time of the last report, -inf if the conditions have changed since then."""
    beats = []
    for kind, status, *_ in _CONDITIONS:
        condition = condition_of(node, kind)
        if condition.get("status") != status:
            return -math.inf
        beats.append(_epoch(condition.get("lastHeartbeatTime")))
    return min(*beats, now)


def _epoch(stamp: object) -> float:
    return times.epoch_seconds(text(stamp)) if stamp else -math.inf


def _micro_time(now: float) -> str:
    """Return the time as a metav1.MicroTime."""
    whole = math.floor(now)
    fraction = int((now - whole) * 1_000_000)
    return f"{times.timestamp(whole)[:-1]}.{fraction:06}Z"
