"""Volumes, claims, classes and drivers, as far as the scheduler reads them.

Volumes of in-tree plugins are handled by CSI drivers today (see `csi_migration`).

Source: `k8s.io/api/core/v1/types.go`, `k8s.io/api/storage/v1/types.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from scheduler.api.core import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    CinderVolumeSource,
    GCEPersistentDiskVolumeSource,
    LabelSelector,
    NodeSelector,
    ObjectMeta,
    ObjectReference,
    PortworxVolumeSource,
    Quantities,
    ResourceRequirements,
    Struct,
    VsphereVirtualDiskVolumeSource,
)

#: The volume binding mode that waits for a pod.
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_NO_QUANTITIES: Final[Quantities] = MappingProxyType({})


class CSIPersistentVolumeSource(Struct, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""
    volume_attributes: Mapping[str, str] = _NONE


class AzureFile(Struct, frozen=True):
    """An Azure file share (in-tree)."""

    secret_name: str = ""
    secret_namespace: str | None = None
    share_name: str = ""


class VolumeNodeAffinity(Struct, frozen=True):
    """The nodes that can access a volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct, frozen=True):
    """The specification of a volume; `claim_ref` is the claim it is bound to."""

    capacity: Quantities = _NO_QUANTITIES
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = msgspec.field(
        name="gcePersistentDisk", default=None
    )
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = msgspec.field(
        name="awsElasticBlockStore", default=None
    )
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFile | None = None
    cinder: CinderVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None


class PersistentVolumeStatus(Struct, frozen=True):
    """The status of a volume."""

    phase: str = ""


class PersistentVolume(Struct, frozen=True):
    """`v1.PersistentVolume`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimSpec(Struct, frozen=True):
    """The specification of a claim; `volume_name` is the volume it is bound to."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Struct, frozen=True):
    """The status of a claim."""

    phase: str = ""


class PersistentVolumeClaim(Struct, frozen=True):
    """`v1.PersistentVolumeClaim`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class TopologySelectorLabelRequirement(Struct, frozen=True):
    """A label with one of these values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct, frozen=True):
    """All of the expressions must match."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Struct, frozen=True):
    """`storage/v1.StorageClass`."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    parameters: Mapping[str, str] = _NONE
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Struct, frozen=True):
    """The volume limit of a driver on a node; None is no limit."""

    count: int | None = None


class CSINodeDriver(Struct, frozen=True):
    """A CSI driver on a node."""

    name: str = ""
    node_id: str = msgspec.field(name="nodeID", default="")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Struct, frozen=True):
    """The CSI drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Struct, frozen=True):
    """`storage/v1.CSINode`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Struct, frozen=True):
    """The properties of a CSI driver."""

    storage_capacity: bool | None = None
    attach_required: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Struct, frozen=True):
    """`storage/v1.CSIDriver`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Struct, frozen=True):
    """`storage/v1.CSIStorageCapacity`: the free capacity of a class in a part of the cluster."""

    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class VolumeAttachmentSource(Struct, frozen=True):
    """The attached volume: a persistent volume, or an inline volume of a pod."""

    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    """The attacher, the node and the volume."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(Struct, frozen=True):
    """The status of an attachment."""

    attached: bool = False


class VolumeAttachment(Struct, frozen=True):
    """`storage/v1.VolumeAttachment`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
