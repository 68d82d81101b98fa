"""Pruning of unknown fields, defaults and the metadata of embedded objects.

All functions take a structural schema as JSON (`openAPIV3Schema` or a part of it), and a value
that they modify. An embedded resource is pruned like a whole object: its apiVersion, kind and
metadata are known fields.

Source: apiextensions-apiserver pkg/apiserver/schema/{pruning,defaulting,objectmeta} of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.cel import patterns
from fakeapi.types import schema
from fakeapi.types.objects import Json, encode, mapping, mappings
from fakeapi.types.schema import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator

_META_FIELDS: Final = ("apiVersion", "kind", "metadata")
_METADATA_TYPE: Final = "meta/v1.ObjectMeta"
_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
#: Properties that are looked through for defaults, and bytes that are copied, in a check's time.
_PROPERTIES_IN_A_CHECK: Final = 20
_BYTES_IN_A_CHECK: Final = 100
_EMBEDS: Final = "x-kubernetes-embedded-resource"


def as_root(node: Json) -> Json:
    """Return the schema of a whole object, marked as an embedded resource."""
    return {**node, _EMBEDS: True}


def below(node: Json | None, key: str) -> tuple[Json | None, bool]:
    """Return the schema of a field, and True if the field is known; it may have no schema."""
    if node is None:
        return None, False
    properties = mapping(node.get("properties"))
    if key in properties:
        return mapping(properties[key]), True
    additional = node.get("additionalProperties")
    if isinstance(additional, dict):
        return additional, True
    return None, additional is True


def schemas_in(node: Json) -> Iterator[Json]:
    """Yield a schema and all schemas in it."""
    yield node
    inner = list(mapping(node.get("properties")).values())
    inner += [node.get(name) for name in ("items", "additionalProperties", "not")]
    for name in ("allOf", "oneOf", "anyOf"):
        inner += mappings(node.get(name))
    for schema_node in inner:
        if isinstance(schema_node, dict):
            yield from schemas_in(schema_node)


def items_of(node: Json | None) -> Json | None:
    """Return the schema of the elements of a list."""
    items = node.get("items") if node is not None else None
    return items if isinstance(items, dict) else None


def child_path(path: str, key: str) -> str:
    """Return the path of a field."""
    return f"{path}.{key}" if path else key


def prune(value: object, node: Json | None, dropped: list[str], path: str = "") -> None:
    """Delete the fields that the schema does not have; append their paths to `dropped`."""
    preserves = node is not None and node.get(_PRESERVES) is True
    if isinstance(value, dict):
        _prune_fields(value, node, dropped, path, preserves=preserves)
    elif isinstance(value, list):
        inner = items_of(node)
        for index, item in enumerate(value):
            if preserves:
                _prune_preserved(item, inner, dropped, f"{path}[{index}]")
            else:
                prune(item, inner, dropped, f"{path}[{index}]")


def _prune_preserved(value: object, node: Json | None, dropped: list[str], path: str) -> None:
    """Prune the parts with a schema in a value that preserves unknown fields."""
    if node is not None:
        prune(value, {**node, _PRESERVES: True}, dropped, path)


def _prune_fields(
    value: Json, node: Json | None, dropped: list[str], path: str, *, preserves: bool
) -> None:
    embeds = node is not None and node.get(_EMBEDS) is True
    for key in list(value):
        if embeds and key in _META_FIELDS:
            continue
        inner, is_known = below(node, key)
        where = child_path(path, key)
        if is_known:
            prune(value[key], inner, dropped, where)
        elif not preserves:
            if path or key not in _META_FIELDS:
                dropped.append(where)
            del value[key]


def drop_nulls(value: object, node: Json | None) -> None:
    """Delete nulls that are not allowed and have no default."""
    if isinstance(value, dict):
        for key in list(value):
            inner, _ = below(node, key)
            if _is_misplaced_null(value[key], inner) and "default" not in mapping(inner):
                del value[key]
            else:
                drop_nulls(value[key], inner)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, items_of(node))


def _is_misplaced_null(value: object, node: Json | None) -> bool:
    return value is None and node is not None and node.get("nullable") is not True


def fill_defaults(value: object, node: Json | None) -> None:
    """Fill in the defaults of fields that are missing, or null where null is not allowed.

    Raises TooExpensive.
    """
    if node is None:
        return
    if isinstance(value, dict):
        properties = mapping(node.get("properties"))
        patterns.count(len(properties) / _PROPERTIES_IN_A_CHECK)
        for key, inner in properties.items():
            declared = mapping(inner)
            if "default" not in declared:
                continue
            if key not in value or _is_misplaced_null(value[key], declared):
                value[key] = _default_of(declared)
        for key in value:
            found, _ = below(node, key)
            if _is_misplaced_null(value[key], found):
                value[key] = _default_of(mapping(found))
            fill_defaults(value[key], found)
    elif isinstance(value, list):
        inner_items = items_of(node)
        for index, item in enumerate(value):
            if _is_misplaced_null(item, inner_items):
                value[index] = _default_of(mapping(inner_items))
            fill_defaults(value[index], inner_items)


def _default_of(node: Json) -> object:
    """Return a copy of the default, None without one. Raises TooExpensive."""
    encoded = encode(node.get("default"))
    patterns.count(1 + len(encoded) / _BYTES_IN_A_CHECK)
    return msgspec.json.decode(encoded)


def embedded_resources(
    value: object, node: Json | None, path: str = ""
) -> Iterator[tuple[str, Json]]:
    """Yield the embedded objects that the schema declares, each with its path."""
    if node is None:
        return
    if isinstance(value, dict):
        if node.get(_EMBEDS) is True:
            yield path, value
        for key, item in value.items():
            is_field = key in mapping(node.get("properties"))
            where = child_path(path, key) if is_field else f"{path}[{key}]"
            yield from embedded_resources(item, below(node, key)[0], where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from embedded_resources(item, items_of(node), f"{path}[{index}]")


def coerce_metadata(value: Json, node: Json, dropped: list[str]) -> None:
    """Convert the metadata of an object, and of embedded objects, to ObjectMeta."""
    coerce_embedded(value, as_root(node), dropped)


def coerce_embedded(value: object, node: Json, dropped: list[str]) -> None:
    """Convert the metadata of the embedded objects of a value to ObjectMeta.

    Raises DecodeError for other metadata, and for a kind or apiVersion that is not a string.
    """
    for path, obj in list(embedded_resources(value, node)):
        for name in ("apiVersion", "kind"):
            if name in obj and not isinstance(obj[name], str):
                raise DecodeError(f"{child_path(path, name)}: Invalid value: must be a string")
        if "metadata" in obj:
            where = child_path(path, "metadata")
            dropped += schema.unknown_fields(_METADATA_TYPE, obj["metadata"], where)
            obj["metadata"] = schema.decode(_METADATA_TYPE, obj["metadata"])
