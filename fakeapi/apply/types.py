"""Types for server-side apply: the parts that merge, and the parts that are replaced whole.

    Type        allows a scalar, a list, a map (or struct), or several of these
    ListType    atomic: replaced whole; else a set of scalars, or objects with key fields
    MapType     atomic, or merged entry by entry; `fields` are the fields of a struct

There are three sources of types:

    built_in(NAME)       a type of schema.json, from the list types and struct types of k8s.io/api
    UNTYPED              a custom resource without a schema: maps merge, lists are replaced whole
    structural(SCHEMA)   the openAPIV3Schema of a CustomResourceDefinition

Source: kube-openapi pkg/schemaconv/openapi.go and structured-merge-diff schema/elements.go.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Final

from fakeapi.types import schema
from fakeapi.types.objects import Json, mapping, text, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The built-in type of the metadata of all objects.
METADATA_TYPE: Final = "meta/v1.ObjectMeta"


@dataclasses.dataclass(slots=True, eq=False)
class Type:
    """The values that a field may have; `typed.validate` returns an error for any other.

    `scalar` is empty if no scalar is allowed, else `string`, `numeric`, `boolean` or `untyped`.
    """

    name: str
    _: dataclasses.KW_ONLY
    scalar: str = ""
    list: ListType | None = None
    map: MapType | None = None

    @property
    def holds_anything(self) -> bool:
        """Return True if values of undeclared types are allowed."""
        return self.scalar == "untyped" and self.map is not None


@dataclasses.dataclass(slots=True, eq=False)
class ListType:
    """A list. `keys` are the key fields of the elements of an associative list."""

    element: Type
    _: dataclasses.KW_ONLY
    is_atomic: bool = True
    keys: tuple[str, ...] = ()
    #: The values of key fields that an element leaves out.
    defaults: Mapping[str, object] = dataclasses.field(default_factory=dict)


class MapType:
    """A struct or a map. The fields of a struct are found on first use.

    `element` is the type of entries that are not fields; None allows no such entry.
    """

    __slots__ = ("_fields", "_find", "element", "is_atomic")

    def __init__(
        self,
        find: Callable[[], Mapping[str, Type]] | None = None,
        *,
        element: Type | None = None,
        is_atomic: bool = False,
    ) -> None:
        self._find = find
        self._fields: Mapping[str, Type] | None = None if find else {}
        self.element = element
        self.is_atomic = is_atomic

    @property
    def fields(self) -> Mapping[str, Type]:
        if self._fields is None:
            assert self._find is not None
            self._fields = self._find()
        return self._fields

    def declares(self, name: str) -> bool:
        """Return True for a field of the struct, not only an entry of a map."""
        return name in self.fields

    def type_of(self, name: str) -> Type | None:
        """Return the type of a field or entry, None if it is not allowed."""
        return self.fields.get(name, self.element)


def _untyped(name: str, *, merges: bool) -> Type:
    made = Type(name, scalar="untyped")
    atomic = made if not merges else ATOMIC
    made.list = ListType(atomic)
    made.map = MapType(element=made, is_atomic=not merges)
    return made


#: Any value, replaced whole.
ATOMIC: Final = _untyped("__untyped_atomic_", merges=False)
#: Any value; maps merge, lists are replaced whole.
UNTYPED: Final = _untyped("__untyped_deduced_", merges=True)

_SCALARS: Final = {
    "string": "string", "bytes": "string", "bool": "boolean", "int": "numeric", "int32": "numeric",
    "int64": "numeric", "float64": "numeric", "quantity": "untyped", "intorstring": "untyped",
    "time": "untyped", "microtime": "untyped", "duration": "string",
}  # fmt: skip


_ZEROS: Final[dict[str, object]] = {"string": "", "int32": 0, "int64": 0, "bool": False}


@functools.cache
def built_in(name: str) -> Type:
    """Return the type `name` of schema.json. Raw JSON is any value, replaced whole."""
    if name in _SCALARS:
        return Type(name, scalar=_SCALARS[name])
    if name == "resources":
        return Type(name, map=MapType(element=built_in("quantity")))
    if name.startswith("[]"):
        return Type(name, list=ListType(built_in(name[2:])))
    if name.startswith("{}"):
        return Type(name, map=MapType(element=built_in(name[2:])))
    if not schema.fields_of(name):
        # Upstream's OpenAPI declares a struct without fields as an object of any content.
        empty = name in schema.type_names()
        return Type(name, map=MapType(element=UNTYPED)) if empty else ATOMIC
    is_atomic = name in schema.atomic_types()
    return Type(name, map=MapType(lambda: _fields_of(name), is_atomic=is_atomic))


def _fields_of(name: str) -> dict[str, Type]:
    return {field.name: _field_type(field) for field in schema.fields_of(name).values()}


def _field_type(field: schema.Field) -> Type:
    plain = built_in(field.type)
    if plain.list is not None and plain is not ATOMIC:
        return Type(field.type, list=_list_type(field, plain.list.element))
    if plain.map is not None and plain is not ATOMIC and field.map_type:
        inner, is_atomic = plain.map, field.map_type == "atomic"
        return Type(
            field.type,
            map=MapType(lambda: inner.fields, element=inner.element, is_atomic=is_atomic),
        )
    return plain


def _list_type(field: schema.Field, element: Type) -> ListType:
    """Return the list type that a field, or else its strategic merge patch, declares."""
    keys: tuple[str, ...] = ()
    if field.list_type == "map":
        keys = field.list_map_keys
    elif field.list_type:
        return ListType(element, is_atomic=field.list_type != "set")
    elif "merge" not in field.strategies:
        return ListType(element)
    elif field.merge_key:
        keys = (field.merge_key,)
    defaults = {}
    for key in keys:
        declared = schema.fields_of(field.type.removeprefix("[]")).get(key)
        if declared is not None and declared.default is not None:
            defaults[key] = declared.default
        elif declared is not None and not declared.flags and declared.type in _ZEROS:
            defaults[key] = _ZEROS[declared.type]  # the default in upstream's OpenAPI, too
    return ListType(element, is_atomic=False, keys=keys, defaults=defaults)


def structural(schema_of: Json) -> Type:
    """Return the type of a custom resource, from the openAPIV3Schema of its version.

    kind, apiVersion and metadata have the types that all objects have.
    """
    common = {
        "apiVersion": built_in("string"),
        "kind": built_in("string"),
        "metadata": built_in(METADATA_TYPE),
    }
    body = _structural(schema_of, keeps_unknown=False)
    if body.map is None:
        return UNTYPED
    declared = body.map
    return Type(
        "custom resource",
        map=MapType(
            lambda: {**declared.fields, **common},
            element=declared.element,
            is_atomic=declared.is_atomic,
        ),
    )


def _structural(node: Json, *, keeps_unknown: bool) -> Type:
    keeps_unknown = keeps_unknown or node.get("x-kubernetes-preserve-unknown-fields") is True
    kind = text(node.get("type"))
    if node.get("x-kubernetes-int-or-string") is True:
        return Type("int-or-string", scalar="untyped")
    if kind == "object":
        return Type(kind, map=_structural_map(node, keeps_unknown=keeps_unknown))
    if kind == "array":
        return Type(kind, list=_structural_list(node, keeps_unknown=keeps_unknown))
    if kind in ("integer", "number"):
        return Type(kind, scalar="numeric")
    if kind == "boolean":
        return Type(kind, scalar="boolean")
    if kind == "string":
        plain = node.get("format") in (None, "", "byte")
        return Type(kind, scalar="string" if plain else "untyped")
    return Type(
        "any",
        scalar="untyped",
        list=_structural_list(node, keeps_unknown=keeps_unknown),
        map=_structural_map(node, keeps_unknown=keeps_unknown),
    )


def _structural_map(node: Json, *, keeps_unknown: bool) -> MapType:
    properties = mapping(node.get("properties"))
    additional = node.get("additionalProperties")
    element: Type | None = None
    if isinstance(additional, dict):
        element = _structural(additional, keeps_unknown=keeps_unknown)
    elif additional is True or (additional is None and (keeps_unknown or not properties)):
        element = UNTYPED

    def find() -> dict[str, Type]:
        return {
            name: _structural(mapping(inner), keeps_unknown=keeps_unknown)
            for name, inner in properties.items()
        }

    is_atomic = node.get("x-kubernetes-map-type") == "atomic"
    return MapType(find, element=element, is_atomic=is_atomic)


def _structural_list(node: Json, *, keeps_unknown: bool) -> ListType:
    items = mapping(node.get("items"))
    element = _structural(items, keeps_unknown=keeps_unknown) if items else ATOMIC
    list_type = node.get("x-kubernetes-list-type")
    if list_type == "set":
        return ListType(element, is_atomic=False)
    if list_type != "map":
        return ListType(element)
    keys = tuple(texts(node.get("x-kubernetes-list-map-keys")))
    properties = mapping(items.get("properties"))
    defaults = {
        key: mapping(properties.get(key))["default"]
        for key in keys
        if "default" in mapping(properties.get(key))
    }
    return ListType(element, is_atomic=False, keys=keys, defaults=defaults)
