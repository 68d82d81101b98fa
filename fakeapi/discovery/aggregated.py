"""Aggregated discovery: all groups, versions and resources in one document with an entity tag.

Source: apiserver pkg/endpoints/discovery/aggregated of v0.36.3. The document is made on its first
request and cached until the table of kinds changes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.discovery import documents
from fakeapi.http.negotiation import clauses
from fakeapi.types.media_types import JSON
from fakeapi.types.objects import Json, encode

if TYPE_CHECKING:
    from fakeapi.discovery.documents import DocumentRequest
    from fakeapi.http.answers import Answer
    from fakeapi.types.kind import Kind, KindTable

_GROUP: Final = "apidiscovery.k8s.io"
_KIND: Final = "APIGroupDiscoveryList"
_VERSIONS: Final = ("v2", "v2beta1")
_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?", re.ASCII).fullmatch
_LAST_LETTER: Final = 0x10FFFF
_STABILITY: Final = {"alpha": 1, "beta": 2, None: 3}


class _Tables(msgspec.Struct):
    """Facts about kube-apiserver's discovery."""

    version: Json
    #: All other groups follow by name.
    first_groups: list[str]
    #: Verbs of subresources, and the kind of those that have a kind of their own.
    subresources: dict[str, Json]


TABLES: Final = msgspec.json.decode(
    Path(__file__).with_name("tables.json").read_bytes(), type=_Tables
)
SUBRESOURCES: Final = TABLES.subresources


def groups(kinds: KindTable) -> dict[str, list[str]]:
    """Return the groups in the order of discovery, each with its versions, the preferred first."""
    versions: dict[str, list[str]] = {}
    for group, version in kinds.versions():
        versions.setdefault(group, []).append(version)
    ordered = sorted(versions, key=_group_rank)
    return {group: sorted(versions[group], key=version_rank, reverse=True) for group in ordered}


def _group_rank(group: str) -> tuple[int, str]:
    first = TABLES.first_groups
    return (first.index(group) if group in first else len(first), group)


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version: stable, beta, alpha, any other; then newer is higher."""
    parsed = _VERSION(version)
    if parsed is None:  # in reverse order: a is preferred to b, and b to ba
        inverted = [chr(_LAST_LETTER - ord(letter)) for letter in version]
        return (0, 0, 0, "".join([*inverted, chr(_LAST_LETTER)]))
    major, stability, minor = parsed.groups()
    return (_STABILITY[stability], int(major), int(minor or 0), "")


def preferred_version(request: DocumentRequest) -> str:
    """Return the client's preferred version of aggregated discovery, empty for the plain form."""
    for clause in clauses(request.accept):
        parameters = clause.parameters
        if parameters.get("as") == _KIND and clause.takes(JSON):
            if parameters.get("g") == _GROUP and parameters.get("v") in _VERSIONS:
                return parameters["v"]
        elif "as" not in parameters:
            return ""
    return ""


def answer(kinds: KindTable, version: str, request: DocumentRequest, *, core: bool) -> Answer:
    """Return one document: the core group for /api, all other groups for /apis."""

    def made() -> tuple[bytes, str]:
        body = encode(_list(kinds, version, core=core))
        return body, documents.tag_of(body)

    body, tag = kinds.derived(f"aggregated discovery {version} {core}", made)
    media_type = f"application/json;g={_GROUP};v={version};as={_KIND}"
    return documents.document(body, media_type, tag, request, {"Cache-Control": "public"})


def _list(kinds: KindTable, version: str, *, core: bool) -> Json:
    items: list[Json] = []
    for group, versions in groups(kinds).items():
        if core == (group == ""):
            described = [_version(kinds, group, name) for name in versions]
            items.append({"metadata": {"name": group} if group else {}, "versions": described})
    return {"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "metadata": {}, "items": items}


def _version(kinds: KindTable, group: str, version: str) -> Json:
    served = sorted(kinds.in_version(group, version), key=lambda kind: kind.plural)
    resources = [_resource(kind) for kind in served]
    return {"version": version, "resources": resources, "freshness": "Current"}


def _resource(kind: Kind) -> Json:
    entry: Json = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular_name,
        "verbs": verbs(kind),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [_subresource(kind, name) for name in sorted(kind.subresources)]
    return entry


def verbs(kind: Kind) -> list[str]:
    """Return the verbs that discovery lists for a kind.

    The kind of a terminating CRD hides create, patch and update, but still serves them.
    """
    hidden = ("create", "patch", "update") if kind.is_ending else ()
    return [verb for verb in kind.verbs if verb not in hidden]


def _response_kind(kind: Kind) -> Json:
    """Return the kind without group and version if it is built in: they are the version's own."""
    group, version = ("", "") if kind.structure is None else (kind.group, kind.version)
    return {"group": group, "version": version, "kind": kind.kind}


def _subresource(kind: Kind, name: str) -> Json:
    row = SUBRESOURCES[name]
    own = {part: row[part] for part in ("group", "version", "kind") if part in row}
    response_kind = _response_kind(kind) | own
    return {"subresource": name, "responseKind": response_kind, "verbs": row["verbs"]}
