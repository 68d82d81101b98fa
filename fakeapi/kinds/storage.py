"""Storage classes, and the objects of CSI drivers.

Source: pkg/apis/storage/{v1,validation} and pkg/registry/storage of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types import names
from fakeapi.types.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    flag,
    name_with_default,
    or_else,
    size,
)
from fakeapi.types.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)
from fakeapi.types.kind import CLIENT_METADATA, Generation, Kind, KindRules
from fakeapi.types.objects import Json, child, mapping, mappings, set_defaults, text, texts
from fakeapi.types.quantity import parse_nano
from fakeapi.validation.checks import (
    NOT_NEGATIVE,
    choice_errors,
    fixed,
    name_errors,
    number_errors,
)
from fakeapi.validation.devices import validate_driver
from fakeapi.validation.metadata import validate_label_key, validate_label_selector

_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_CLASS_FIXED: Final = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
_TOKENS_IN_SECRETS: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to "
    "prevent possible logging of tokens in volume attributes"
)
DEFAULT_STORAGE_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _set_class_defaults(storage_class: Json) -> None:
    set_defaults(storage_class, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _set_driver_defaults(driver: Json) -> None:
    spec = child(driver, "spec")
    set_defaults(
        spec,
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        volumeLifecycleModes=["Persistent"],
        requiresRepublish=False,
        seLinuxMount=False,
    )


def _driver_warnings(driver: Json, old: Json | None) -> list[str]:
    """Return a warning about new token requests that do not set where the tokens go."""
    spec, old_spec = mapping(driver.get("spec")), mapping((old or {}).get("spec"))
    requests = spec.get("tokenRequests")
    if not requests or requests == old_spec.get("tokenRequests"):
        return []
    return [_TOKENS_IN_SECRETS] if spec.get("serviceAccountTokenInSecrets") is None else []


def _validate_class(storage_class: Json) -> list[FieldError]:
    provisioner = text(storage_class.get("provisioner"))
    if not provisioner:
        errors = [required("provisioner")]
    else:
        complaints = names.qualified_name(provisioner.lower())
        errors = [invalid("provisioner", provisioner, why) for why in complaints]
    policy, mode = (text(storage_class.get(k)) for k in ("reclaimPolicy", "volumeBindingMode"))
    errors += choice_errors(policy, "reclaimPolicy", ("Delete", "Retain"))
    return errors + choice_errors(mode, "volumeBindingMode", _BINDING_MODES)


def _validate_csi_node(csi_node: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, driver in enumerate(mappings(mapping(csi_node.get("spec")).get("drivers"))):
        path = f"spec.drivers[{index}]"
        name = text(driver.get("name"))
        errors += validate_driver(name, f"{path}.name")
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        if not driver.get("nodeID"):
            errors.append(required(f"{path}.nodeID"))
        allocatable = mapping(driver.get("allocatable"))
        errors += number_errors(allocatable, f"{path}.allocatable", ("count",))
        keys = texts(driver.get("topologyKeys"))
        for position, key in enumerate(keys):
            if not key:
                errors.append(required(path))
            if key in keys[:position]:
                errors.append(duplicate(path, key))
            errors += validate_label_key(key, path)
    return errors


def _validate_capacity(capacity: Json) -> list[FieldError]:
    errors = validate_label_selector(capacity.get("nodeTopology"), "nodeTopology")
    class_name = text(capacity.get("storageClassName"))
    errors += name_errors(class_name, "storageClassName", names.dns_subdomain)
    amount = capacity.get("capacity")
    if isinstance(amount, str) and parse_nano(amount) < 0:
        errors.append(invalid("capacity", amount, NOT_NEGATIVE))
    return errors


def _validate_attachment(attachment: Json) -> list[FieldError]:
    spec = mapping(attachment.get("spec"))
    errors = [] if spec.get("attacher") else [required("spec.attacher")]
    source = mapping(spec.get("source"))
    sources = [name for name in ("inlineVolumeSpec", "persistentVolumeName") if name in source]
    why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if not sources:
        errors.append(required("spec.source", why))
    elif len(sources) > 1:
        errors.append(forbidden("spec.source", why))
    node_name = text(spec.get("nodeName"))
    return errors + name_errors(node_name, "spec.nodeName", names.dns_subdomain)


def _audiences(requests: object) -> str:
    if requests is None:
        return UNSET
    return ",".join(text(request.get("audience")) for request in mappings(requests))


KINDS: Final = (
    Kind(
        "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False,
        schema="storage/v1.StorageClass", short_names=("sc",), returns_deleted=True,
        columns=(
            Column("Name", name_with_default(*DEFAULT_STORAGE_CLASS), format="name"),
            Column("Provisioner", ".provisioner"),
            Column("ReclaimPolicy", ".reclaimPolicy", or_else("Delete")),
            Column("VolumeBindingMode", ".volumeBindingMode", or_else("Immediate")),
            Column("AllowVolumeExpansion", ".allowVolumeExpansion", flag), AGE,
        ),
        rules=KindRules(
            set_defaults=_set_class_defaults, validate=_validate_class,
            validate_update=fixed(*_CLASS_FIXED),
        ),
    ),
    Kind(
        "storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False,
        schema="storage/v1.CSINode", unconditional_update=False, returns_deleted=True,
        columns=(NAME, Column("Drivers", ".spec.drivers", size, type="integer"), AGE),
        rules=KindRules(validate=_validate_csi_node),
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
        rules=KindRules(set_defaults=_set_driver_defaults, warnings=_driver_warnings),
    ),
    Kind(
        "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity",
        schema="storage/v1.CSIStorageCapacity", unconditional_update=False,
        columns=(
            NAME, Column("StorageClassName", ".storageClassName"),
            Column("Capacity", ".capacity", or_else(UNSET)),
        ),
        rules=KindRules(
            validate=_validate_capacity,
            validate_update=fixed("nodeTopology", "storageClassName"),
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
        status_keeps=CLIENT_METADATA,
        rules=KindRules(validate=_validate_attachment, validate_update=fixed("spec")),
    ),
    Kind(
        "storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass",
        namespaced=False, schema="storage/v1.VolumeAttributesClass", short_names=("vac",),
        returns_deleted=True,
        columns=(NAME, Column("DriverName", ".driverName"), AGE),
    ),
)  # fmt: skip
