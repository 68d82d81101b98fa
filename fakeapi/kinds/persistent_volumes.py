"""PersistentVolumes and PersistentVolumeClaims.

Source: pkg/apis/core/{v1,validation}, pkg/registry/core/persistentvolume of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types import names
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
from fakeapi.types.errors import FieldError, forbidden, invalid, not_supported, required
from fakeapi.types.kind import Kind, KindRules, UpdateRules
from fakeapi.types.objects import (
    Json,
    child,
    is_deleting,
    keep_field,
    mapping,
    metadata_of,
    set_defaults,
    text,
    texts,
)
from fakeapi.types.quantity import parse_nano
from fakeapi.validation.checks import IMMUTABLE, choice_errors, optional_name_errors
from fakeapi.validation.containers import MORE_THAN_ONE, NAMED_OTHERWISE
from fakeapi.validation.metadata import validate_label_selector
from fakeapi.validation.scheduling import validate_node_selector

#: Labels of nodes that have another name since they are GA (upstream's `betaToGALabel`).
_BETA_TO_GA: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
}

STORAGE_CLASSES: Final = ("storage.k8s.io", "storageclasses")
#: The annotation that preceded the field `storageClassName`, and still overrides it.
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
_VOLUME_MODES: Final = ("Block", "Filesystem")
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
#: Fields of a volume's spec that are not volume sources.
_NO_SOURCE: Final = frozenset(
    {
        "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity",
        "persistentVolumeReclaimPolicy", "storageClassName", "volumeAttributesClassName",
        "volumeMode",
    }
)  # fmt: skip
_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_VOLUME_MODE: Final = wide("VolumeMode", ".spec.volumeMode", or_else(UNSET))


def claim_class(obj: Json) -> str:
    """Return the storage class of a claim or volume, empty if it has none.

    Source: GetPersistentVolumeClaimClass in component-helpers storage/volume/helpers.go of v0.36.3.
    """
    annotated = mapping(metadata_of(obj).get("annotations")).get(CLASS_ANNOTATION)
    return find_text(obj, ".spec.storageClassName") if annotated is None else text(annotated)


def _set_volume_defaults(volume: Json) -> None:
    set_defaults(child(volume, "status"), phase="Pending")
    spec = child(volume, "spec")
    set_defaults(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    host_path = spec.get("hostPath")
    if isinstance(host_path, dict):
        set_defaults(host_path, type="")


def set_claim_defaults(claim: Json) -> None:
    """Set the defaults of a PersistentVolumeClaim."""
    set_defaults(child(claim, "status"), phase="Pending")
    set_claim_spec_defaults(child(claim, "spec"))


def set_claim_spec_defaults(spec: Json) -> None:
    """Set the defaults of the spec of a claim, which volumes of pods have too."""
    set_defaults(spec, volumeMode="Filesystem")


def _prepare_volume(volume: Json, now: str) -> None:
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}


def _prepare_claim(claim: Json, now: str) -> None:
    claim["status"] = {"phase": "Pending"}


def _prepare_volume_status(new: Json, old: Json, now: str) -> None:
    status, old_status = child(new, "status"), mapping(old.get("status"))
    field = "lastPhaseTransitionTime"
    if status.get("phase") == old_status.get("phase"):
        if status.get(field) is None:
            keep_field(status, old_status, field)
    elif status.get(field) in (None, old_status.get(field)):
        status[field] = now


def _validate_volume(volume: Json) -> list[FieldError]:
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
    policy = text(spec.get("persistentVolumeReclaimPolicy"))
    errors += choice_errors(policy, "spec.persistentVolumeReclaimPolicy", _RECLAIM_POLICIES)
    required_terms = mapping(spec.get("nodeAffinity")).get("required")
    if isinstance(required_terms, dict):
        errors += validate_node_selector(required_terms, "spec.nodeAffinity.required")
    sources = [name for name in spec if name not in _NO_SOURCE]
    if not sources:
        errors.append(required("spec", "must specify a volume type"))
    for name in sources[1:]:
        errors.append(forbidden(f"spec.{NAMED_OTHERWISE.get(name, name)}", MORE_THAN_ONE))
    if "local" in sources[:1] and not isinstance(required_terms, dict):
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return errors


def _validate_volume_update(volume: Json, old_volume: Json) -> list[FieldError]:
    """Return the errors of a changed source, mode or node affinity."""
    spec, old = mapping(volume.get("spec")), mapping(old_volume.get("spec"))
    errors = []
    if _source_of(spec) != _source_of(old):
        why = "spec.persistentvolumesource is immutable after creation"
        errors.append(forbidden("spec.persistentvolumesource", why))
    if spec.get("volumeMode") != old.get("volumeMode"):
        errors.append(invalid("volumeMode", spec.get("volumeMode"), IMMUTABLE))
    affinity = old.get("nodeAffinity")
    if affinity is not None and not _is_kept(affinity, spec.get("nodeAffinity")):
        why = f"{IMMUTABLE}, except for updating from beta label to GA"
        errors.append(invalid("nodeAffinity", spec.get("nodeAffinity"), why))
    return errors


def _is_kept(old: object, new: object) -> bool:
    """Return True if a node affinity is the old one, but for labels that are GA now."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(
            _is_kept(old[name], new[name])
            or (name == "key" and _BETA_TO_GA.get(old[name]) == new[name])
            for name in old
        )
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_is_kept, old, new))
    return old == new


def _source_of(spec: Json) -> Json:
    return {name: value for name, value in spec.items() if name not in _NO_SOURCE}


def _access_mode_errors(spec: Json, hint: str) -> list[FieldError]:
    modes = texts(spec.get("accessModes"))
    errors = [] if modes else [required("spec.accessModes", hint)]
    for mode in modes:
        errors += choice_errors(mode, "spec.accessModes", _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        why = "may not use ReadWriteOncePod with other access modes"
        errors.append(forbidden("spec.accessModes", why))
    return errors


def _validate_claim(claim: Json) -> list[FieldError]:
    spec = mapping(claim.get("spec"))
    errors = _access_mode_errors(spec, "at least 1 access mode is required")
    errors += validate_label_selector(spec.get("selector"), "spec.selector")
    size = mapping(mapping(spec.get("resources")).get("requests")).get("storage")
    if size is None:
        errors.append(required("spec.resources[storage]"))
    elif parse_nano(text(size)) <= 0:
        errors.append(invalid("spec.resources[storage]", size, "must be greater than zero"))
    errors += _class_errors(spec, "storageClassName")
    errors += choice_errors(text(spec.get("volumeMode")), "spec.volumeMode", _VOLUME_MODES)
    return errors + _class_errors(spec, "volumeAttributesClassName")


def _class_errors(spec: Json, name: str) -> list[FieldError]:
    return optional_name_errors(text(spec.get(name)), f"spec.{name}", names.dns_subdomain)


def _validate_claim_update(claim: Json, old_claim: Json) -> list[FieldError]:
    """Return the errors of changes other than binding the claim and, once bound, expanding it."""
    spec, old = dict(mapping(claim.get("spec"))), dict(mapping(old_claim.get("spec")))
    errors = []
    new_size, old_size = claim_size(claim), claim_size(old_claim)
    reached = _amount(mapping(old_claim.get("status")).get("capacity"))
    if new_size < old_size and new_size <= reached:
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


def claim_size(claim: Json) -> int:
    """Return the storage that a claim requests."""
    return _amount(find(claim, ".spec.resources.requests"))


def _amount(resources: object) -> int:
    return parse_nano(text(mapping(resources).get("storage")) or "0")


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
        rules=KindRules(
            set_defaults=_set_volume_defaults, prepare=_prepare_volume, validate=_validate_volume,
            validate_update=_validate_volume_update,
            subresources={"status": UpdateRules(prepare=_prepare_volume_status)},
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
        rules=KindRules(
            set_defaults=set_claim_defaults, prepare=_prepare_claim, validate=_validate_claim,
            validate_update=_validate_claim_update, stores_defaults_later=True,
        ),
    ),
)  # fmt: skip
