"""Validation of volumes, claims and the CSI objects around them.

Source: pkg/apis/core/validation and pkg/apis/storage/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types import names
from fakeapi.types.errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from fakeapi.types.objects import Json, mapping, mappings, text, texts
from fakeapi.types.quantity import parse_nano
from fakeapi.validation.containers import MORE_THAN_ONE, NAMED_OTHERWISE
from fakeapi.validation.metadata import IMMUTABLE, validate_label_selector
from fakeapi.validation.numbers import NOT_NEGATIVE
from fakeapi.validation.scheduling import validate_node_selector

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_CLASS_FIXED: Final = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
#: Fields of a volume's spec that are not where it keeps its data.
_NO_SOURCE: Final = frozenset(
    {
        "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity",
        "persistentVolumeReclaimPolicy", "storageClassName", "volumeAttributesClassName",
        "volumeMode",
    }
)  # fmt: skip


def validate_volume(volume: Json) -> list[FieldError]:
    """Access modes, capacity, node affinity and the one source of a PersistentVolume."""
    spec = mapping(volume.get("spec"))
    errors = _access_mode_errors(spec, "")
    capacity = mapping(spec.get("capacity"))
    if not capacity:
        errors.append(required("spec.capacity"))
    if set(capacity) != {"storage"}:
        errors.append(not_supported("spec.capacity", capacity, ("storage",)))
    for name, value in capacity.items():
        if parse_nano(text(value)) <= 0:
            why = "must be greater than zero"
            errors.append(invalid(f"spec.capacity[{name}]", value, why))
    required_terms = mapping(spec.get("nodeAffinity")).get("required")
    if isinstance(required_terms, dict):
        errors += validate_node_selector(required_terms, "spec.nodeAffinity.required")
    sources = [name for name in spec if name not in _NO_SOURCE]
    if not sources:
        errors.append(required("spec", "must specify a volume type"))
    for name in sources[1:]:
        errors.append(forbidden(f"spec.{NAMED_OTHERWISE.get(name, name)}", MORE_THAN_ONE))
    return errors


def _access_mode_errors(spec: Json, hint: str) -> list[FieldError]:
    modes = texts(spec.get("accessModes"))
    errors = [] if modes else [required("spec.accessModes", hint)]
    errors += [
        not_supported("spec.accessModes", mode, _ACCESS_MODES)
        for mode in modes
        if mode not in _ACCESS_MODES
    ]
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        why = "may not use ReadWriteOncePod with other access modes"
        errors.append(forbidden("spec.accessModes", why))
    return errors


def validate_claim(claim: Json) -> list[FieldError]:
    """Access modes, selector and size of a PersistentVolumeClaim."""
    spec = mapping(claim.get("spec"))
    errors = _access_mode_errors(spec, "at least 1 access mode is required")
    errors += validate_label_selector(spec.get("selector"), "spec.selector")
    size = mapping(mapping(spec.get("resources")).get("requests")).get("storage")
    if size is None:
        errors.append(required("spec.resources[storage]"))
    elif parse_nano(text(size)) <= 0:
        errors.append(invalid("spec.resources[storage]", size, "must be greater than zero"))
    class_name = text(spec.get("storageClassName"))
    if class_name:
        complaints = names.dns_subdomain(class_name)
        errors += [invalid("spec.storageClassName", class_name, why) for why in complaints]
    return errors


def validate_claim_update(claim: Json, old_claim: Json) -> list[FieldError]:
    """A claim's spec is fixed but for its volume (set once) and, once bound, a larger size."""
    spec, old = dict(mapping(claim.get("spec"))), dict(mapping(old_claim.get("spec")))
    errors = []
    new_size, old_size = _size(spec), _size(old)
    if new_size < old_size:
        why = "field can not be less than status.capacity"
        errors.append(forbidden("spec.resources.requests.storage", why))
    if not old.get("volumeName"):
        old.pop("volumeName", None)
        spec.pop("volumeName", None)
    if old.get("storageClassName") is None:
        spec.pop("storageClassName", None)
    if mapping(claim.get("status")).get("phase") == "Bound":
        spec.pop("volumeAttributesClassName", None)
        old.pop("volumeAttributesClassName", None)
        spec["resources"] = old.get("resources")
    if spec != old:
        why = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
        errors.append(forbidden("spec", why))
    return errors


def _size(spec: Json) -> int:
    requests = mapping(mapping(spec.get("resources")).get("requests"))
    return parse_nano(text(requests.get("storage")) or "0")


def validate_storage_class(storage_class: Json) -> list[FieldError]:
    """Provisioner and binding mode of a StorageClass."""
    provisioner = text(storage_class.get("provisioner"))
    if not provisioner:
        errors = [required("provisioner")]
    else:
        complaints = names.qualified_name(provisioner.lower())
        errors = [invalid("provisioner", provisioner, why) for why in complaints]
    policy = text(storage_class.get("reclaimPolicy"))
    if policy not in ("Delete", "Retain"):
        errors.append(not_supported("reclaimPolicy", policy, ("Delete", "Retain")))
    mode = text(storage_class.get("volumeBindingMode"))
    if mode not in _BINDING_MODES:
        errors.append(not_supported("volumeBindingMode", mode, _BINDING_MODES))
    return errors


def validate_storage_class_update(new: Json, old: Json) -> list[FieldError]:
    """All that provisioning depends on is fixed."""
    return [
        invalid(field, new.get(field), IMMUTABLE)
        for field in _CLASS_FIXED
        if new.get(field) != old.get(field)
    ]


def validate_csi_node(csi_node: Json) -> list[FieldError]:
    """The drivers of a CSINode have unique names, an id on the node and topology keys."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, driver in enumerate(mappings(mapping(csi_node.get("spec")).get("drivers"))):
        path = f"spec.drivers[{index}]"
        name = text(driver.get("name"))
        if not name:
            errors.append(required(f"{path}.name"))
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        if not driver.get("nodeID"):
            errors.append(required(f"{path}.nodeID"))
        count = mapping(driver.get("allocatable")).get("count")
        if isinstance(count, int) and count < 0:
            why = NOT_NEGATIVE
            errors.append(invalid(f"{path}.allocatable.count", count, why))
        for key in texts(driver.get("topologyKeys")):
            errors += [invalid(path, key, why) for why in names.qualified_name(key)]
    return errors


def validate_csi_storage_capacity(capacity: Json) -> list[FieldError]:
    """Topology, class and amount of a CSIStorageCapacity."""
    errors = validate_label_selector(capacity.get("nodeTopology"), "nodeTopology")
    class_name = text(capacity.get("storageClassName"))
    complaints = names.dns_subdomain(class_name)
    errors += [invalid("storageClassName", class_name, why) for why in complaints]
    amount = capacity.get("capacity")
    if isinstance(amount, str) and parse_nano(amount) < 0:
        errors.append(invalid("capacity", amount, NOT_NEGATIVE))
    return errors


def validate_volume_attachment(attachment: Json) -> list[FieldError]:
    """Attacher, source and node of a VolumeAttachment."""
    spec = mapping(attachment.get("spec"))
    errors = [] if spec.get("attacher") else [required("spec.attacher")]
    source = mapping(spec.get("source"))
    given = [name for name in ("inlineVolumeSpec", "persistentVolumeName") if name in source]
    why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if not given:
        errors.append(required("spec.source", why))
    elif len(given) > 1:
        errors.append(forbidden("spec.source", why))
    node_name = text(spec.get("nodeName"))
    complaints = names.dns_subdomain(node_name)
    return errors + [invalid("spec.nodeName", node_name, why) for why in complaints]


def validate_volume_attachment_update(new: Json, old: Json) -> list[FieldError]:
    """The whole spec is fixed."""
    if new.get("spec") == old.get("spec"):
        return []
    return [invalid("spec", new.get("spec"), IMMUTABLE)]
