"""What a schema in a custom resource definition may say.

Whether it is structural is judged in structural_rules.py; here are the keywords that are not
supported, the extensions that must fit their types, and the defaults, which must be valid.

Source: ValidateCustomResourceDefinitionOpenAPISchema in apiextensions-apiserver
pkg/apis/apiextensions/validation, and pkg/apiserver/schema/defaulting/validation.go of v0.36.3.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from fakeapi.crds import cel_rules, formats, pruning
from fakeapi.crds.embedded import validate_embedded
from fakeapi.crds.schema_validation import equal, validate
from fakeapi.crds.structural_rules import validate_structural
from fakeapi.types.errors import FieldError, forbidden, in_order, invalid, not_supported, required
from fakeapi.types.objects import Json, mapping, mappings, text, texts
from fakeapi.types.schema import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_META_FIELDS: Final = ("metadata", "kind", "apiVersion")
_JUNCTORS: Final = ("allOf", "oneOf", "anyOf")
_UNSUPPORTED: Final = (
    "id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref",
)  # fmt: skip
#: What the root of a schema may say where the status has an endpoint of its own.
_AT_ROOT: Final = (
    "description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum",
    "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems",
    "multipleOf", "required", "items", "properties", "externalDocs", "example",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
)  # fmt: skip
_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
_EITHER: Final = "x-kubernetes-int-or-string"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_MAP_TYPE: Final = "x-kubernetes-map-type"
_RULES: Final = cel_rules.RULES
_REASONS: Final = (
    "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired",
)  # fmt: skip


def validate_schema(node: Json, path: str, *, has_status: bool) -> list[FieldError]:
    """What is wrong with the schema of a version."""
    errors = _root_errors(node, path) if has_status else []
    if node.get("nullable") is True:
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    if _can_be_structural(node):
        structural = validate_structural(node, path)
        errors += structural or in_order(list(_default_errors(pruning.as_root(node), path)))
    return errors + _keyword_errors(node, path, is_root=True)


def _can_be_structural(node: Json) -> bool:
    """A schema with keywords that are not supported is not looked at any closer."""
    refused = any(node.get(name) not in (None, "", {}, []) for name in (*_UNSUPPORTED, "$schema"))
    is_odd = isinstance(node.get("items"), list) or node.get(_PRESERVES) is False
    return not refused and not is_odd and all(map(_can_be_structural, _inner_schemas(node)))


def unknown_formats(node: Json) -> list[str]:
    """The formats in a schema that values are not held to, each as often as it is there."""
    found = []
    declared, type_name = text(node.get("format")), text(node.get("type"))
    if declared and not formats.is_known(declared, type_name):
        found.append(declared)
    for inner in _inner_schemas(node):
        found += unknown_formats(inner)
    return found


def rules_not_evaluated(node: Json) -> list[str]:
    """The CEL rules in a schema that are not evaluated here, each with the reason."""
    found = list(cel_rules.not_evaluated(node))
    for inner in _inner_schemas(node):
        found += rules_not_evaluated(inner)
    return found


def has_rules(node: Json) -> bool:
    """Whether there are CEL rules in a schema."""
    return bool(node.get(_RULES)) or any(map(has_rules, _inner_schemas(node)))


def has_defaults(node: Json) -> bool:
    """Whether there are defaults in a schema."""
    return "default" in node or any(map(has_defaults, _inner_schemas(node)))


def _inner_schemas(node: Json) -> Iterator[Json]:
    yield from (mapping(inner) for inner in mapping(node.get("properties")).values())
    for name in ("items", "additionalProperties", "not"):
        if isinstance(node.get(name), dict):
            yield mapping(node[name])
    for name in _JUNCTORS:
        yield from mappings(node.get(name))


def _root_errors(node: Json, path: str) -> list[FieldError]:
    for name in node:
        if name == "type":
            if node[name] != "object":
                why = (
                    'only "object" is allowed as the type at the root of the schema if the status '
                    "subresource is enabled"
                )
                return [invalid(f"{path}.type", node[name], why)]
        elif name not in _AT_ROOT:
            why = (
                f"only {list(_AT_ROOT)} fields are allowed at the root of the schema if the status "
                "subresource is enabled"
            )
            return [invalid(path, node, why)]
    return []


def _default_errors(node: Json, path: str) -> Iterator[FieldError]:
    """Defaults have to be values that the schema takes, and lose nothing by pruning."""
    if "default" in node:
        value, where = node["default"], f"{path}.default"
        pruned = copy.deepcopy(value)
        pruning.prune(pruned, node, [])
        if not equal(pruned, value):
            yield invalid(where, value, "must not have unknown fields")
        yield from _value_errors(node, value, where)
    if isinstance(node.get("items"), dict):
        yield from _default_errors(mapping(node["items"]), f"{path}.items")
    for name, inner in mapping(node.get("properties")).items():
        yield from _default_errors(mapping(inner), f"{path}.properties[{name}]")


def _value_errors(node: Json, value: object, path: str) -> Iterator[FieldError]:
    """What is wrong with a default: its metadata where it has any, or else all the rest."""
    try:
        pruning.coerce_embedded(copy.deepcopy(value), node, [])
    except DecodeError as error:
        yield invalid(path, value, str(error))
        return
    embedded = validate_embedded(value, node, path)
    if embedded:
        yield from embedded
        return
    for found in validate(_of_any_type(node), value):
        field = path if found.field == "<nil>" else f"{path}.{found.field}"
        yield FieldError(found.reason, field, found.detail, found.value)


def _of_any_type(node: Json) -> Json:
    """The schema as upstream judges defaults by it: int-or-string means nothing to it there."""
    relaxed = {name: item for name, item in node.items() if name != _EITHER}
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), dict):
            relaxed[name] = _of_any_type(mapping(node[name]))
    if "properties" in node:
        fields = mapping(node["properties"])
        relaxed["properties"] = {name: _of_any_type(mapping(fields[name])) for name in fields}
    return relaxed


def _keyword_errors(
    node: Json, path: str, *, is_root: bool = False, no_defaults: str = "", in_meta: bool = False
) -> list[FieldError]:
    """The keywords of one schema and of those in it; `no_defaults` says why none may be there."""
    errors = list(_unsupported_errors(node, path, no_defaults, in_meta=in_meta))
    if node.get("uniqueItems") is True:
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{path}.uniqueItems", why))
    properties, additional = mapping(node.get("properties")), node.get("additionalProperties")
    if properties and additional is not None and additional is not True:
        why = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden(f"{path}.additionalProperties", why))
    if isinstance(additional, dict):
        reason = "inside additionalProperties applying to object metadata"
        errors += _keyword_errors(
            additional,
            f"{path}.additionalProperties",
            no_defaults=reason if in_meta else no_defaults,
            in_meta=in_meta,
        )
    is_object = is_root or node.get("x-kubernetes-embedded-resource") is True
    for name, inner in properties.items():
        is_meta = is_object and name in _META_FIELDS
        reason = f"in top-level {name}" if is_meta and is_root else no_defaults
        errors += _keyword_errors(
            mapping(inner),
            f"{path}.properties[{name}]",
            no_defaults=reason,
            in_meta=in_meta or is_meta,
        )
    errors += _in_others(node, path, no_defaults, in_meta=in_meta)
    for check in (_map_errors, _list_errors, _key_errors, _element_errors, _rule_errors):
        errors += check(node, path)
    return errors


def _in_others(node: Json, path: str, no_defaults: str, *, in_meta: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("not", "items"):
        if isinstance(node.get(name), dict):
            errors += _keyword_errors(
                mapping(node[name]), f"{path}.{name}", no_defaults=no_defaults, in_meta=in_meta
            )
    for name in _JUNCTORS:
        for index, part in enumerate(mappings(node.get(name))):
            where = f"{path}.{name}[{index}]"
            errors += _keyword_errors(part, where, no_defaults=no_defaults, in_meta=in_meta)
    return errors


def _unsupported_errors(
    node: Json, path: str, no_defaults: str, *, in_meta: bool
) -> Iterator[FieldError]:
    declared = text(node.get("type"))
    if declared and declared not in _TYPES:
        yield not_supported(f"{path}.type", declared, _TYPES)
    if "default" in node and no_defaults:
        yield forbidden(f"{path}.default", f"must not be set {no_defaults}")
    for name in _UNSUPPORTED:
        if node.get(name) not in (None, "", {}, []):
            yield forbidden(f"{path}.{name}", f"{name} is not supported")
    if declared == "null":
        why = "type cannot be set to null, use nullable as an alternative"
        yield forbidden(f"{path}.type", why)
    if isinstance(node.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if in_meta and node.get("x-kubernetes-embedded-resource") is True:
        where = f"{path}.x-kubernetes-embedded-resource"
        yield forbidden(where, "must not be used inside of resource meta")
    if node.get(_PRESERVES) is False:
        where = f"{path}.{_PRESERVES}"
        yield invalid(where, value=False, detail="must be true or undefined")


def _extension_errors(
    node: Json, path: str, name: str, type_name: str, known: tuple[str, ...]
) -> Iterator[FieldError]:
    """An extension goes with one type and has one of a few values."""
    value = node.get(name)
    if value is None:
        return
    declared = text(node.get("type"))
    if declared != type_name:
        why = f"must be {type_name} if {name} is specified"
        where = f"{path}.type"
        yield invalid(where, declared, why) if declared else required(where, why)
    if value not in known:
        yield not_supported(f"{path}.{name}", value, known)


def _map_errors(node: Json, path: str) -> Iterator[FieldError]:
    return _extension_errors(node, path, _MAP_TYPE, "object", ("atomic", "granular"))


def _list_errors(node: Json, path: str) -> Iterator[FieldError]:
    yield from _extension_errors(node, path, _LIST_TYPE, "array", ("atomic", "set", "map"))
    items = node.get("items")
    if node.get(_LIST_TYPE) != "set" or node.get("type") != "array" or not isinstance(items, dict):
        return
    why = "must be atomic as item of a list with x-kubernetes-list-type=set"
    inner = items.get("type")
    if inner == "array" and items.get(_LIST_TYPE) not in (None, "atomic"):
        yield invalid(f"{path}.items.{_LIST_TYPE}", items.get(_LIST_TYPE), why)
    elif inner == "object" and items.get(_MAP_TYPE) != "atomic":
        yield invalid(f"{path}.items.{_MAP_TYPE}", items.get(_LIST_TYPE), why)


def _key_errors(node: Json, path: str) -> Iterator[FieldError]:
    """The keys of a list that is a map are scalar fields of its elements."""
    keys, list_type, items = texts(node.get(_LIST_KEYS)), node.get(_LIST_TYPE), node.get("items")
    if keys and list_type != "map":
        why = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.{_LIST_TYPE}"
        yield required(where, why) if list_type is None else invalid(where, list_type, why)
    if list_type != "map":
        return
    if not keys:
        why = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.{_LIST_KEYS}", why)
    if items is None:
        why = "must have a schema if x-kubernetes-list-type is map"
        yield required(f"{path}.items", why)
    elif not isinstance(items, dict):
        why = "must only have a single schema if x-kubernetes-list-type is map"
        yield invalid(f"{path}.items", items, why)
    elif items.get("type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), why)
    else:
        yield from _key_field_errors(keys, items, path)


def _key_field_errors(keys: list[str], items: Json, path: str) -> Iterator[FieldError]:
    fields = mapping(items.get("properties"))
    for index, key in enumerate(keys):
        if key not in fields:
            why = "entries must all be names of item properties"
            yield invalid(f"{path}.{_LIST_KEYS}", keys, why)
        elif mapping(fields[key]).get("type") in ("array", "object"):
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", items.get("type"), why)
        if key in keys[:index]:
            yield invalid(f"{path}.{_LIST_KEYS}", keys, "must not contain duplicate entries")


def _element_errors(node: Json, path: str) -> Iterator[FieldError]:
    """Elements of sets and maps are there, and so are their keys."""
    list_type, items = text(node.get(_LIST_TYPE)), node.get("items")
    if list_type not in ("set", "map") or not isinstance(items, dict):
        return
    if items.get("nullable") is True:
        why = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield forbidden(f"{path}.items.nullable", why)
    if list_type != "map":
        return
    for key in texts(node.get(_LIST_KEYS)):
        declared = mapping(items.get("properties")).get(key)
        if not isinstance(declared, dict):
            continue
        where = f"{path}.items.properties[{key}]"
        if key not in texts(items.get("required")) and "default" not in declared:
            why = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a "
                "required property"
            )
            yield required(f"{where}.default", why)
        if declared.get("nullable") is True:
            why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden(f"{where}.nullable", why)


def _has_breaks(value: str) -> bool:
    return "\n" in value or "\r" in value


def _rule_errors(node: Json, path: str) -> Iterator[FieldError]:
    """Rules in CEL: whether they are CEL at all, and the texts around them."""
    for index, rule in enumerate(mappings(node.get(_RULES))):
        where = f"{path}.{_RULES}[{index}]"
        expression, message = text(rule.get("rule")), text(rule.get("message"))
        if not expression.strip():
            yield required(f"{where}.rule", "rule is not specified")
        elif syntax := cel_rules.problem(expression):
            yield invalid(f"{where}.rule", rule, f"compilation failed: {syntax}")
        elif message and not message.strip():
            yield invalid(f"{where}.message", message, "must be non-empty if specified")
        elif _has_breaks(message.strip()):
            yield invalid(f"{where}.message", message, "must not contain line breaks")
        elif _has_breaks(expression.strip()) and not message.strip():
            why = "message must be specified if rule contains line breaks"
            yield required(f"{where}.message", why)
        message_expression = text(rule.get("messageExpression"))
        if message_expression and not message_expression.strip():
            why = "messageExpression must be non-empty if specified"
            yield required(f"{where}.messageExpression", why)
        if rule.get("reason") is not None and rule["reason"] not in _REASONS:
            yield not_supported(f"{where}.reason", rule["reason"], _REASONS)
        field_path = text(rule.get("fieldPath"))
        if field_path and not field_path.strip():
            yield invalid(f"{where}.fieldPath", field_path, "must be non-empty if specified")
        if _has_breaks(field_path):
            yield invalid(f"{where}.fieldPath", field_path, "must not contain line breaks")
