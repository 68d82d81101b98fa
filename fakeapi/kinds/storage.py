"""Storage classes, and what CSI drivers report."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import storage
from fakeapi.types.kind import Generation, Kind

KINDS: Final = (
    Kind(
        "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False,
        schema="storage/v1.StorageClass", short_names=("sc",), returns_deleted=True,
        printer=storage.PRINTERS["storage.k8s.io", "storageclasses"],
    ),
    Kind(
        "storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False,
        schema="storage/v1.CSINode", unconditional_update=False, returns_deleted=True,
        printer=storage.PRINTERS["storage.k8s.io", "csinodes"],
    ),
    Kind(
        "storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False,
        schema="storage/v1.CSIDriver", unconditional_update=False, returns_deleted=True,
        generation=Generation.SPEC_LATER,
        printer=storage.PRINTERS["storage.k8s.io", "csidrivers"],
    ),
    Kind(
        "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity",
        schema="storage/v1.CSIStorageCapacity", unconditional_update=False,
        printer=storage.PRINTERS["storage.k8s.io", "csistoragecapacities"],
    ),
    Kind(
        "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False,
        schema="storage/v1.VolumeAttachment", subresources=("status",), unconditional_update=False,
        returns_deleted=True,
        printer=storage.PRINTERS["storage.k8s.io", "volumeattachments"],
    ),
    Kind(
        "storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass",
        namespaced=False, schema="storage/v1.VolumeAttributesClass", short_names=("vac",),
        returns_deleted=True,
        printer=storage.PRINTERS["storage.k8s.io", "volumeattributesclasses"],
    ),
)  # fmt: skip
