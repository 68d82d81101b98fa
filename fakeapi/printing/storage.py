"""Rows of volumes, storage classes and devices.

Source: pkg/printers/internalversion/printers.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.printing.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    age_of,
    integers,
    length_at,
    mappings_at,
    name_and_age,
    text_at,
    texts_at,
    texts_columns,
    value_at,
    wide,
)
from fakeapi.types.objects import is_deleting, mapping, metadata_of, name_of, text
from fakeapi.types.printer import Column, Printer

if TYPE_CHECKING:
    from fakeapi.types.objects import Json

_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _annotations(obj: Json) -> Json:
    return mapping(metadata_of(obj).get("annotations"))


def _modes(modes: list[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _phase(obj: Json) -> str:
    return "Terminating" if is_deleting(obj) else text_at(obj, "status", "phase")


def _class(obj: Json) -> str:
    annotated = _annotations(obj).get(_CLASS_ANNOTATION)
    return text_at(obj, "spec", "storageClassName") if annotated is None else text(annotated)


def _or_unset(obj: Json, name: str) -> str:
    value = value_at(obj, "spec", name)
    return UNSET if value is None else text(value)


def _volume(obj: Json, now: float) -> list[object]:
    claim = value_at(obj, "spec", "claimRef")
    owner = mapping(claim)
    return [
        name_of(obj),
        text_at(obj, "spec", "capacity", "storage") or "0",
        _modes(texts_at(obj, "spec", "accessModes")),
        text_at(obj, "spec", "persistentVolumeReclaimPolicy"),
        _phase(obj),
        f"{text(owner.get('namespace'))}/{text(owner.get('name'))}" if owner else "",
        _class(obj),
        _or_unset(obj, "volumeAttributesClassName"),
        text_at(obj, "status", "reason"),
        age_of(obj, now),
        _or_unset(obj, "volumeMode"),
    ]


def _claim(obj: Json, now: float) -> list[object]:
    volume = text_at(obj, "spec", "volumeName")
    capacity = text_at(obj, "status", "capacity", "storage") or "0"
    return [
        name_of(obj),
        _phase(obj),
        volume,
        capacity if volume else "",
        _modes(texts_at(obj, "status", "accessModes")) if volume else "",
        _class(obj),
        _or_unset(obj, "volumeAttributesClassName"),
        age_of(obj, now),
        _or_unset(obj, "volumeMode"),
    ]


def _storage_class(obj: Json, now: float) -> list[object]:
    annotations = _annotations(obj)
    is_default = any(annotations.get(name) == "true" for name in _DEFAULT_ANNOTATIONS)
    return [
        name_of(obj) + (" (default)" if is_default else ""),
        text(obj.get("provisioner")),
        text(obj.get("reclaimPolicy", "Delete")),
        text(obj.get("volumeBindingMode", "Immediate")),
        obj.get("allowVolumeExpansion") is True,
        age_of(obj, now),
    ]


def _attributes_class(obj: Json, now: float) -> list[object]:
    return [name_of(obj), text(obj.get("driverName")), age_of(obj, now)]


def _csi_node(obj: Json, now: float) -> list[object]:
    return [name_of(obj), length_at(obj, "spec", "drivers"), age_of(obj, now)]


def _csi_driver(obj: Json, now: float) -> list[object]:
    spec = mapping(obj.get("spec"))
    audiences = [text(request.get("audience")) for request in mappings_at(spec, "tokenRequests")]
    return [
        name_of(obj),
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        ",".join(audiences) if "tokenRequests" in spec else UNSET,
        spec.get("requiresRepublish", False),
        ",".join(texts_at(spec, "volumeLifecycleModes")) or NONE,
        age_of(obj, now),
    ]


def _capacity(obj: Json, now: float) -> list[object]:
    return [name_of(obj), text(obj.get("storageClassName")), text(obj.get("capacity")) or UNSET]


def _attachment(obj: Json, now: float) -> list[object]:
    return [
        name_of(obj),
        text_at(obj, "spec", "attacher"),
        text_at(obj, "spec", "source", "persistentVolumeName"),
        text_at(obj, "spec", "nodeName"),
        value_at(obj, "status", "attached") is True,
        age_of(obj, now),
    ]


def _resource_claim(obj: Json, now: float) -> list[object]:
    states = ["deleted"] if is_deleting(obj) else []
    if value_at(obj, "status", "allocation") is not None:
        states.append("allocated")
        if length_at(obj, "status", "reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return [name_of(obj), ",".join(states), age_of(obj, now)]


def _resource_slice(obj: Json, now: float) -> list[object]:
    return [
        name_of(obj),
        text_at(obj, "spec", "nodeName"),
        text_at(obj, "spec", "driver"),
        text_at(obj, "spec", "pool", "name"),
        age_of(obj, now),
    ]


_NAME_AND_AGE: Final = Printer((NAME, AGE), name_and_age)
PRINTERS: Final = {
    ("", "persistentvolumes"): Printer(
        (
            NAME,
            *texts_columns("Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim"),
            *texts_columns("StorageClass", "VolumeAttributesClass", "Reason"),
            AGE,
            *wide("VolumeMode"),
        ),
        _volume,
    ),
    ("", "persistentvolumeclaims"): Printer(
        (
            NAME,
            *texts_columns("Status", "Volume", "Capacity", "Access Modes"),
            *texts_columns("StorageClass", "VolumeAttributesClass"),
            AGE,
            *wide("VolumeMode"),
        ),
        _claim,
    ),
    ("storage.k8s.io", "storageclasses"): Printer(
        (
            NAME,
            *texts_columns("Provisioner", "ReclaimPolicy", "VolumeBindingMode"),
            Column("AllowVolumeExpansion"),
            AGE,
        ),
        _storage_class,
    ),
    ("storage.k8s.io", "volumeattributesclasses"): Printer(
        (NAME, Column("DriverName"), AGE), _attributes_class
    ),
    ("storage.k8s.io", "csinodes"): Printer((NAME, *integers("Drivers"), AGE), _csi_node),
    ("storage.k8s.io", "csidrivers"): Printer(
        (
            NAME,
            Column("AttachRequired", "boolean"),
            Column("PodInfoOnMount", "boolean"),
            Column("StorageCapacity", "boolean"),
            Column("TokenRequests"),
            Column("RequiresRepublish", "boolean"),
            Column("Modes"),
            AGE,
        ),
        _csi_driver,
    ),
    ("storage.k8s.io", "csistoragecapacities"): Printer(
        (NAME, *texts_columns("StorageClassName", "Capacity")), _capacity
    ),
    ("storage.k8s.io", "volumeattachments"): Printer(
        (
            NAME,
            Column("Attacher", format="name"),
            *texts_columns("PV", "Node"),
            Column("Attached", "boolean"),
            AGE,
        ),
        _attachment,
    ),
    ("resource.k8s.io", "deviceclasses"): _NAME_AND_AGE,
    ("resource.k8s.io", "resourceclaimtemplates"): _NAME_AND_AGE,
    ("resource.k8s.io", "resourceclaims"): Printer((NAME, Column("State"), AGE), _resource_claim),
    ("resource.k8s.io", "resourceslices"): Printer(
        (NAME, *texts_columns("Node", "Driver", "Pool"), AGE), _resource_slice
    ),
}
