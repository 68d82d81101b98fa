"""Storage classes, and what CSI drivers report."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, NONE, UNSET, Column, flag, or_else, size
from fakeapi.types.kind import Generation, Kind
from fakeapi.types.objects import Json, mapping, mappings, metadata_of, name_of, text, texts

_DEFAULT_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _class_name(storage_class: Json, _now_seconds: float) -> str:
    annotations = mapping(metadata_of(storage_class).get("annotations"))
    is_default = any(annotations.get(name) == "true" for name in _DEFAULT_ANNOTATIONS)
    return name_of(storage_class) + (" (default)" if is_default else "")


def _audiences(requests: object) -> str:
    if requests is None:
        return UNSET
    return ",".join(text(request.get("audience")) for request in mappings(requests))


KINDS: Final = (
    Kind(
        "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False,
        schema="storage/v1.StorageClass", short_names=("sc",), returns_deleted=True,
        columns=(
            Column("Name", _class_name, format="name"), Column("Provisioner", ".provisioner"),
            Column("ReclaimPolicy", ".reclaimPolicy", or_else("Delete")),
            Column("VolumeBindingMode", ".volumeBindingMode", or_else("Immediate")),
            Column("AllowVolumeExpansion", ".allowVolumeExpansion", flag), AGE,
        ),
    ),
    Kind(
        "storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False,
        schema="storage/v1.CSINode", unconditional_update=False, returns_deleted=True,
        columns=(NAME, Column("Drivers", ".spec.drivers", size, type="integer"), AGE),
    ),
    Kind(
        "storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False,
        schema="storage/v1.CSIDriver", unconditional_update=False, returns_deleted=True,
        generation=Generation.SPEC_LATER,
        columns=(
            NAME,
            Column("AttachRequired", ".spec.attachRequired", lambda v: v is not False, "boolean"),
            Column("PodInfoOnMount", ".spec.podInfoOnMount", type="boolean"),
            Column("StorageCapacity", ".spec.storageCapacity", type="boolean"),
            Column("TokenRequests", ".spec.tokenRequests", _audiences),
            Column("RequiresRepublish", ".spec.requiresRepublish", type="boolean"),
            Column("Modes", ".spec.volumeLifecycleModes", lambda v: ",".join(texts(v)) or NONE),
            AGE,
        ),
    ),
    Kind(
        "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity",
        schema="storage/v1.CSIStorageCapacity", unconditional_update=False,
        columns=(
            NAME, Column("StorageClassName", ".storageClassName"),
            Column("Capacity", ".capacity", or_else(UNSET)),
        ),
    ),
    Kind(
        "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False,
        schema="storage/v1.VolumeAttachment", subresources=("status",), unconditional_update=False,
        returns_deleted=True,
        columns=(
            NAME, Column("Attacher", ".spec.attacher", format="name"),
            Column("PV", ".spec.source.persistentVolumeName"), Column("Node", ".spec.nodeName"),
            Column("Attached", ".status.attached", type="boolean"), AGE,
        ),
    ),
    Kind(
        "storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass",
        namespaced=False, schema="storage/v1.VolumeAttributesClass", short_names=("vac",),
        returns_deleted=True,
        columns=(NAME, Column("DriverName", ".driverName"), AGE),
    ),
)  # fmt: skip
