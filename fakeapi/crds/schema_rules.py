"""Validation of the schemas of CustomResourceDefinitions: keywords, structure, defaults.

A schema is structural if each value has one type, outside of junctors (allOf, anyOf, oneOf, not).
A schema in a junctor only validates: types, defaults and extensions are forbidden there, and its
fields must be declared outside.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation and
pkg/apiserver/schema/{validation,complete,defaulting/validation}.go of v0.36.3.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from fakeapi.cel import patterns
from fakeapi.crds import cel_rules, pruning
from fakeapi.crds.schema_validation import validate
from fakeapi.crds.values import validate_embedded
from fakeapi.types.errors import FieldError, forbidden, in_order, invalid, not_supported, required
from fakeapi.types.objects import Json, mapping, mappings, same_json, text, texts
from fakeapi.types.schema import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = (
    "id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref", "$schema",
)  # fmt: skip
_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDS: Final = "x-kubernetes-embedded-resource"
_EITHER: Final = "x-kubernetes-int-or-string"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
#: Each extension with the type it needs and its values.
_EXTENSIONS: Final = {
    _LIST_TYPE: ("array", ("atomic", "set", "map")),
    "x-kubernetes-map-type": ("object", ("atomic", "granular")),
}
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
#: Keywords that are forbidden in a junctor.
_OUTSIDE_ONLY: Final = (
    *((name, "empty") for name in ("type", "title", "description", _LIST_KEYS, cel_rules.RULES)),
    *((name, "undefined") for name in ("additionalProperties", "default", *_EXTENSIONS)),
    *((name, "false") for name in ("nullable", _PRESERVES, _EMBEDS, _EITHER)),
)
#: The places of a schema: the error text if its type is missing.
_ROOT: Final = "must not be empty at the root"
_FIELD: Final = "must not be empty for specified object fields"
_ITEM: Final = "must not be empty for specified array items"
_JUNCTOR: Final = ""


def validate_schema(root: Json, path: str) -> list[FieldError]:
    """Return the errors of the schema of a version."""
    places = list(_places(root, path, _ROOT))
    errors = [error for node, where, _ in places for error in _keyword_errors(node, where)]
    if errors:
        return errors
    for node, where, place in places:
        check = _junctor_errors if place == _JUNCTOR else _structure_errors
        errors += check(node, where, place)
        errors += _list_errors(node, where)
        errors += _text_errors(node, where)
    errors += _undeclared(root, root, path, path)
    return errors or in_order(list(_default_errors(pruning.as_root(root), path)))


def _places(node: Json, path: str, place: str) -> Iterator[tuple[Json, str, str]]:
    """Yield a schema and all schemas in it, each with its path and place."""
    yield node, path, place
    inside = place == _JUNCTOR
    for name, inner in mapping(node.get("properties")).items():
        yield from _places(
            mapping(inner), f"{path}.properties[{name}]", _JUNCTOR if inside else _FIELD
        )
    for name, there in (("items", _ITEM), ("not", _JUNCTOR), ("additionalProperties", _FIELD)):
        if isinstance(node.get(name), dict) and not (inside and there == _FIELD):
            where = f"{path}.{name}"
            yield from _places(mapping(node[name]), where, _JUNCTOR if inside else there)
    for name in ("allOf", "anyOf", "oneOf"):
        parts = mappings(node.get(name))
        if name == "anyOf" and not inside and parts == _INT_OR_STRING:
            continue  # a way to write int-or-string; the other is the same in allOf[0]
        for index, part in enumerate(parts):
            spared = name == "allOf" and not index and not inside
            if spared and part.get("anyOf") == _INT_OR_STRING:
                part = {**part, "anyOf": []}
            yield from _places(part, f"{path}.{name}[{index}]", _JUNCTOR)


def _keyword_errors(node: Json, path: str) -> Iterator[FieldError]:
    """Yield the errors of keywords that no schema may have, inside and outside of junctors."""
    for name in _UNSUPPORTED:
        if node.get(name) not in (None, "", {}, []):
            yield forbidden(f"{path}.{name}", f"{name} is not supported")
    if isinstance(node.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if node.get(_PRESERVES) is False:
        yield invalid(f"{path}.{_PRESERVES}", value=False, detail="must be true or undefined")
    declared = text(node.get("type"))
    if declared and declared not in _TYPES:
        yield not_supported(f"{path}.type", declared, _TYPES)
    if node.get("uniqueItems") is True:
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", why)
    if node.get("properties") and node.get("additionalProperties") not in (None, True):
        why = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", why)


def _structure_errors(node: Json, path: str, place: str) -> Iterator[FieldError]:
    """Yield the errors of a schema outside of junctors."""
    declared, embeds = text(node.get("type")), node.get(_EMBEDS) is True
    if embeds and declared != "object":
        why, where = f"must be object if {_EMBEDS} is true", f"{path}.type"
        yield invalid(where, declared, why) if declared else required(where, why)
    elif not declared and node.get(_EITHER) is not True and node.get(_PRESERVES) is not True:
        yield required(f"{path}.type", place)
    if declared == "array" and not isinstance(node.get("items"), dict):
        yield required(f"{path}.items", "must be specified")
    for name in (_PRESERVES, _EMBEDS):
        if node.get(_EITHER) is True and node.get(name) is True:
            why = f"must be false if {_EITHER} is true"
            yield invalid(f"{path}.{name}", value=True, detail=why)
    if embeds and node.get(_PRESERVES) is not True and not node.get("properties"):
        why = f"must not be empty if {_EMBEDS} is true without {_PRESERVES}"
        yield required(f"{path}.properties", why)
    if (embeds or place == _ROOT) and node.get("additionalProperties") is not None:
        where = "at the root" if place == _ROOT else f"if {_EMBEDS} is set"
        yield forbidden(f"{path}.additionalProperties", f"must not be used {where}")
    if place == _ROOT:
        if declared not in ("", "object"):
            yield invalid(f"{path}.type", declared, "must be object at the root")
        if node.get("nullable") is True:
            yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if embeds or place == _ROOT:
        yield from _type_meta_errors(node, path, place)


def _type_meta_errors(node: Json, path: str, place: str) -> Iterator[FieldError]:
    """Yield the errors of kind, apiVersion and metadata of an object."""
    fields = mapping(node.get("properties"))
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        declared = text(mapping(fields.get(name)).get("type"))
        if name in fields and declared != wanted:
            yield invalid(f"{path}.properties[{name}].type", declared, f"must be {wanted}")
    metadata = mapping(fields.get("metadata"))
    others = metadata.keys() - {"type", "properties", "default"}
    others |= mapping(metadata.get("properties")).keys() - {"name", "generateName"}
    if place == _ROOT and others:
        why = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        yield forbidden(f"{path}.properties[metadata]", why)


def _junctor_errors(node: Json, path: str, _: str) -> Iterator[FieldError]:
    for name, wanted in _OUTSIDE_ONLY:
        if node.get(name) not in (None, "", False, []):
            yield forbidden(f"{path}.{name}", f"must be {wanted} to be structural")
    if "metadata" in mapping(node.get("properties")):
        why = "must not be specified in a nested context"
        yield forbidden(f"{path}.properties[metadata]", why)


def _list_errors(node: Json, path: str) -> Iterator[FieldError]:
    """Yield the errors of list types, map types and keys of lists."""
    for name, (needed, supported) in _EXTENSIONS.items():
        value, declared = node.get(name), text(node.get("type"))
        if value is not None and declared != needed:
            why, where = f"must be {needed} if {name} is specified", f"{path}.type"
            yield invalid(where, declared, why) if declared else required(where, why)
        if value is not None and value not in supported:
            yield not_supported(f"{path}.{name}", value, supported)
    keys, list_type, items = texts(node.get(_LIST_KEYS)), node.get(_LIST_TYPE), node.get("items")
    if keys and list_type != "map":
        why, where = f"must be map if {_LIST_KEYS} is non-empty", f"{path}.{_LIST_TYPE}"
        yield required(where, why) if list_type is None else invalid(where, list_type, why)
    if list_type != "map":
        return
    if not keys:
        yield required(f"{path}.{_LIST_KEYS}", f"must not be empty if {_LIST_TYPE} is map")
    if isinstance(items, dict) and items.get("type") != "object":
        why = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), why)
    elif isinstance(items, dict):
        yield from _key_errors(keys, items, path)


def _key_errors(keys: list[str], items: Json, path: str) -> Iterator[FieldError]:
    fields, always = mapping(items.get("properties")), texts(items.get("required"))
    for key in keys:
        if key not in fields:
            why = "entries must all be names of item properties"
            yield invalid(f"{path}.{_LIST_KEYS}", keys, why)
        elif key not in always and "default" not in mapping(fields[key]):
            why = (
                f"this property is in {_LIST_KEYS}, so it must have a default or be a required "
                "property"
            )
            yield required(f"{path}.items.properties[{key}].default", why)


def _text_errors(node: Json, path: str) -> Iterator[FieldError]:
    """Yield the errors of patterns and of rules in CEL."""
    pattern = text(node.get("pattern"))
    if problem := patterns.problem(pattern):
        why = f"must be a valid regular expression, but isn't: {problem}"
        yield invalid(f"{path}.pattern", pattern, why)
    for index, rule in enumerate(mappings(node.get(cel_rules.RULES))):
        where, expression = f"{path}.{cel_rules.RULES}[{index}].rule", text(rule.get("rule"))
        if not expression.strip():
            yield required(where, "rule is not specified")
        elif problem := cel_rules.problem(expression):
            yield invalid(where, rule, f"compilation failed: {problem}")


def _undeclared(judged: Json, declared: Json, path: str, judged_path: str) -> Iterator[FieldError]:
    """Yield the errors of fields in the junctors of `judged` that `declared` does not have."""
    inner = [(f"{judged_path}.not", judged["not"])] if isinstance(judged.get("not"), dict) else []
    for name in ("allOf", "anyOf", "oneOf"):
        parts = enumerate(mappings(judged.get(name)))
        inner += [(f"{judged_path}.{name}[{index}]", part) for index, part in parts]
    for where, part in inner:
        yield from _undeclared_fields(mapping(part), declared, path, where)


def _undeclared_fields(
    judged: Json, declared: Json, path: str, judged_path: str
) -> Iterator[FieldError]:
    yield from _undeclared(judged, declared, path, judged_path)
    fields = mapping(declared.get("properties"))
    pairs = [
        (f"properties[{name}]", inner, fields.get(name))
        for name, inner in mapping(judged.get("properties")).items()
    ]
    if isinstance(judged.get("items"), dict):
        pairs.append(("items", judged["items"], declared.get("items")))
    for name, inner, outer in pairs:
        where = f"{judged_path}.{name}"
        if isinstance(outer, dict):
            yield from _undeclared_fields(mapping(inner), outer, f"{path}.{name}", where)
        else:
            yield required(f"{path}.{name}", f"because it is defined in {where}")


def _default_errors(node: Json, path: str) -> Iterator[FieldError]:
    """Yield the errors of defaults: unknown fields, values that the schema does not accept."""
    if "default" in node:
        value, where = node["default"], f"{path}.default"
        pruned = copy.deepcopy(value)
        pruning.prune(pruned, node, [])
        if not same_json(pruned, value):
            yield invalid(where, value, "must not have unknown fields")
        yield from _value_errors(node, value, where)
    if isinstance(node.get("items"), dict):
        yield from _default_errors(mapping(node["items"]), f"{path}.items")
    for name, inner in mapping(node.get("properties")).items():
        yield from _default_errors(mapping(inner), f"{path}.properties[{name}]")


def _value_errors(node: Json, value: object, path: str) -> Iterator[FieldError]:
    try:
        pruning.coerce_embedded(copy.deepcopy(value), node, [])
    except DecodeError as error:
        yield invalid(path, value, str(error))
        return
    embedded = validate_embedded(value, node, path)
    yield from embedded
    relaxed = copy.deepcopy(node)
    for inner in pruning.schemas_in(relaxed):
        inner.pop(_EITHER, None)  # upstream does not check it in defaults
    for cause in () if embedded else validate(relaxed, value):
        field = path if cause.field == "<nil>" else f"{path}.{cause.field}"
        yield FieldError(cause.reason, field, cause.detail, cause.value)
