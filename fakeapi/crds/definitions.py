"""Conditions, defaults and served kinds of a CustomResourceDefinition: pure functions.

controller.py calls them when definitions change.

Source: apiextensions-apiserver pkg/apis/apiextensions/v1/defaults.go, pkg/apihelpers,
pkg/controller/status/naming_controller.go, pkg/registry/customresourcedefinition/strategy.go and
pkg/apiserver/customresource_handler.go of v0.36.3.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from fakeapi.crds.structural import CustomStructure
from fakeapi.printing.custom import custom_columns
from fakeapi.types import gotext, objects
from fakeapi.types.kind import DEFAULT_FIELDS, Generation, Kind, ScalePaths
from fakeapi.types.objects import (
    Json,
    child,
    finalizers_of,
    mapping,
    mappings,
    text,
    texts,
    with_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fakeapi.types.kind import ResourceKey

RESOURCE: Final[ResourceKey] = ("apiextensions.k8s.io", "customresourcedefinitions")
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
TERMINATING: Final = "Terminating"
_MARKED: Final = (
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
)
_NAME_FIELDS: Final = ("plural", "singular", "kind", "listKind")
_RESOURCE_FIELDS: Final = ("plural", "singular")


def apply_defaults(definition: Json) -> None:
    """Fill in the defaults of a definition."""
    spec = child(definition, "spec")
    own = child(spec, "names")
    if not own.get("singular"):
        own["singular"] = text(own.get("kind")).lower()
        if not own["singular"]:
            del own["singular"]
    if not own.get("listKind") and own.get("kind"):
        own["listKind"] = f"{own['kind']}List"
    if "conversion" not in spec:
        spec["conversion"] = {"strategy": "None"}
    webhook = mapping(mapping(spec["conversion"]).get("webhook"))
    service = mapping(webhook.get("clientConfig")).get("service")
    if isinstance(service, dict) and service.get("port") is None:
        service["port"] = 443


def note_storage_version(definition: Json) -> None:
    """Add the storage version to `status.storedVersions`."""
    versions = mappings(mapping(definition.get("spec")).get("versions"))
    name = next((text(version.get("name")) for version in versions if version.get("storage")), "")
    status = child(definition, "status")
    stored = texts(status.get("storedVersions"))
    if name and name not in stored:
        status["storedVersions"] = [*stored, name]


def has_condition(definition: Json, condition_type: str) -> bool:
    """True if a condition of a definition is True."""
    conditions = mappings(mapping(definition.get("status")).get("conditions"))
    return any(c.get("type") == condition_type and c.get("status") == "True" for c in conditions)


def is_established(definition: Json) -> bool:
    """True if the resource of the definition is served."""
    return has_condition(definition, "Established")


def with_condition(
    definition: Json, condition_type: str, status: str, reason: str, message: str, now: str
) -> Json:
    """Set a condition; lastTransitionTime changes only with its status."""
    condition: Json = {
        "type": condition_type,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    before = mapping(definition.get("status"))
    return {**definition, "status": objects.with_condition(before, condition)}


def marked_for_deletion(definition: Json, now: str) -> Json:
    """Mark the definition for deletion, with the finalizer that deletes its objects."""
    finalizers = finalizers_of(definition)
    marked = with_metadata(definition, deletionTimestamp=now, finalizers=[*finalizers, CLEANUP])
    return with_condition(marked, TERMINATING, "True", "InstanceDeletionPending", _MARKED, now)


def accepted(definition: Json, others: Iterable[Json], now: str) -> Json:
    """Set acceptedNames to the names that are free, and the conditions."""
    taken_resources, taken_kinds = _taken(definition, others)
    status = mapping(definition.get("status"))
    wanted, present = (
        mapping(mapping(definition.get("spec")).get("names")),
        mapping(status.get("acceptedNames")),
    )
    granted, reason, message = dict(present), "", ""
    for field in _NAME_FIELDS:
        name = text(wanted.get(field))
        taken = taken_resources if field in _RESOURCE_FIELDS else taken_kinds
        if name != text(present.get(field)) and name in taken:
            reason, message = f"{field[:1].upper()}{field[1:]}Conflict", _in_use(name)
        else:
            granted[field] = name
    own_short = texts(present.get("shortNames"))
    conflicts = [
        name
        for name in texts(wanted.get("shortNames"))
        if name not in own_short and name in taken_resources
    ]
    if conflicts:
        reason, message = "ShortNamesConflict", gotext.aggregated(map(_in_use, conflicts))
    elif "shortNames" in wanted:
        granted["shortNames"] = wanted["shortNames"]
    else:
        granted.pop("shortNames", None)
    if "categories" in wanted:
        granted["categories"] = wanted["categories"]
    result = {**definition, "status": {**status, "acceptedNames": granted}}
    if reason:
        result = with_condition(result, "NamesAccepted", "False", reason, message, now)
    else:
        message = "no conflicts found"
        result = with_condition(result, "NamesAccepted", "True", "NoConflicts", message, now)
    return _established(result, now)


def _in_use(name: str) -> str:
    return f'"{name}" is already in use'


def _taken(definition: Json, others: Iterable[Json]) -> tuple[set[str], set[str]]:
    """Return the resource names and the kinds that other definitions of the group have."""
    group = mapping(definition.get("spec")).get("group")
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if mapping(other.get("spec")).get("group") == group:
            own = mapping(mapping(other.get("status")).get("acceptedNames"))
            resources |= {text(own.get("plural")), text(own.get("singular"))}
            resources |= set(texts(own.get("shortNames")))
            kinds |= {text(own.get("kind")), text(own.get("listKind"))}
    return resources - {""}, kinds - {""}


def _established(definition: Json, now: str) -> Json:
    """Set Established once all names are accepted; it stays True."""
    if has_condition(definition, "Established"):
        return definition
    if not has_condition(definition, "NamesAccepted"):
        message = "not all names are accepted"
        return with_condition(definition, "Established", "False", "NotAccepted", message, now)
    message = "the initial names have been accepted"
    return with_condition(definition, "Established", "True", "InitialNamesAccepted", message, now)


def way_served(definition: Json) -> object:
    """Return a value that changes whenever the served kinds of the definition change."""
    status = mapping(definition.get("status"))
    generation = mapping(definition.get("metadata")).get("generation")
    return [generation, status.get("acceptedNames"), has_condition(definition, TERMINATING)]


def kinds_of(definition: Json, cel_seconds: float) -> list[Kind]:
    """Return the kinds of an established definition, one for each served version."""
    spec = mapping(definition.get("spec"))
    versions = mappings(spec.get("versions"))
    storage = next((version for version in versions if version.get("storage")), {})
    served = [version for version in versions if version.get("served")]
    return [_kind(definition, version, storage, cel_seconds) for version in served]


def storage_kind(definition: Json, cel_seconds: float) -> Kind:
    """Return the kind of the storage version, served or not."""
    versions = mappings(mapping(definition.get("spec")).get("versions"))
    storage = next((version for version in versions if version.get("storage")), {})
    return _kind(definition, storage, storage, cel_seconds)


def _kind(definition: Json, version: Json, storage: Json, cel_seconds: float) -> Kind:
    spec = mapping(definition.get("spec"))
    own = mapping(mapping(definition.get("status")).get("acceptedNames"))
    group, name, kind = text(spec.get("group")), text(version.get("name")), text(own.get("kind"))
    subresources = mapping(version.get("subresources"))
    scale = _scale_paths(mapping(subresources["scale"])) if "scale" in subresources else None
    node = mapping(version.get("schema")).get("openAPIV3Schema")
    stored = mapping(storage.get("schema")).get("openAPIV3Schema")
    is_other = stored != node and isinstance(stored, dict)
    structure = CustomStructure(
        f"{group}/{name}",
        kind,
        node if isinstance(node, dict) else None,
        stored=stored if is_other and isinstance(stored, dict) else None,
        scale=scale,
        cel_seconds=cel_seconds,
    )
    return Kind(
        group,
        name,
        text(own.get("plural")),
        kind,
        namespaced=spec.get("scope") == "Namespaced",
        singular=text(own.get("singular")),
        list_kind=text(own.get("listKind")),
        short_names=tuple(texts(own.get("shortNames"))),
        categories=tuple(texts(own.get("categories"))),
        subresources=tuple(sorted(subresources)),
        generation=Generation.CONTENT,
        fields=_selectable_fields(version),
        unconditional_update=False,
        scale=scale,
        structure=structure,
        from_stored=_from_stored(definition, structure, is_other=is_other),
        columns=custom_columns(mappings(version.get("additionalPrinterColumns"))),
        deprecation_warning=_deprecation_warning(version, f"{group}/{name} {kind}"),
        is_ending=has_condition(definition, TERMINATING),
        stored_version=f"{group}/{text(storage.get('name'))}",
    )


def _from_stored(
    definition: Json, structure: CustomStructure, *, is_other: bool
) -> Callable[[Json], Json] | None:
    """Return the conversion of stored objects to this version; None if they need none."""
    if is_other:
        return structure.as_version
    # Objects may be older than the schema.
    return structure.as_stored if _has_changed(definition) else None


def _has_changed(definition: Json) -> bool:
    generation = mapping(definition.get("metadata")).get("generation")
    return isinstance(generation, int) and generation > 1


def _scale_paths(scale: Json) -> ScalePaths:
    def path(field: str) -> tuple[str, ...]:
        value = text(scale.get(field)).removeprefix(".")
        return tuple(value.split(".")) if value else ()

    return ScalePaths(
        path("specReplicasPath"), path("statusReplicasPath"), path("labelSelectorPath")
    )


def _selectable_fields(version: Json) -> dict[str, Callable[[Json], str]]:
    fields = dict(DEFAULT_FIELDS)
    for declared in mappings(version.get("selectableFields")):
        path = text(declared.get("jsonPath")).removeprefix(".")
        fields[path] = functools.partial(_field_text, tuple(path.split(".")))
    return fields


def _field_text(path: tuple[str, ...], obj: Json) -> str:
    """Return the value at a path as selectors compare it, empty if it is missing."""
    value = objects.value_in(obj, path)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else ""


def _deprecation_warning(version: Json, subject: str) -> str:
    if version.get("deprecated") is not True:
        return ""
    return text(version.get("deprecationWarning")) or f"{subject} is deprecated"
