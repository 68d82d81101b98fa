"""Volumes, claims, classes and drivers, as far as the scheduler reads them.

Source: `k8s.io/api/core/v1/types.go`, `k8s.io/api/storage/v1/types.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from scheduler.api.core import (
    LabelSelector,
    NodeSelector,
    ObjectMeta,
    ObjectReference,
    Quantities,
    ResourceRequirements,
    Struct,
)

#: Volume binding modes.
IMMEDIATE: Final = "Immediate"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_NO_QUANTITIES: Final[Quantities] = MappingProxyType({})


class CSIPersistentVolumeSource(Struct, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""
    volume_attributes: Mapping[str, str] = _NONE


class GCEPersistentDisk(Struct, frozen=True):
    """A volume of the in-tree plugin, handled by a CSI driver today."""

    pd_name: str = ""
    partition: int = 0


class AWSElasticBlockStore(Struct, frozen=True):
    """Likewise."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    partition: int = 0


class AzureDisk(Struct, frozen=True):
    """Likewise."""

    disk_name: str = ""
    disk_uri: str = msgspec.field(name="diskURI", default="")
    kind: str | None = None


class AzureFile(Struct, frozen=True):
    """Likewise."""

    secret_name: str = ""
    secret_namespace: str | None = None
    share_name: str = ""


class CinderVolume(Struct, frozen=True):
    """Likewise."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class VsphereVolume(Struct, frozen=True):
    """Likewise."""

    volume_path: str = ""


class PortworxVolume(Struct, frozen=True):
    """Likewise."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class VolumeNodeAffinity(Struct, frozen=True):
    """From which nodes a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct, frozen=True):
    """What a volume is, and whose."""

    capacity: Quantities = _NO_QUANTITIES
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = msgspec.field(
        name="gcePersistentDisk", default=None
    )
    aws_elastic_block_store: AWSElasticBlockStore | None = msgspec.field(
        name="awsElasticBlockStore", default=None
    )
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: CinderVolume | None = None
    vsphere_volume: VsphereVolume | None = None
    portworx_volume: PortworxVolume | None = None


class PersistentVolumeStatus(Struct, frozen=True):
    """Where a volume is in its life."""

    phase: str = ""


class PersistentVolume(Struct, frozen=True):
    """`v1.PersistentVolume`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimSpec(Struct, frozen=True):
    """What is asked for, and the volume that was found."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Struct, frozen=True):
    """Where a claim is in its life."""

    phase: str = ""


class PersistentVolumeClaim(Struct, frozen=True):
    """`v1.PersistentVolumeClaim`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class TopologySelectorLabelRequirement(Struct, frozen=True):
    """One of these values of a label."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct, frozen=True):
    """All of these."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Struct, frozen=True):
    """`storage/v1.StorageClass`."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    parameters: Mapping[str, str] = _NONE
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Struct, frozen=True):
    """How many volumes of a driver a node takes; None is no limit."""

    count: int | None = None


class CSINodeDriver(Struct, frozen=True):
    """A driver on a node."""

    name: str = ""
    node_id: str = msgspec.field(name="nodeID", default="")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Struct, frozen=True):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Struct, frozen=True):
    """`storage/v1.CSINode`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Struct, frozen=True):
    """What a driver can do."""

    storage_capacity: bool | None = None
    attach_required: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Struct, frozen=True):
    """`storage/v1.CSIDriver`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Struct, frozen=True):
    """`storage/v1.CSIStorageCapacity`: what a class has left in a part of the cluster."""

    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class VolumeAttachmentSource(Struct, frozen=True):
    """What is attached: a volume by name, or one spelled out in a pod."""

    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    """By whom, what, and where to."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(Struct, frozen=True):
    """Whether it is done."""

    attached: bool = False


class VolumeAttachment(Struct, frozen=True):
    """`storage/v1.VolumeAttachment`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
