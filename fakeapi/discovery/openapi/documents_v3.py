"""The OpenAPI v3 documents: one for each API version, and their index.

The tag of a document is computed from its inputs. So the index, which clients request first, costs
only hashing; a document is made on its first request.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from fakeapi.discovery import group_lists
from fakeapi.discovery.documents import tag_of
from fakeapi.discovery.openapi import definitions, paths
from fakeapi.discovery.openapi.definitions import (
    DELETE_OPTIONS,
    RESOURCE_LIST,
    STATUS,
    definition_name,
)
from fakeapi.kinds.built_in import BUILT_IN
from fakeapi.types import schema
from fakeapi.types.objects import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.types.kind import Kind, KindTable
    from fakeapi.types.objects import Json

PREFIX: Final = "/openapi/v3"
INFORMATION: Final[Json] = {"title": "Kubernetes", "version": group_lists.VERSION["gitVersion"]}
_GVK: Final = "x-kubernetes-group-version-kind"
#: Kinds that are never stored.
_UNSTORED: Final[dict[str, Json]] = {
    STATUS: {"group": "", "kind": "Status", "version": "v1"},
    RESOURCE_LIST: {"group": "", "kind": "APIResourceList", "version": "v1"},
    definition_name("core/v1.Binding"): {"group": "", "kind": "Binding", "version": "v1"},
    definition_name("policy/v1.Eviction"): {
        "group": "policy", "kind": "Eviction", "version": "v1",
    },
    definition_name("autoscaling/v1.Scale"): {
        "group": "autoscaling", "kind": "Scale", "version": "v1",
    },
}  # fmt: skip


def section(group: str, version: str) -> str:
    """Return the name of a version's document in the index: api/v1 or apis/apps/v1."""
    return paths.version_path(group, version).removeprefix("/")


def index(kinds: KindTable) -> Json:
    """Return the URL of each version's document."""
    return {
        "paths": {
            section(group, version): {
                "serverRelativeURL": relative_url(group, version, tag(kinds, group, version))
            }
            for group, version in kinds.versions()
        }
    }


def relative_url(group: str, version: str, document_tag: str) -> str:
    """Return the path of a document with its hash: clients may cache it for ever."""
    return f"{PREFIX}/{section(group, version)}?hash={document_tag}"


def tag(kinds: KindTable, group: str, version: str) -> str:
    """Return the entity tag of a version's document."""

    def made() -> str:
        digests = (schema.digest(), definitions.descriptions_digest())
        rows = [
            [
                kind.plural, kind.kind, kind.namespaced, kind.schema, kind.subresources,
                kind.verbs, kind.returns_deleted,
                kind.structure.open_api() if kind.structure else None,
            ]
            for kind in kinds.in_version(group, version)
        ]  # fmt: skip
        return tag_of(encode([*digests, group, version, rows]))

    return kinds.derived(f"OpenAPI v3 tag {group}/{version}", made)


def document(kinds: KindTable, group: str, version: str) -> Json:
    """Return the document of one version."""
    path, operations = paths.discovery_path(group, version)
    all_paths: dict[str, Json] = {path: operations}
    own: dict[str, Json] = {}
    for kind in kinds.in_version(group, version):
        subject = subject_of(kind)
        all_paths.update(paths.paths_of(subject))
        own.update(_own_definitions(subject))
    referred = set(definitions.references([*all_paths.values(), *own.values()]))
    components = _identified(
        {**definitions.closure(referred - own.keys()), **own}, kinds, group, version
    )
    return {
        "openapi": "3.0.0",
        "info": INFORMATION,
        "paths": dict(sorted(all_paths.items())),
        "components": {"schemas": dict(sorted(components.items()))},
    }


def subject_of(kind: Kind) -> paths.Subject:
    """Return the kind with the names of its definitions."""
    if kind.schema:
        name = definition_name(kind.schema)
    else:
        reverse = ".".join(reversed(kind.group.split("."))) if kind.group else "core"
        name = f"{reverse}.{kind.version}.{kind.kind}"
    return paths.Subject(kind, name, f"{name}List")


def _own_definitions(subject: paths.Subject) -> dict[str, Json]:
    """Return the definitions that are not in the table of types: lists, custom resources."""
    kind = subject.kind
    own: dict[str, Json] = {}
    if "list" in kind.verbs:
        listed = definitions.list_definition(subject.item, f"A list of {kind.kind} objects.")
        gvk = {"group": kind.group, "kind": kind.list_kind_name, "version": kind.version}
        own[subject.list] = {**listed, _GVK: [gvk]}
    if not kind.schema:
        own[subject.item] = {**_custom(kind), _GVK: [subject.group_version_kind]}
    return own


def _custom(kind: Kind) -> Json:
    """Return the schema of a custom resource, with the fields that all objects have."""
    definition = (
        kind.structure.open_api()
        if kind.structure
        else {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    )
    properties = definition.get("properties")
    metadata = {
        "allOf": [definitions.reference(definition_name("meta/v1.ObjectMeta"))],
        "description": definitions.described("", "metadata"),
    }
    common: Json = {
        name: {"type": "string", "description": definitions.described("", name)}
        for name in ("apiVersion", "kind")
    }
    all_properties = {
        **(properties if isinstance(properties, dict) else {}),
        **common,
        "metadata": metadata,
    }
    return {**definition, "properties": all_properties}


@functools.cache
def _built_in_kinds() -> dict[str, Json]:
    """Return group, version and kind by the name of their definition."""
    subjects = [subject_of(kind) for kind in BUILT_IN if kind.schema]
    return {subject.item: subject.group_version_kind for subject in subjects}


def _identified(
    definitions: dict[str, Json], kinds: KindTable, group: str, version: str
) -> dict[str, Json]:
    """Add group, version and kind to the definitions of kinds."""
    added: dict[str, list[Json]] = {name: [gvk] for name, gvk in _UNSTORED.items()}
    added |= {name: [gvk] for name, gvk in _built_in_kinds().items()}
    for kind in kinds.in_version(group, version):
        subject = subject_of(kind)
        added[subject.item] = [subject.group_version_kind]
    options: Iterable[tuple[str, str]] = sorted({("", "v1"), (group, version)})
    added[DELETE_OPTIONS] = [
        {"group": own_group, "kind": "DeleteOptions", "version": own_version}
        for own_group, own_version in options
    ]
    return {
        name: {**definition, _GVK: added[name]} if name in added else definition
        for name, definition in definitions.items()
    }
