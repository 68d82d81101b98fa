"""The paths of OpenAPI v3: the operations of each served kind, with their parameters.

kubectl reads the `dryRun` and `fieldValidation` parameters of a kind's patch; fuzzers and client
generators read everything. The deprecated /watch/ paths are served but not listed.

Source: apiserver pkg/endpoints/installer.go of v0.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.discovery.aggregated import SUBRESOURCES
from fakeapi.discovery.openapi import definitions
from fakeapi.discovery.openapi.definitions import (
    DELETE_OPTIONS,
    PATCH,
    RESOURCE_LIST,
    STATUS,
    reference,
)
from fakeapi.types.kind import STREAMS
from fakeapi.types.media_types import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    YAML,
)
from fakeapi.types.objects import text, texts

if TYPE_CHECKING:
    from collections.abc import Container

    from fakeapi.types.kind import Kind
    from fakeapi.types.objects import Json

_SERVED: Final = (JSON, YAML)
_STREAMED: Final = (f"{JSON};stream=watch",)
_PATCHES: Final = (APPLY_PATCH, JSON_PATCH, MERGE_PATCH)

_PARAMETERS: Final = {
    name: {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": value_type, "uniqueItems": True},
    }
    for name, (value_type, description) in definitions.FORMS.parameters.items()
}
#: The types of subresources that have a kind of their own.
_SUBRESOURCE_TYPES: Final = {
    "Binding": "core/v1.Binding",
    "Eviction": "policy/v1.Eviction",
    "Scale": "autoscaling/v1.Scale",
    "TokenRequest": "authentication/v1.TokenRequest",
}
_LIST: Final = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit",
    "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch",
)  # fmt: skip
_WRITE: Final = ("dryRun", "fieldManager", "fieldValidation")
_DELETE: Final = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_DELETE_ALL: Final = tuple(
    sorted({*_DELETE, *_LIST} - {"allowWatchBookmarks", "watch"})
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """A kind and the names of its definitions."""

    kind: Kind
    item: str
    list: str

    @property
    def group_version_kind(self) -> Json:
        """Return the value of x-kubernetes-group-version-kind."""
        kind = self.kind
        return {"group": kind.group, "kind": kind.kind, "version": kind.version}

    @property
    def tag(self) -> str:
        """Return the tag of the kind's operations, from group and version."""
        return f"{identifier(self.kind.group, lower=True)}_{self.kind.version}"


def identifier(group: str, *, lower: bool = False) -> str:
    """Return a group's name in operation ids: rbac.authorization.k8s.io is RbacAuthorization."""
    parts = (group or "core").removesuffix(".k8s.io").replace("-", ".").split(".")
    joined = "".join(part[:1].upper() + part[1:] for part in parts)
    return joined[:1].lower() + joined[1:] if lower else joined


def version_path(group: str, version: str) -> str:
    """Return the path of a version: /api/v1 or /apis/GROUP/VERSION."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def discovery_path(group: str, version: str) -> tuple[str, Json]:
    """Return the path that lists the resources of a version, and its operation."""
    operation: Json = {
        "description": "The resources of this version.",
        "operationId": f"get{identifier(group)}{_capital(version)}APIResources",
        "responses": _responses(RESOURCE_LIST, "200"),
        "tags": [f"{identifier(group, lower=True)}_{version}"],
    }
    return f"{version_path(group, version)}/", {"get": operation}


def paths_of(subject: Subject) -> dict[str, Json]:
    """Return all paths of one kind."""
    kind = subject.kind
    base = version_path(kind.group, kind.version)
    root = f"{base}/{kind.plural}"
    namespaced = f"{base}/namespaces/{{namespace}}/{kind.plural}"
    collection = namespaced if kind.namespaced else root
    paths: dict[str, Json] = {}
    paths[collection] = _with_parameters(kind, _collection(subject), named=False)
    if kind.namespaced and "list" in kind.verbs:
        everywhere = _list(subject, "ForAllNamespaces")
        paths[root] = {"get": everywhere, "parameters": [_PARAMETERS["pretty"]]}
    if "get" in kind.verbs:
        paths[f"{collection}/{{name}}"] = _with_parameters(kind, _item(subject), named=True)
    for name in sorted(set(kind.subresources) - STREAMS):
        operations = _subresource(subject, name)
        paths[f"{collection}/{{name}}/{name}"] = _with_parameters(kind, operations, named=True)
    return paths


def _with_parameters(kind: Kind, operations: Json, *, named: bool) -> Json:
    parameters: list[object] = [_PARAMETERS["pretty"]]
    if kind.namespaced:
        parameters.insert(0, _path_parameter("namespace", "The namespace of the object."))
    if named:
        parameters.insert(0, _path_parameter("name", f"The name of the {kind.kind}."))
    return {**operations, "parameters": parameters}


def _path_parameter(name: str, text: str) -> Json:
    schema = {"type": "string", "uniqueItems": True}
    return {"name": name, "in": "path", "required": True, "description": text, "schema": schema}


def _collection(subject: Subject) -> Json:
    operations: Json = {}
    kind = subject.kind
    if "list" in kind.verbs:
        operations["get"] = _list(subject, "")
    operations |= _operations(subject, {"create"}.intersection(kind.verbs), subject.item)
    if "deletecollection" in kind.verbs:
        operations["delete"] = _operation(
            subject, "delete", "deletecollection", _DELETE_ALL, STATUS, ("200",), DELETE_OPTIONS,
            middle="Collection",
        )  # fmt: skip
    return operations


def _list(subject: Subject, suffix: str) -> Json:
    operation = _operation(subject, "list", "list", _LIST, subject.list, ("200",), suffix=suffix)
    if suffix:  # lists all namespaces
        operation["operationId"] = str(operation["operationId"]).replace("Namespaced", "", 1)
    operation["responses"] = _responses(subject.list, "200", media_types=(*_SERVED, *_STREAMED))
    return operation


def _item(subject: Subject) -> Json:
    verbs = subject.kind.verbs
    operations = _operations(subject, set(verbs) - {"create"}, subject.item)
    if "delete" in verbs:
        answered = subject.item if subject.kind.returns_deleted else STATUS
        operations["delete"] = _operation(
            subject, "delete", "delete", _DELETE, answered, ("200", "202"), DELETE_OPTIONS
        )
    return operations


def _patch(subject: Subject, answered: str, suffix: str = "") -> Json:
    operation = _operation(
        subject, "patch", "patch", (*_WRITE, "force"), answered, ("200", "201"), suffix=suffix
    )
    accepted = (*_PATCHES, *([STRATEGIC_PATCH] if subject.kind.schema else []))
    operation["requestBody"] = _body(PATCH, accepted)
    return operation


def _subresource(subject: Subject, name: str) -> Json:
    """Return the operations of a subresource, by its verbs in discovery."""
    row = SUBRESOURCES[name]
    type_name = _SUBRESOURCE_TYPES.get(text(row.get("kind")))
    item = definitions.definition_name(type_name) if type_name else subject.item
    return _operations(subject, texts(row["verbs"]), item, _capital(name))


def _operations(subject: Subject, verbs: Container[str], item: str, suffix: str = "") -> Json:
    """Return the operations of an object or a subresource that takes and returns an `item`."""
    made: Json = {}
    if "get" in verbs:
        made["get"] = _operation(subject, "read", "get", (), item, ("200",), suffix=suffix)
    if "update" in verbs:
        made["put"] = _operation(
            subject, "replace", "put", _WRITE, item, ("200", "201"), item, suffix=suffix
        )
    if "patch" in verbs:
        made["patch"] = _patch(subject, item, suffix)
    if "create" in verbs:
        made["post"] = _operation(
            subject, "create", "post", _WRITE, item, ("200", "201", "202"), item, suffix=suffix
        )
    return made


def _operation(
    subject: Subject,
    verb: str,
    action: str,
    parameters: tuple[str, ...],
    answered: str,
    codes: tuple[str, ...],
    body: str = "",
    *,
    middle: str = "",
    suffix: str = "",
) -> Json:
    kind = subject.kind
    scope = "Namespaced" if kind.namespaced else ""
    place = f"{identifier(kind.group)}{_capital(kind.version)}"
    target = f"the {suffix.lower()} of a {kind.kind}" if suffix else kind.kind
    operation: Json = {
        "description": f"{verb} {target}",
        "operationId": f"{verb}{place}{middle}{scope}{kind.kind}{suffix}",
    }
    if parameters:
        operation["parameters"] = [_PARAMETERS[name] for name in parameters]
    if body:
        operation["requestBody"] = _body(body, _SERVED, is_required=body != DELETE_OPTIONS)
    operation["responses"] = _responses(answered, *codes)
    operation["tags"] = [subject.tag]
    operation["x-kubernetes-action"] = action
    operation["x-kubernetes-group-version-kind"] = subject.group_version_kind
    return operation


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def _body(name: str, media_types: tuple[str, ...], *, is_required: bool = True) -> Json:
    content = {media_type: {"schema": reference(name)} for media_type in media_types}
    return {"content": content, **({"required": True} if is_required else {})}


_CODES: Final = {"200": "OK", "201": "Created", "202": "Accepted", "401": "Unauthorized"}


def _responses(name: str, *codes: str, media_types: tuple[str, ...] = _SERVED) -> Json:
    content = {media_type: {"schema": reference(name)} for media_type in media_types}
    answered: Json = {code: {"content": content, "description": _CODES[code]} for code in codes}
    answered["401"] = {"description": _CODES["401"]}
    return answered
