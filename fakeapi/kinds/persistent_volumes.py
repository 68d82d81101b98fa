"""PersistentVolumes and PersistentVolumeClaims."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import storage
from fakeapi.types.kind import Kind

KINDS: Final = (
    Kind(
        "", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short_names=("pv",),
        schema="core/v1.PersistentVolume", subresources=("status",), returns_deleted=True,
        printer=storage.PRINTERS["", "persistentvolumes"],
    ),
    Kind(
        "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",),
        schema="core/v1.PersistentVolumeClaim", subresources=("status",), returns_deleted=True,
        printer=storage.PRINTERS["", "persistentvolumeclaims"],
    ),
)  # fmt: skip
