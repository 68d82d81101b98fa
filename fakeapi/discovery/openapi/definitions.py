"""The definitions of OpenAPI v3: a JSON schema for every type, from the table of types.

A definition refers to others by `$ref`; a document contains all definitions that it reaches
(`closure`). Definitions of built-in types are made once per process, on first use. Descriptions are
one line each, from descriptions.json; `kubectl explain` shows them.

Source: kube-openapi pkg/generators/openapi.go. Required fields, defaults and extensions are those
of api/openapi-spec/v3 of Kubernetes v1.36.3.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.types import schema
from fakeapi.types.objects import Json, mapping, sequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fakeapi.types.schema import Field

_DESCRIPTIONS: Final = Path(__file__).with_name("descriptions.json")
#: The key of descriptions of fields that mean the same in all types.
_ANY_TYPE: Final = ""
REFERENCE: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
PATCH: Final = f"{_META}Patch"
STATUS: Final = f"{_META}Status"
DELETE_OPTIONS: Final = f"{_META}DeleteOptions"
RESOURCE_LIST: Final = f"{_META}APIResourceList"
_LIST_META: Final = f"{_META}ListMeta"
_RAW: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"


class _Forms(msgspec.Struct):
    """The forms of types that are not structs, and the parameters of requests."""

    scalars: dict[str, Json]
    #: The default of scalars that are neither pointers nor left out when empty.
    zeros: dict[str, object]
    #: Names of definitions.
    referred: dict[str, str]
    own: dict[str, Json]
    #: Type and description.
    parameters: dict[str, tuple[str, str]]


FORMS: Final = msgspec.json.decode(Path(__file__).with_name("forms.json").read_bytes(), type=_Forms)
_PREFIXES: Final = {"meta/v1": _META, "apiextensions/v1": _EXTENSIONS}


@functools.cache
def _descriptions() -> dict[str, dict[str, str]]:
    return msgspec.json.decode(_DESCRIPTIONS.read_bytes(), type=dict[str, dict[str, str]])


@functools.cache
def descriptions_digest() -> str:
    """Return a hash of all descriptions."""
    return hashlib.sha256(_DESCRIPTIONS.read_bytes()).hexdigest()


def described(type_name: str, field: str = "") -> str:
    """Return the description of a field, or of the type itself; empty if there is none."""
    own = _descriptions().get(type_name, {}).get(field)
    if own is None and field:
        own = _descriptions()[_ANY_TYPE].get(field)
    return own or ""


@functools.cache
def definition_name(type_name: str) -> str:
    """Return the name of a built-in type's definition: core/v1.Pod is io.k8s.api.core.v1.Pod."""
    package, _, short = type_name.rpartition(".")
    prefix = _PREFIXES.get(package) or f"io.k8s.api.{package.replace('/', '.')}."
    return f"{prefix}{short}"


@functools.cache
def _type_names() -> dict[str, str]:
    return {definition_name(name): name for name in schema.type_names()}


def reference(name: str) -> Json:
    """Return a reference to a definition."""
    return {"$ref": f"{REFERENCE}{name}"}


@functools.cache
def built_in(name: str) -> Json:
    """Return the definition `name`. Raises LookupError for a name that is not built in."""
    own_form = FORMS.own.get(name)
    if own_form is not None:
        text = described(name.rpartition(".")[2])
        return {"description": text, **own_form} if text else own_form
    return _struct(_type_names()[name])


def _struct(type_name: str) -> Json:
    definition: Json = {"type": "object"}
    text = described(type_name)
    if text:
        definition["description"] = text
    fields = schema.fields_of(type_name)
    if fields:
        definition["properties"] = {
            field.name: _property(type_name, field)
            for field in sorted(fields.values(), key=lambda field: field.name)
        }
    required = [field.name for field in fields.values() if field.is_required]
    if required:
        definition["required"] = required
    if type_name in schema.atomic_types():
        definition["x-kubernetes-map-type"] = "atomic"
    return definition


def _property(type_name: str, field: Field) -> Json:
    result = _value(type_name, field.type)
    default = _default_of(field)
    if default is not None:
        result["default"] = default
    text = described(type_name, field.name)
    if text:
        result["description"] = text
    if field.list_map_keys:
        result["x-kubernetes-list-map-keys"] = list(field.list_map_keys)
    if field.list_type:
        result["x-kubernetes-list-type"] = field.list_type
    if field.map_type:
        result["x-kubernetes-map-type"] = field.map_type
    if field.merge_key:
        result["x-kubernetes-patch-merge-key"] = field.merge_key
    if field.strategies:
        result["x-kubernetes-patch-strategy"] = ",".join(field.strategies)
    return _flattened(result)


def _default_of(field: Field) -> object:
    """Return the value of a missing field: its declared default, else Go's zero value."""
    if field.default is not None:
        return field.default
    if "p" in field.flags:
        return None
    if _is_struct(field.type):
        return {}
    return None if set("oz") & set(field.flags) else FORMS.zeros.get(field.type)


def _is_struct(type_name: str) -> bool:
    return "/" in type_name and not type_name.startswith(("[]", "{}"))


def _value(owner: str, type_name: str) -> Json:
    """Return the schema of a type. A reference is wrapped, so that keywords may stand beside it."""
    if type_name.startswith("[]"):
        return {"type": "array", "items": _item(owner, type_name[2:])}
    if type_name == "resources":
        return {"type": "object", "additionalProperties": _item(owner, "quantity")}
    if type_name.startswith("{}"):
        return {"type": "object", "additionalProperties": _item(owner, type_name[2:])}
    if type_name in FORMS.scalars:
        return dict(FORMS.scalars[type_name])
    if type_name == "raw":
        return {"allOf": [reference(_raw_name(owner))]}
    return {"allOf": [reference(FORMS.referred.get(type_name) or definition_name(type_name))]}


def _raw_name(owner: str) -> str:
    if owner == "meta/v1.ManagedFieldsEntry":
        return f"{_META}FieldsV1"
    return f"{_EXTENSIONS}JSON" if owner.startswith("apiextensions/") else _RAW


def _item(owner: str, type_name: str) -> Json:
    item = _value(owner, type_name)
    if _is_struct(type_name):
        item["default"] = {}
    elif type_name in FORMS.zeros:
        item["default"] = FORMS.zeros[type_name]
    return _flattened(item)


def _flattened(value: Json) -> Json:
    """Return a reference without its wrapper if no keyword is beside it."""
    if value.keys() == {"allOf"}:
        return mapping(sequence(value["allOf"])[0])
    return value


def list_definition(item: str, text: str) -> Json:
    """Return the definition of a list of objects."""
    items = {"allOf": [reference(item)], "default": {}}
    properties: Json = {
        "apiVersion": {"type": "string", "description": described("", "apiVersion")},
        "items": {"type": "array", "items": items, "description": "The objects of the list."},
        "kind": {"type": "string", "description": described("", "kind")},
        "metadata": {
            "allOf": [reference(_LIST_META)],
            "default": {},
            "description": "Metadata of the list, such as its version.",
        },
    }
    return {"type": "object", "description": text, "properties": properties, "required": ["items"]}


def references(value: object) -> Iterator[str]:
    """Yield the names of the definitions that a schema or an operation refers to directly."""
    if isinstance(value, dict):
        target = value.get("$ref")
        if isinstance(target, str) and target.startswith(REFERENCE):
            yield target.removeprefix(REFERENCE)
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


@functools.cache
def _direct_references(name: str) -> frozenset[str]:
    return frozenset(references(built_in(name)))


def closure(names: Iterable[str]) -> dict[str, Json]:
    """Return the built-in definitions of `names` and of all references in them, by name."""
    pending, reached = list(names), set()
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += _direct_references(name)
    return {name: built_in(name) for name in sorted(reached)}
