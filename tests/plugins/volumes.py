"""Volumes, claims and classes for tests of volume plugins, and their listers."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.api.core import (
    LabelSelector,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Pod,
    ResourceRequirements,
)
from scheduler.api.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    TopologySelectorTerm,
    VolumeNodeAffinity,
)
from scheduler.client import ApiObject, Conflict, Store
from scheduler.client.kinds import KINDS
from scheduler.config import DEFAULT_SCHEDULER_VERSION, SchedulerVersion
from scheduler.framework import Plugin
from scheduler.runtime.registry import Registry
from scheduler.snapshot import Snapshot
from scheduler.testing import FakeHandle, make_pod

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

V = TypeVar("V", PersistentVolume, PersistentVolumeClaim)

_PLURALS = {resource.type: plural for plural, resource in KINDS.items()}


class ClusterObjects:
    """The objects in the informers' stores; tests change them. `listers` is for `FakeHandle`."""

    def __init__(self, *objects: ApiObject) -> None:
        self.listers: dict[str, Store[Any]] = {plural: Store() for plural in KINDS}
        self.put(*objects)

    def put(self, *objects: ApiObject) -> None:
        """Add or replace objects."""
        for obj in objects:
            self.listers[_PLURALS[type(obj)]].put(obj)

    def remove(self, obj: ApiObject) -> None:
        """Remove an object."""
        metadata = obj.metadata
        key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        self.listers[_PLURALS[type(obj)]].remove(key)


class VolumeApi(FakeHandle):
    """A handle whose writes go to an API server that refuses outdated objects.

    `server` has the current objects, `known` those of the informers, which get each write at once
    unless `silent`.
    """

    def __init__(self, server: ClusterObjects, known: ClusterObjects) -> None:
        super().__init__(listers=known.listers)
        self.api = self
        self.server = server
        self.known = known
        self.silent = False
        self.on_write: Callable[[], None] = lambda: None

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Write a volume; raises Conflict."""
        return self._update(volume)

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        """Write a claim; raises Conflict."""
        return self._update(claim)

    def _update(self, obj: V) -> V:
        plural, metadata = _PLURALS[type(obj)], obj.metadata
        stored = self.server.listers[plural].get(metadata.name, metadata.namespace)
        assert stored is not None
        if stored.metadata.resource_version != metadata.resource_version:
            raise Conflict(409, "Conflict", "the object has been modified")
        version = str(int(metadata.resource_version) + 1)
        updated = replace(obj, metadata=replace(metadata, resource_version=version))
        self.server.put(updated)
        if not self.silent:
            self.known.put(updated)
        self.on_write()
        return updated


def handle_with(
    objects: ClusterObjects,
    *,
    snapshot: Snapshot | None = None,
    feature_gates: frozenset[str] | None = None,
    version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION,
) -> FakeHandle:
    """The handle of a plugin that lists these objects."""
    return FakeHandle(
        snapshot, listers=objects.listers, feature_gates=feature_gates, version=version
    )


def plugin_with(
    plugin_class: type[Plugin], handle: FakeHandle, args: Mapping[str, object] | None = None
) -> Any:
    """Return a plugin built as for a profile; `args` in the form of a configuration file."""
    return Registry([plugin_class]).create(plugin_class.name, dict(args) if args else None, handle)


def make_claim(
    name: str = "claim",
    *,
    storage_class: str | None = "wait",
    size: str | None = "1Gi",
    volume_name: str = "",
    bound: bool | None = None,
    selected_node: str | None = None,
    phase: str = "",
    deleted: bool = False,
    version: str = "1",
    uid: str | None = None,
    owner: Pod | None = None,
    selector: Mapping[str, object] | None = None,
    access_modes: tuple[str, ...] = ("ReadWriteOnce",),
    annotations: Mapping[str, str] | None = None,
) -> PersistentVolumeClaim:
    """Return a claim in the namespace `default`; with a volume it is fully bound by default."""
    notes = dict(annotations or {})
    if bool(volume_name) if bound is None else bound:
        notes["pv.kubernetes.io/bind-completed"] = "yes"
    if selected_node is not None:
        notes["volume.kubernetes.io/selected-node"] = selected_node
    owners = [OwnerReference(uid=owner.metadata.uid, controller=True)] if owner else []
    metadata = ObjectMeta(
        name=name,
        namespace="default",
        uid=f"uid-{name}" if uid is None else uid,
        resource_version=version,
        annotations=notes,
        owner_references=tuple(owners),
    )
    if deleted:
        metadata = msgspec.convert(
            {**msgspec.to_builtins(metadata), "deletionTimestamp": "2026-01-01T00:00:00Z"},
            ObjectMeta,
        )
    spec = PersistentVolumeClaimSpec(
        access_modes=access_modes,
        storage_class_name=storage_class,
        volume_name=volume_name,
        resources=ResourceRequirements(requests={"storage": size} if size else {}),
        selector=msgspec.convert(selector, LabelSelector) if selector is not None else None,
    )
    return PersistentVolumeClaim(metadata, spec, PersistentVolumeClaimStatus(phase))


def make_volume(
    name: str = "volume",
    *,
    storage_class: str = "wait",
    size: str = "1Gi",
    node: str | None = None,
    claim: PersistentVolumeClaim | None = None,
    phase: str = "Available",
    version: str = "1",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    access_modes: tuple[str, ...] = ("ReadWriteOnce",),
    source: Mapping[str, object] | None = None,
) -> PersistentVolume:
    """A volume; with `node` it is a disk of that node, with `claim` it is kept for that claim."""
    reference = None
    if claim is not None:
        metadata = claim.metadata
        reference = ObjectReference(
            name=metadata.name, namespace=metadata.namespace, uid=metadata.uid
        )
    spec = PersistentVolumeSpec(
        capacity={"storage": size},
        access_modes=access_modes,
        storage_class_name=storage_class,
        claim_ref=reference,
        node_affinity=None if node is None else within_reach_of({HOSTNAME: (node,)}),
    )
    if source:
        spec = msgspec.convert({**msgspec.to_builtins(spec), **source}, PersistentVolumeSpec)
    metadata = ObjectMeta(
        name=name,
        uid=f"uid-{name}",
        resource_version=version,
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
    )
    return PersistentVolume(metadata, spec, PersistentVolumeStatus(phase))


def within_reach_of(labels: Mapping[str, tuple[str, ...]]) -> VolumeNodeAffinity:
    """Nodes that have one of the values of every label."""
    expressions = tuple(NodeSelectorRequirement(k, "In", v) for k, v in labels.items())
    return VolumeNodeAffinity(NodeSelector((NodeSelectorTerm(expressions),)))


def make_class(
    name: str = "wait",
    *,
    mode: str | None = "WaitForFirstConsumer",
    provisioner: str = "kubernetes.io/no-provisioner",
    topologies: tuple[Mapping[str, tuple[str, ...]], ...] = (),
) -> StorageClass:
    """Return a storage class; without a provisioner, volumes are not created for it."""
    terms = [
        {"matchLabelExpressions": [{"key": k, "values": v} for k, v in term.items()]}
        for term in topologies
    ]
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=provisioner,
        volume_binding_mode=mode,
        allowed_topologies=msgspec.convert(terms, tuple[TopologySelectorTerm, ...]),
    )


def make_driver(name: str, *, counts_storage: bool | None = True) -> CSIDriver:
    """Return a driver that publishes its storage capacity, or does not."""
    return CSIDriver(ObjectMeta(name=name), CSIDriverSpec(storage_capacity=counts_storage))


def make_pool(
    name: str,
    *,
    storage_class: str = "wait",
    capacity: str | None = "1Gi",
    largest: str | None = None,
    nodes: Mapping[str, object] | None = None,
) -> CSIStorageCapacity:
    """Return the capacity left for a class on nodes with some labels, by default on all nodes."""
    return CSIStorageCapacity(
        metadata=ObjectMeta(name=name, namespace="default"),
        storage_class_name=storage_class,
        capacity=capacity,
        maximum_volume_size=largest,
        node_topology=msgspec.convert(nodes if nodes is not None else {}, LabelSelector),
    )


def make_csi_node(name: str, *, migrated: str = "") -> CSINode:
    """Return a node's CSI drivers, and the in-tree plugins migrated to them."""
    annotation = "storage.alpha.kubernetes.io/migrated-plugins"
    notes = {annotation: migrated} if migrated else {}
    return CSINode(ObjectMeta(name=name, annotations=notes))


def pod_with_claims(*names: str, ephemeral: tuple[str, ...] = (), name: str = "pod") -> Pod:
    """A pod that uses these claims, and has these ephemeral volumes."""
    return make_pod(
        name,
        volumes=[
            *(
                {"name": f"v{i}", "persistentVolumeClaim": {"claimName": n}}
                for i, n in enumerate(names)
            ),
            *({"name": volume, "ephemeral": {}} for volume in ephemeral),
        ],
    )
