"""Rules of CustomResourceDefinitions, as the write pipeline calls them (`KindRules`).

A definition that kube-apiserver accepts is accepted. Upstream's rarer rules are missing: a
definition that kube-apiserver refuses may be accepted. Errors have upstream's fields and reasons.
Where all versions have the same schema, subresources or columns, upstream validates the form of
apiextensions/v1beta1, and errors name the field there: `spec.validation` and so on.

Source: apiextensions-apiserver pkg/apis/apiextensions/{v1/conversion.go,validation} and
pkg/registry/customresourcedefinition/strategy.go of v0.36.3; warnings of rules and patterns that
are not enforced are our own.
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from typing import TYPE_CHECKING, Final

from fakeapi.cel import patterns
from fakeapi.crds import cel_rules, definitions, formats
from fakeapi.crds.pruning import schemas_in
from fakeapi.crds.schema_rules import validate_schema
from fakeapi.printing.custom import custom_columns
from fakeapi.types import names
from fakeapi.types.errors import FieldError, forbidden, invalid, not_supported, required
from fakeapi.types.kind import Kind, KindRules
from fakeapi.types.objects import (
    Json,
    is_deleting,
    mapping,
    mappings,
    metadata_of,
    name_of,
    text,
    texts,
)
from fakeapi.validation.checks import fixed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    "byte", "date", "date-time", "double", "float", "int32", "int64", "password",
)  # fmt: skip
_SIMPLE_PATH: Final = "must be a simple json path starting with ."
_SCOPES: Final = ("Cluster", "Namespaced")
_STRATEGIES: Final = ("None", "Webhook")
_APPROVAL: Final = "api-approved.kubernetes.io"
_PROTECTED: Final = ("k8s.io", "kubernetes.io")
#: So much of a path is shown in a warning.
_SHOWN_MAX: Final = 100
_KEP: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def _all_warnings(definition: Json) -> list[str]:
    """Return a warning for each format, rule and pattern that is not enforced, and bad columns."""
    warnings: list[str] = []
    for version in mappings(mapping(definition.get("spec")).get("versions")):
        columns = mappings(version.get("additionalPrinterColumns"))
        shown = len(custom_columns(columns)) - 1
        if shown < len(columns):
            path = text(columns[shown].get("jsonPath"))[:_SHOWN_MAX]
            warnings.append(f'additionalPrinterColumns: not shown from jsonPath "{path}" on')
        for node in _schemas_of(version):
            declared, pattern = text(node.get("format")), text(node.get("pattern"))
            if declared and not formats.is_known(declared, text(node.get("type"))):
                warnings.append(f'unrecognized format "{declared}"')
            rules = cel_rules.not_evaluated(node)
            warnings += [
                f"{cel_rules.RULES}: this server does not evaluate {rule}" for rule in rules
            ]
            if pattern and patterns.compiled(pattern) is None:
                warnings.append(f'pattern: this server does not enforce "{pattern}"')
    return list(dict.fromkeys(warnings))


def _schemas_of(version: Json) -> Iterator[Json]:
    return schemas_in(mapping(mapping(version.get("schema")).get("openAPIV3Schema")))


def _new_warnings(definition: Json, old: Json | None) -> list[str]:
    before = [] if old is None else _all_warnings(old)
    return [warning for warning in _all_warnings(definition) if warning not in before]


def _prepare(definition: Json, now: str) -> None:
    definition["status"] = dict(mapping(definition.get("status")))
    definitions.note_storage_version(definition)


def _prepare_update(new: Json, old: Json, now: str) -> None:
    _prepare(new, now)


def _marked_for_deletion(definition: Json, finalizers: list[str], now: str) -> Json | None:
    is_marked = is_deleting(definition)
    return None if is_marked else definitions.marked_for_deletion(definition, now)


def validate_definition(definition: Json) -> list[FieldError]:
    """Return the errors of a definition."""
    spec = mapping(definition.get("spec"))
    versions = mappings(spec.get("versions"))
    stored = texts(mapping(definition.get("status")).get("storedVersions"))
    return [
        *_name_errors(definition, spec),
        *_version_errors(versions),
        *patterns.limited(lambda: list(_part_errors(versions))),
        *_conversion_errors(spec),
        *_stored_version_errors(stored, versions),
    ]


def validate_new_definition(definition: Json) -> list[FieldError]:
    """Return the errors that are checked at creation only."""
    error = _approval_error(definition)
    return [] if error is None else [error]


def validate_definition_update(definition: Json, old: Json) -> list[FieldError]:
    """Return the errors of changes: immutable fields, and a lost approval."""
    names_once_served = ("spec.scope", "spec.names.kind") if definitions.is_established(old) else ()
    errors = fixed("spec.group", "spec.names.plural", *names_once_served)(definition, old)
    error = _approval_error(definition)
    return errors if error is None or _approval_error(old) is not None else [*errors, error]


def _name_errors(definition: Json, spec: Json) -> Iterator[FieldError]:
    group, own, scope = text(spec.get("group")), mapping(spec.get("names")), text(spec.get("scope"))
    name = name_of(definition)
    if name and name != f"{text(own.get('plural'))}.{group}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield required("spec.group")
    elif complaints := names.dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(complaints))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield required("spec.scope")
    elif scope not in _SCOPES:
        yield not_supported("spec.scope", scope, _SCOPES)
    for field in ("plural", "singular", "kind", "listKind"):
        if own.get(field):
            yield from _label_errors(f"spec.names.{field}", own[field], mixed_case="ind" in field)
        else:
            yield required(f"spec.names.{field}")
    for field in ("shortNames", "categories"):
        for index, value in enumerate(texts(own.get(field))):
            yield from _label_errors(f"spec.names.{field}[{index}]", value)
    if own.get("kind") and own["kind"] == own.get("listKind"):
        why = "kind and listKind may not be the same"
        yield invalid("spec.names.listKind", own["listKind"], why)


def _label_errors(path: str, value: object, *, mixed_case: bool = False) -> Iterator[FieldError]:
    label = text(value)
    complaints = ",".join(names.dns_1035_label(label.lower() if mixed_case else label))
    if complaints:
        if mixed_case:
            complaints = f"may have mixed case, but should otherwise match: {complaints}"
        yield invalid(path, label, complaints)


def _version_errors(versions: list[Json]) -> Iterator[FieldError]:
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        yield from _label_errors(f"{path}.name", version.get("name"))
        if mapping(version.get("schema")).get("openAPIV3Schema") is None:
            yield required(f"{path}.schema.openAPIV3Schema")
        warning = version.get("deprecationWarning")
        if warning is not None and version.get("deprecated") is not True:
            why = "can only be set for deprecated versions"
            yield invalid(f"{path}.deprecationWarning", warning, why)
    if len({text(version.get("name")) for version in versions}) != len(versions):
        yield invalid("spec.versions", versions, "must contain unique version names")
    if sum(version.get("storage") is True for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", versions, why)


def _part_errors(versions: list[Json]) -> Iterator[FieldError]:
    """Yield the errors of schemas, subresources and columns. Raises TooExpensive."""
    if not cel_rules.can_compile_all(node for one in versions for node in _schemas_of(one)):
        yield forbidden("spec.versions", "rules take too much processor time to compile")
        return
    for field, (above, check) in _PARTS.items():
        if versions and all(one.get(field) == versions[0].get(field) for one in versions):
            yield from check(versions[0], f"spec.{above}")
        else:
            for index, version in enumerate(versions):
                yield from check(version, f"spec.versions[{index}].{field}")


def _schema_errors(version: Json, path: str) -> Iterator[FieldError]:
    node = mapping(version.get("schema")).get("openAPIV3Schema")
    if isinstance(node, dict):
        yield from validate_schema(node, f"{path}.openAPIV3Schema")


def _scale_errors(version: Json, path: str) -> Iterator[FieldError]:
    scale = mapping(version.get("subresources")).get("scale")
    if not isinstance(scale, dict):
        return
    for field, places in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        value, where = text(scale.get(field)), f"{path}.scale.{field}"
        if not value and field != "labelSelectorPath":
            yield required(where)
        elif value and not value.startswith("."):
            yield invalid(where, value, _SIMPLE_PATH)
        elif value and not value.startswith(places):
            under = " or ".join(place[:-1] for place in places)
            yield invalid(where, value, f"should be a json path under {under}")


def _column_errors(version: Json, path: str) -> Iterator[FieldError]:
    for index, column in enumerate(mappings(version.get("additionalPrinterColumns"))):
        where, json_path = f"{path}[{index}]", text(column.get("jsonPath"))
        for field, name in (("name", "name"), ("type", "type"), ("jsonPath", "JSONPath")):
            if not column.get(field):
                yield required(f"{where}.{name}")
        for field, valid in (("type", _COLUMN_TYPES), ("format", _COLUMN_FORMATS)):
            if column.get(field) and column[field] not in valid:
                why = f"must be one of {','.join(valid)}"
                yield invalid(f"{where}.{field}", column[field], why)
        if json_path and not json_path.startswith("."):
            yield invalid(f"{where}.JSONPath", json_path, _SIMPLE_PATH)


#: Fields of versions, each with its place in v1beta1 and the check.
_PARTS: Final[dict[str, tuple[str, Callable[[Json, str], Iterator[FieldError]]]]] = {
    "schema": ("validation", _schema_errors),
    "subresources": ("subresources", _scale_errors),
    "additionalPrinterColumns": ("additionalPrinterColumns", _column_errors),
}


def _conversion_errors(spec: Json) -> Iterator[FieldError]:
    conversion = mapping(spec.get("conversion"))
    strategy = text(conversion.get("strategy"))
    if strategy not in ("", *_STRATEGIES):
        yield not_supported("spec.conversion.strategy", strategy, _STRATEGIES)
    elif strategy == "Webhook" and not conversion.get("webhook"):
        yield required("spec.conversion.webhookClientConfig", "required for strategy Webhook")
    if spec.get("preserveUnknownFields") is True:
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true instead"
        yield invalid("spec.preserveUnknownFields", value=True, detail=why)


def _stored_version_errors(stored: list[str], versions: list[Json]) -> Iterator[FieldError]:
    names = [version.get("name") for version in versions]
    for index, name in enumerate(stored):
        if name not in names:
            why = f"missing from spec.versions; {name} was previously a storage version"
            yield invalid(f"status.storedVersions[{index}]", name, why)


def _approval_error(definition: Json) -> FieldError | None:
    """Return the error of a group of the Kubernetes community that is not approved."""
    group = text(mapping(definition.get("spec")).get("group"))
    if not any(group == name or group.endswith(f".{name}") for name in _PROTECTED):
        return None
    value = text(mapping(metadata_of(definition).get("annotations")).get(_APPROVAL))
    path = f"metadata.annotations[{_APPROVAL}]"
    must = f'protected groups must have approval annotation "{_APPROVAL}"'
    if not value:
        return required(path, f"{must}, {_KEP}")
    parts = urllib.parse.urlsplit(value)
    if value.startswith("unapproved") or (parts.scheme and parts.netloc):
        return None
    why = f'{must} with either a URL or a reason starting with "unapproved", {_KEP}'
    return invalid(path, value, why)


_RULES: Final = KindRules(
    has_free_finalizers=True,
    set_defaults=definitions.apply_defaults,
    prepare=_prepare,
    prepare_update=_prepare_update,
    validate=validate_definition,
    validate_create=validate_new_definition,
    validate_update=validate_definition_update,
    warnings=_new_warnings,
    marked_for_deletion=_marked_for_deletion,
)


def with_definition_rules(kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """Return the kinds, the row of CustomResourceDefinitions with its rules."""
    return tuple(
        dataclasses.replace(row, rules=_RULES) if row.resource_key == definitions.RESOURCE else row
        for row in kinds
    )
