"""Whether a schema is structural: everything it says about has a type, and is said once.

Under a junctor (allOf, anyOf, oneOf, not) a schema may only judge values; types, defaults and
extensions belong outside, and every field that is judged there has to be declared outside, too.

Source: apiextensions-apiserver pkg/apiserver/schema/{validation,complete}.go of v0.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types import go_patterns
from fakeapi.types.errors import FieldError, forbidden, invalid, required
from fakeapi.types.objects import Json, mapping, mappings, text

_ROOT: Final = "must not be empty at the root"
_FIELD: Final = "must not be empty for specified object fields"
_ITEM: Final = "must not be empty for specified array items"
_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDS: Final = "x-kubernetes-embedded-resource"
_EITHER: Final = "x-kubernetes-int-or-string"
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_JUNCTORS: Final = ("anyOf", "allOf", "oneOf")
#: What may not be said under a junctor, and how upstream puts that.
_OUTSIDE_ONLY: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    _PRESERVES: "must be false to be structural",
    _EMBEDS: "must be false to be structural",
    _EITHER: "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_ROOT_METADATA: Final = ("name", "generateName")
_ONLY_NAMES: Final = (
    "must not specify anything other than name and generateName, but metadata is implicitly "
    "specified"
)


def validate_structural(node: Json, path: str) -> list[FieldError]:
    """Where the schema is not structural, in the order of the texts."""
    errors = _invariants(node, path, _ROOT) + _completeness(node, node, path, path)
    return sorted(errors, key=lambda error: f"{error.field}: {error.message}")


def _invariants(node: Json, path: str, level: str) -> list[FieldError]:
    errors: list[FieldError] = []
    items = node.get("items")
    if isinstance(items, dict):
        errors += _invariants(items, f"{path}.items", _ITEM)
    elif node.get("type") == "array":
        errors.append(required(f"{path}.items", "must be specified"))
    for name, inner in mapping(node.get("properties")).items():
        errors += _invariants(mapping(inner), f"{path}.properties[{name}]", _FIELD)
    additional = node.get("additionalProperties")
    if additional is not None and level == _ROOT:
        errors.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
    if isinstance(additional, dict):
        errors += _invariants(additional, f"{path}.additionalProperties", _FIELD)
    errors += _extension_errors(node, path)
    errors += _judgement_errors(node, path)
    errors += _type_errors(node, path, level)
    return errors + _identity_errors(node, path, is_root=level == _ROOT)


def _extension_errors(node: Json, path: str) -> list[FieldError]:
    if node.get(_EITHER) is not True:
        return []
    why = "must be false if x-kubernetes-int-or-string is true"
    return [
        invalid(f"{path}.{name}", value=True, detail=why)
        for name in (_PRESERVES, _EMBEDS)
        if node.get(name) is True
    ]


def _type_errors(node: Json, path: str, level: str) -> list[FieldError]:
    errors: list[FieldError] = []
    declared, embeds = text(node.get("type")), node.get(_EMBEDS) is True
    has_own_type = node.get(_EITHER) is True or node.get(_PRESERVES) is True
    if embeds and declared != "object":
        why = "must be object if x-kubernetes-embedded-resource is true"
        where = f"{path}.type"
        errors.append(invalid(where, declared, why) if declared else required(where, why))
    elif not declared and not has_own_type:
        errors.append(required(f"{path}.type", level))
    if embeds and node.get("additionalProperties") is not None:
        why = "must not be used if x-kubernetes-embedded-resource is set"
        errors.append(forbidden(f"{path}.additionalProperties", why))
    if level == _ROOT and declared and declared != "object":
        errors.append(invalid(f"{path}.type", declared, "must be object at the root"))
    if embeds and node.get(_PRESERVES) is not True and not node.get("properties"):
        why = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        errors.append(required(f"{path}.properties", why))
    return errors


def _identity_errors(node: Json, path: str, *, is_root: bool) -> list[FieldError]:
    """kind, apiVersion and metadata of an object are what they are; little may be said of them."""
    errors: list[FieldError] = []
    is_object = is_root or node.get(_EMBEDS) is True
    properties = mapping(node.get("properties"))
    for name in ("kind", "apiVersion"):
        declared = text(mapping(properties.get(name)).get("type"))
        if is_object and name in properties and declared != "string":
            where = f"{path}.properties[{name}].type"
            errors.append(invalid(where, declared, "must be string"))
    if "metadata" in properties:
        metadata = mapping(properties["metadata"])
        where = f"{path}.properties[metadata]"
        declared = text(metadata.get("type"))
        if is_object and declared != "object":
            errors.append(invalid(f"{where}.type", declared, "must be object"))
        if is_root and not _says_only_names(metadata):
            errors.append(forbidden(where, _ONLY_NAMES))
    return errors


def _says_only_names(metadata: Json) -> bool:
    properties = mapping(metadata.get("properties"))
    others = metadata.keys() - {"type", "properties", "default"}
    return not others and properties.keys() <= set(_ROOT_METADATA)


def _is_int_or_string(node: Json) -> bool:
    return node.get("anyOf") == _INT_OR_STRING


def _judgement_errors(node: Json, path: str, *, skips_first: bool = True) -> list[FieldError]:
    """The junctors and the pattern of a schema. Two ways to say int-or-string are let through."""
    errors: list[FieldError] = []
    all_of = mappings(node.get("allOf"))
    for name in _JUNCTORS:
        if name == "anyOf" and skips_first and _is_int_or_string(node):
            continue
        for index, part in enumerate(mappings(node.get(name))):
            spared = name == "allOf" and index == 0 and skips_first and _is_int_or_string(all_of[0])
            where = f"{path}.{name}[{index}]"
            errors += _nested_errors({**part, "anyOf": []} if spared else part, where)
    excluded = node.get("not")
    if isinstance(excluded, dict):
        errors += _nested_errors(excluded, f"{path}.not")
    pattern = text(node.get("pattern"))
    if pattern:
        try:
            go_patterns.compiled(pattern)
        except go_patterns.PatternError as error:
            why = f"must be a valid regular expression, but isn't: {error}"
            errors.append(invalid(f"{path}.pattern", pattern, why))
    return errors


def _nested_errors(node: Json, path: str) -> list[FieldError]:
    """A schema under a junctor."""
    errors = _judgement_errors(node, path, skips_first=False)
    items = node.get("items")
    if isinstance(items, dict):
        errors += _nested_errors(items, f"{path}.items")
    for name, inner in mapping(node.get("properties")).items():
        errors += _nested_errors(mapping(inner), f"{path}.properties[{name}]")
    for name, why in _OUTSIDE_ONLY.items():
        if node.get(name) not in (None, "", False, []):
            errors.append(forbidden(f"{path}.{name}", why))
    if "metadata" in mapping(node.get("properties")):
        why = "must not be specified in a nested context"
        errors.append(forbidden(f"{path}.properties[metadata]", why))
    return errors


def _completeness(judged: Json, declared: Json, path: str, judged_path: str) -> list[FieldError]:
    """Whatever is judged under the junctors of one schema is declared in the other."""
    errors: list[FieldError] = []
    excluded = judged.get("not")
    if isinstance(excluded, dict):
        errors += _nested_completeness(excluded, declared, path, f"{judged_path}.not")
    for name in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(mappings(judged.get(name))):
            where = f"{judged_path}.{name}[{index}]"
            errors += _nested_completeness(part, declared, path, where)
    return errors


def _nested_completeness(
    judged: Json, declared: Json, path: str, judged_path: str
) -> list[FieldError]:
    errors = _completeness(judged, declared, path, judged_path)
    pairs = []
    if isinstance(judged.get("items"), dict):
        pairs.append(("items", judged["items"], declared.get("items")))
    fields = mapping(declared.get("properties"))
    for name, inner in mapping(judged.get("properties")).items():
        pairs.append((f"properties[{name}]", inner, fields.get(name)))
    for name, inner, outer in pairs:
        where = f"{judged_path}.{name}"
        if isinstance(outer, dict):
            errors += _nested_completeness(mapping(inner), outer, f"{path}.{name}", where)
        else:
            errors.append(required(f"{path}.{name}", f"because it is defined in {where}"))
    return errors
