"""PersistentVolumes and PersistentVolumeClaims."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import (
    AGE,
    NAME,
    UNSET,
    Column,
    find,
    find_text,
    or_else,
    or_if_empty,
    wide,
)
from fakeapi.types.kind import Kind
from fakeapi.types.objects import Json, is_deleting, mapping, metadata_of, text, texts

STORAGE_CLASSES: Final = ("storage.k8s.io", "storageclasses")
#: The annotation that preceded the field `storageClassName`, and still overrides it.
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def claim_class(obj: Json) -> str:
    """Return the storage class of a claim or volume, empty if it has none.

    Source: GetPersistentVolumeClaimClass in component-helpers storage/volume/helpers.go of v0.36.3.
    """
    annotated = mapping(metadata_of(obj).get("annotations")).get(CLASS_ANNOTATION)
    return find_text(obj, ".spec.storageClassName") if annotated is None else text(annotated)


def _modes(modes: object) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in texts(modes))


def _phase(obj: Json, _now_seconds: float) -> str:
    return "Terminating" if is_deleting(obj) else find_text(obj, ".status.phase")


def _claim_name(reference: object) -> str:
    claim = mapping(reference)
    return f"{text(claim.get('namespace'))}/{text(claim.get('name'))}" if claim else ""


def _claim_capacity(claim: Json, _now_seconds: float) -> str:
    if not find_text(claim, ".spec.volumeName"):
        return ""
    return find_text(claim, ".status.capacity.storage") or "0"


def _claim_modes(claim: Json, _now_seconds: float) -> str:
    bound = find_text(claim, ".spec.volumeName")
    return _modes(find(claim, ".status.accessModes")) if bound else ""


_CLASSES: Final = (
    Column("StorageClass", lambda obj, _now_seconds: claim_class(obj)),
    Column("VolumeAttributesClass", ".spec.volumeAttributesClassName", or_else(UNSET)),
)
_VOLUME_MODE: Final = wide("VolumeMode", ".spec.volumeMode", or_else(UNSET))

KINDS: Final = (
    Kind(
        "", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short_names=("pv",),
        schema="core/v1.PersistentVolume", subresources=("status",), returns_deleted=True,
        columns=(
            NAME, Column("Capacity", ".spec.capacity.storage", or_if_empty("0")),
            Column("Access Modes", ".spec.accessModes", _modes),
            Column("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy"),
            Column("Status", _phase), Column("Claim", ".spec.claimRef", _claim_name), *_CLASSES,
            Column("Reason", ".status.reason"), AGE, _VOLUME_MODE,
        ),
    ),
    Kind(
        "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",),
        schema="core/v1.PersistentVolumeClaim", subresources=("status",), returns_deleted=True,
        columns=(
            NAME, Column("Status", _phase), Column("Volume", ".spec.volumeName"),
            Column("Capacity", _claim_capacity), Column("Access Modes", _claim_modes), *_CLASSES,
            AGE, _VOLUME_MODE,
        ),
    ),
)  # fmt: skip
