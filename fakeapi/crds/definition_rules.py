"""Validation of custom resource definitions.

Where all versions say the same (a schema, subresources, columns), errors name the place that the
first version of the API had for it, `spec.validation` and so on: upstream validates that form.

Source: apiextensions-apiserver pkg/apis/apiextensions/{v1/conversion.go,validation} of v0.36.3.
"""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Final

from fakeapi.crds.schema_rules import has_defaults, validate_schema
from fakeapi.types import names
from fakeapi.types.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from fakeapi.types.objects import Json, mapping, mappings, metadata_of, name_of, text, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    "byte", "date", "date-time", "double", "float", "int32", "int64", "password",
)  # fmt: skip
_SCOPES: Final = ("Cluster", "Namespaced")
_STRATEGIES: Final = ("None", "Webhook")
_SELECTABLE_TYPES: Final = ("string", "boolean", "integer")
_SELECTABLE_MAX: Final = 8
#: What versions say for themselves -> where it is if all of them say the same.
_PLACES: Final = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
_WARNING_LENGTH_MAX: Final = 256
_APPROVAL: Final = "api-approved.kubernetes.io"
_PROTECTED: Final = ("k8s.io", "kubernetes.io")
_IMMUTABLE: Final = "field is immutable"
_KEP: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def validate_definition(definition: Json) -> list[FieldError]:
    """What is wrong with a definition, empty if nothing."""
    spec, status = mapping(definition.get("spec")), mapping(definition.get("status"))
    errors: list[FieldError] = []
    wanted = f"{text(mapping(spec.get('names')).get('plural'))}.{text(spec.get('group'))}"
    if name_of(definition) and name_of(definition) != wanted:
        why = 'must be spec.names.plural+"."+spec.group'
        errors.append(invalid("metadata.name", name_of(definition), why))
    errors += _spec_errors(spec)
    errors += _name_errors(mapping(status.get("acceptedNames")), "status.acceptedNames")
    errors += _stored_version_errors(texts(status.get("storedVersions")), spec)
    return errors


def validate_new_definition(definition: Json) -> list[FieldError]:
    """What is wrong with a definition only when it is about to be created."""
    return _approval_errors(definition, None)


def validate_definition_update(definition: Json, old: Json) -> list[FieldError]:
    """What of a definition may not change."""
    spec, before = mapping(definition.get("spec")), mapping(old.get("spec"))
    errors: list[FieldError] = []
    fixed = [("group",), ("names", "plural")]
    if is_established(old):
        fixed = [("scope",), ("names", "kind"), *fixed]
    for path in fixed:
        value, value_before = _at(spec, path), _at(before, path)
        if value != value_before:
            errors.append(invalid(f"spec.{'.'.join(path)}", value, _IMMUTABLE))
    errors += _approval_errors(definition, old)
    return errors


def is_established(definition: Json) -> bool:
    """Whether its resource is served."""
    return has_condition(definition, "Established")


def has_condition(definition: Json, condition_type: str) -> bool:
    """Whether that condition of a definition is True."""
    conditions = mappings(mapping(definition.get("status")).get("conditions"))
    return any(c.get("type") == condition_type and c.get("status") == "True" for c in conditions)


def _at(value: object, path: tuple[str, ...]) -> object:
    for part in path:
        value = mapping(value).get(part)
    return value


def _spec_errors(spec: Json) -> list[FieldError]:
    errors = list(_group_errors(text(spec.get("group"))))
    scope = text(spec.get("scope"))
    if not scope:
        errors.append(required("spec.scope"))
    elif scope not in _SCOPES:
        errors.append(not_supported("spec.scope", scope, _SCOPES))
    versions = mappings(spec.get("versions"))
    for index, version in enumerate(versions):
        if mapping(version.get("schema")).get("openAPIV3Schema") is None:
            errors.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
    errors += _version_list_errors(versions)
    own_names = mapping(spec.get("names"))
    for field in ("plural", "singular", "kind", "listKind"):
        if not own_names.get(field):
            errors.append(required(f"spec.names.{field}"))
    errors += _name_errors(own_names, "spec.names")
    errors += _parts_errors(versions)
    errors += _conversion_errors(mapping(spec.get("conversion")))
    if spec.get("preserveUnknownFields") is True:
        errors += _preserving_errors(spec)
    return errors


def _preserving_errors(spec: Json) -> Iterator[FieldError]:
    """What goes wrong with a definition that still wants all unknown fields kept."""
    path = "spec.preserveUnknownFields"
    schemas = (mapping(version.get("schema")) for version in mappings(spec.get("versions")))
    if any(has_defaults(mapping(node.get("openAPIV3Schema"))) for node in schemas):
        why = "must be false in order to use defaults in the schema"
        yield invalid(path, value=True, detail=why)
    strategy = text(mapping(spec.get("conversion")).get("strategy"))
    if strategy != "None":
        why = "must be None if spec.preserveUnknownFields is true"
        yield invalid("spec.conversion.strategy", strategy, why)
    why = (
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        "spec.versions[*].schema instead"
    )
    yield invalid(path, value=True, detail=why)


def _group_errors(group: str) -> Iterator[FieldError]:
    if not group:
        yield required("spec.group")
    elif complaints := names.dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(complaints))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _version_list_errors(versions: list[Json]) -> Iterator[FieldError]:
    for index, version in enumerate(versions):
        name = text(version.get("name"))
        complaints = names.dns_1035_label(name)
        if complaints:
            yield invalid(f"spec.versions[{index}].name", name, ",".join(complaints))
        yield from _deprecation_errors(version, f"spec.versions[{index}].deprecationWarning")
    first = text(versions[0].get("name")) if versions else ""  # upstream has it in two places
    complaints = names.dns_1035_label(first) if first else ()
    if complaints:
        yield invalid("spec.version", first, ",".join(complaints))
    given = [text(version.get("name")) for version in versions]
    if len(set(given)) != len(given):
        yield invalid("spec.versions", versions, "must contain unique version names")
    if sum(version.get("storage") is True for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", versions, why)


def _deprecation_errors(version: Json, path: str) -> Iterator[FieldError]:
    warning = version.get("deprecationWarning")
    if not isinstance(warning, str):
        return
    if version.get("deprecated") is not True:
        yield invalid(path, warning, "can only be set for deprecated versions")
        return
    if len(warning.encode()) > _WARNING_LENGTH_MAX:
        yield invalid(path, warning, "must be <= 256 characters long")
    if not warning:
        yield invalid(path, warning, "must not be an empty string")
    for index, character in enumerate(warning):
        if not character.isprintable():
            why = (
                "must only contain printable UTF-8 characters; non-printable character found at "
                f"index {index}"
            )
            yield invalid(path, warning, why)
            break


def _name_errors(own: Json, path: str) -> Iterator[FieldError]:
    for field in ("plural", "singular"):
        value = text(own.get(field))
        complaints = names.dns_1035_label(value) if value else ()
        if complaints:
            yield invalid(f"{path}.{field}", value, ",".join(complaints))
    for field in ("kind", "listKind"):
        value = text(own.get(field))
        complaints = names.dns_1035_label(value.lower()) if value else ()
        if complaints:
            why = "may have mixed case, but should otherwise match: " + ",".join(complaints)
            yield invalid(f"{path}.{field}", value, why)
    yield from _label_errors(own, "shortNames", path)
    if own.get("kind") and own.get("kind") == own.get("listKind"):
        why = "kind and listKind may not be the same"
        yield invalid(f"{path}.listKind", own["listKind"], why)
    yield from _label_errors(own, "categories", path)


def _label_errors(own: Json, field: str, path: str) -> Iterator[FieldError]:
    for index, value in enumerate(texts(own.get(field))):
        complaints = names.dns_1035_label(value)
        if complaints:
            yield invalid(f"{path}.{field}[{index}]", value, ",".join(complaints))


def _parts_errors(versions: list[Json]) -> list[FieldError]:
    """Schemas, subresources, columns and selectable fields, each where upstream sees it."""
    errors: list[FieldError] = []
    for field, above in _PLACES.items():
        if versions and _agree(versions, field):
            if (
                field == "selectableFields"
                and versions[0].get(field)
                and not _agree(versions, "schema")
            ):
                why = "may only be set when validations.schema is included"
                errors.append(invalid(f"spec.{above}", "", why))
                continue
            has_status = any(map(_has_status, versions))
            errors += _part_errors(field, versions[0], f"spec.{above}", has_status=has_status)
            continue
        for index, version in enumerate(versions):
            path, has_status = f"spec.versions[{index}].{field}", _has_status(version)
            errors += _part_errors(field, version, path, has_status=has_status)
    return errors


def _agree(versions: list[Json], field: str) -> bool:
    return all(version.get(field) == versions[0].get(field) for version in versions)


def _has_status(version: Json) -> bool:
    return "status" in mapping(version.get("subresources"))


def _part_errors(field: str, version: Json, path: str, *, has_status: bool) -> list[FieldError]:
    if field != "schema":
        return _PARTS[field](version, path)
    node = mapping(version.get("schema")).get("openAPIV3Schema")
    if not isinstance(node, dict):
        return []
    return validate_schema(node, f"{path}.openAPIV3Schema", has_status=has_status)


def _scale_part(version: Json, path: str) -> list[FieldError]:
    scale = mapping(version.get("subresources")).get("scale")
    if not isinstance(scale, dict):
        return []
    errors: list[FieldError] = []
    for field, places in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        value, where = text(scale.get(field)), f"{path}.scale.{field}"
        if not value:
            errors += [required(where)] if field != "labelSelectorPath" else []
        elif not value.startswith("."):
            errors.append(invalid(where, value, "must be a simple json path starting with ."))
        elif not value.startswith(places):
            under = places[0][:-1] if len(places) == 1 else "either .spec or .status"
            errors.append(invalid(where, value, f"should be a json path under {under}"))
    return errors


def _column_part(version: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, column in enumerate(mappings(version.get("additionalPrinterColumns"))):
        where = f"{path}[{index}]"
        if not column.get("name"):
            errors.append(required(f"{where}.name"))
        one_of = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not column.get("type"):
            errors.append(required(f"{where}.type", one_of))
        elif column["type"] not in _COLUMN_TYPES:
            errors.append(invalid(f"{where}.type", column["type"], one_of))
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            one_of = f"must be one of {','.join(_COLUMN_FORMATS)}"
            errors.append(invalid(f"{where}.format", column["format"], one_of))
        json_path = text(column.get("jsonPath"))
        if not json_path:
            errors.append(required(f"{where}.JSONPath"))
        elif not json_path.startswith("."):
            why = "must be a simple json path starting with ."
            errors.append(invalid(f"{where}.JSONPath", json_path, why))
    return errors


def _selectable_part(version: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    root = mapping(mapping(version.get("schema")).get("openAPIV3Schema"))
    seen: list[str] = []
    for index, field in enumerate(mappings(version.get("selectableFields"))):
        where, json_path = f"{path}[{index}].jsonPath", text(field.get("jsonPath"))
        if not json_path:
            errors.append(required(where))
            continue
        found = _schema_at(root, json_path)
        if found is None:
            why = "does not refer to a valid field"
            if not json_path.startswith("."):
                why = f"expected [ or . but got: {json_path}"
            errors.append(invalid(where, json_path, f"is an invalid path: {why}"))
            continue
        if json_path.startswith(".metadata"):
            errors.append(invalid(where, json_path, "must not point to fields in metadata"))
        if found.get("type") not in _SELECTABLE_TYPES:
            why = (
                "must point to a field of type string, boolean or integer. Enum string fields and "
                "strings with formats are allowed."
            )
            errors.append(invalid(where, json_path, why))
        if json_path in seen:
            errors.append(duplicate(where, json_path))
        seen.append(json_path)
    count = len(set(seen))
    if count > _SELECTABLE_MAX:
        errors.append(too_many(path, count, _SELECTABLE_MAX))
    return errors


def _schema_at(node: Json, json_path: str) -> Json | None:
    if not json_path.startswith("."):
        return None
    for part in json_path[1:].split("."):
        inner = mapping(node.get("properties")).get(part)
        if not isinstance(inner, dict):
            return None
        node = inner
    return node


_PARTS: Final[dict[str, Callable[[Json, str], list[FieldError]]]] = {
    "subresources": _scale_part,
    "additionalPrinterColumns": _column_part,
    "selectableFields": _selectable_part,
}


def _conversion_errors(conversion: Json) -> Iterator[FieldError]:
    path = "spec.conversion"
    strategy, webhook = text(conversion.get("strategy")), conversion.get("webhook")
    if not conversion:
        return
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in _STRATEGIES:
        yield not_supported(f"{path}.strategy", strategy, _STRATEGIES)
    if strategy == "Webhook":
        yield from _webhook_errors(mapping(webhook), path)
    else:
        why = "should not be set when strategy is not set to Webhook"
        if mapping(webhook).get("clientConfig") is not None:
            yield forbidden(f"{path}.webhookClientConfig", why)
        if texts(mapping(webhook).get("conversionReviewVersions")):
            yield forbidden(f"{path}.conversionReviewVersions", why)


def _webhook_errors(webhook: Json, path: str) -> Iterator[FieldError]:
    where, config = f"{path}.webhookClientConfig", webhook.get("clientConfig")
    if not isinstance(config, dict):
        yield required(where, "required when strategy is set to Webhook")
    elif ("url" in config) == ("service" in config):
        yield required(where, "exactly one of url or service is required")
    if not texts(webhook.get("conversionReviewVersions")):
        yield required(f"{path}.conversionReviewVersions")


def _stored_version_errors(stored: list[str], spec: Json) -> Iterator[FieldError]:
    """A version that objects may be stored in stays until nobody can be stored in it."""
    path = "status.storedVersions"
    if not stored:
        yield invalid(path, stored, "must have at least one stored version")
        return
    versions = mappings(spec.get("versions"))
    for version in versions:
        name = text(version.get("name"))
        if version.get("storage") is True and name not in stored:
            yield invalid(path, stored, f"must have the storage version {name}")
    known = [version.get("name") for version in versions]
    for index, name in enumerate(stored):
        if name not in known:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            yield invalid(f"{path}[{index}]", name, why)


def _approval_errors(definition: Json, old: Json | None) -> list[FieldError]:
    """Groups of the community want to be approved."""
    group = text(mapping(definition.get("spec")).get("group"))
    if not any(group == name or group.endswith(f".{name}") for name in _PROTECTED):
        return []
    state, why = _approval(definition)
    if old is not None and _approval(old)[0] == state:
        return []
    path = f"metadata.annotations[{_APPROVAL}]"
    if state == "missing":
        return [required(path, why)]
    if state == "invalid":
        return [invalid(path, _annotation(definition), why)]
    return []


def _annotation(definition: Json) -> str:
    return text(mapping(metadata_of(definition).get("annotations")).get(_APPROVAL))


def _approval(definition: Json) -> tuple[str, str]:
    value = _annotation(definition)
    must = f'protected groups must have approval annotation "{_APPROVAL}"'
    if not value:
        return "missing", f"{must}, {_KEP}"
    if value.startswith("unapproved"):
        return "bypassed", ""
    parts = urllib.parse.urlsplit(value)
    if parts.scheme and parts.netloc:
        return "approved", ""
    return "invalid", f'{must} with either a URL or a reason starting with "unapproved", {_KEP}'
