"""Validation of metadata, labels and label selectors, the same for every kind.

Source: apimachinery pkg/api/validation/objectmeta.go and pkg/apis/meta/v1/validation of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types import names
from fakeapi.types.errors import FieldError, forbidden, invalid, required, too_long
from fakeapi.types.objects import (
    Json,
    finalizers_of,
    is_deleting,
    mapping,
    mappings,
    metadata_of,
    text,
    texts,
)
from fakeapi.validation.checks import IMMUTABLE, NOT_NEGATIVE, each, name_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    NameRule = Callable[[str], tuple[str, ...]]

_ANNOTATIONS_BYTES_MAX: Final = 256 * 1024
_GARBAGE_FINALIZERS: Final = ("orphan", "foregroundDeletion")
_STANDARD_FINALIZERS: Final = ("kubernetes", *_GARBAGE_FINALIZERS)
_IMMUTABLE_FIELDS: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)

any_name = names.path_segment


def validate_metadata(
    obj: Json, check_name: NameRule, *, namespaced: bool, free_finalizers: bool = False
) -> list[FieldError]:
    """Return the errors of an object's metadata.

    Finalizers are Kubernetes' own or have a domain and a path; with `free_finalizers`, as on
    custom resources and their definitions, any qualified name is valid.
    """
    metadata = metadata_of(obj)
    errors: list[FieldError] = []
    prefix, name = text(metadata.get("generateName")), text(metadata.get("name"))
    if prefix:
        stem = f"{prefix[:-1]}a" if prefix.endswith("-") else prefix
        errors += [invalid("metadata.generateName", prefix, why) for why in check_name(stem)]
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors += name_errors(name, "metadata.name", check_name)
    namespace = text(metadata.get("namespace"))
    if namespaced:
        if not namespace:
            errors.append(required("metadata.namespace"))
        else:
            errors += name_errors(namespace, "metadata.namespace", names.dns_label)
    generation = metadata.get("generation")
    if isinstance(generation, int) and generation < 0:
        errors.append(invalid("metadata.generation", generation, NOT_NEGATIVE))
    errors += _shared_errors(metadata)
    finalizers = texts(metadata.get("finalizers"))
    if not finalizers:
        return errors
    return errors + _finalizer_errors(finalizers, must_be_standard=not free_finalizers)


def validate_metadata_update(obj: Json, old: Json) -> list[FieldError]:
    """Return the errors of changes to fixed metadata."""
    metadata, old_metadata = metadata_of(obj), metadata_of(old)
    errors: list[FieldError] = []
    if is_deleting(old):
        present = set(finalizers_of(old))
        added = sorted(set(finalizers_of(obj)) - present)
        if added:
            shown = ", ".join(f'"{name}"' for name in added)
            errors.append(
                forbidden(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{shown}}}",
                )
            )
    for field in _IMMUTABLE_FIELDS:
        value = metadata.get(field)
        if value != old_metadata.get(field):
            errors.append(invalid(f"metadata.{field}", value, IMMUTABLE))
    return errors


def validate_labels(labels: object, field: str) -> list[FieldError]:
    """Return the errors of a set of labels, or of a node selector."""
    errors: list[FieldError] = []
    for key, value in mapping(labels).items():
        errors += validate_label_key(key, field)
        errors += validate_label_value(text(value), field)
    return errors


def validate_label_selector(selector: object, field: str) -> list[FieldError]:
    """Return the errors of a metav1.LabelSelector; a missing selector has no errors."""
    if not isinstance(selector, dict):
        return []
    errors = validate_labels(selector.get("matchLabels"), f"{field}.matchLabels")
    expressions = mappings(selector.get("matchExpressions"))
    return errors + each(expressions, f"{field}.matchExpressions", validate_requirement)


def validate_requirement(
    expression: Json, field: str, *, compares: bool = False, any_value: bool = False
) -> list[FieldError]:
    """Return the errors of a requirement of a selector.

    With `compares` it may compare numbers, as on nodes; with `any_value` no value is checked.
    """
    errors: list[FieldError] = []
    operator, values = text(expression.get("operator")), texts(expression.get("values"))
    if operator in ("In", "NotIn"):
        if not values:
            why = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{field}.values", why))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{field}.values", why))
    elif operator in ("Gt", "Lt") and compares:
        if len(values) != 1:
            why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{field}.values", why))
    else:
        errors.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    errors += validate_label_key(text(expression.get("key")), f"{field}.key")
    return errors if any_value else errors + each(values, f"{field}.values", validate_label_value)


def validate_label_key(key: str, field: str) -> list[FieldError]:
    """Return the errors of the key of a label, taint or toleration."""
    return name_errors(key, field, names.qualified_name)


def validate_label_value(value: str, field: str) -> list[FieldError]:
    """Return the errors of the value of a label."""
    return name_errors(value, field, names.label_value)


def _shared_errors(metadata: Json) -> list[FieldError]:
    """Return the errors of labels, annotations and owner references."""
    errors = validate_labels(metadata.get("labels"), "metadata.labels")
    errors += _annotation_errors(mapping(metadata.get("annotations")))
    return errors + _owner_errors(mappings(metadata.get("ownerReferences")))


def _annotation_errors(annotations: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    size = 0
    for key, value in annotations.items():
        complaints = names.qualified_name(key.lower())
        errors += [invalid("metadata.annotations", key, why) for why in complaints]
        size += len(key.encode()) + len(text(value).encode())
    if size > _ANNOTATIONS_BYTES_MAX:
        errors.append(too_long("metadata.annotations", _ANNOTATIONS_BYTES_MAX))
    return errors


def _owner_errors(owners: list[Json]) -> list[FieldError]:
    field = "metadata.ownerReferences"
    errors: list[FieldError] = []
    controllers: list[str] = []
    for owner in owners:
        for part in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(part):
                rule = "version must not be empty" if part == "apiVersion" else "must not be empty"
                errors.append(invalid(f"{field}.{part}", "", rule))
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            why = "/v1, Kind=Event is disallowed from being an owner"
            errors.append(invalid(field, owner, why))
        if owner.get("controller"):
            controllers.append(f"{text(owner.get('kind'))}/{text(owner.get('name'))}")
    for other in controllers[1:]:
        why = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {other}'
        )
        errors.append(invalid(field, owners, why))
    return errors


def _finalizer_errors(finalizers: list[str], *, must_be_standard: bool) -> list[FieldError]:
    field = "metadata.finalizers"
    errors: list[FieldError] = []
    for index, name in enumerate(finalizers):
        at = f"{field}[{index}]"
        errors += validate_label_key(name, at)
        if must_be_standard and "/" not in name and name not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid(at, name, why))
    if set(_GARBAGE_FINALIZERS) <= set(finalizers):
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(field, finalizers, why))
    return errors
