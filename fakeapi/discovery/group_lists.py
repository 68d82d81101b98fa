"""Discovery in its plain form: API groups, versions and resources.

Source: apiserver pkg/endpoints/discovery of v0.36.3. Newer clients request the aggregated form,
which is in aggregated.py.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.discovery import aggregated, health
from fakeapi.http import answers
from fakeapi.types.objects import encode

if TYPE_CHECKING:
    from fakeapi.decoding.routes import DiscoveryRoute
    from fakeapi.discovery.documents import DocumentRequest
    from fakeapi.http.answers import Answer
    from fakeapi.types.kind import Kind, KindTable
    from fakeapi.types.objects import Json

#: The release whose behaviour this server mirrors.
VERSION: Final = aggregated.TABLES.version
_EMULATED_VERSIONS: Final = 3


def checked_version(version: str) -> str:
    """Return a version that kube-apiserver v1.36 can emulate. Raises ValueError for any other."""
    newest = int(str(VERSION["minor"]))
    emulates = [f"1.{minor}" for minor in range(newest - _EMULATED_VERSIONS, newest + 1)]
    if version not in emulates:
        raise ValueError(f"{version!r}: expected one of {', '.join(emulates)}")
    return version


def emulated(version: str) -> Json:
    """Return the document /version of a server that emulates a version. Raises ValueError."""
    major, _, minor = checked_version(version).partition(".")
    oldest = int(str(VERSION["minor"])) - _EMULATED_VERSIONS
    return {
        **VERSION, "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": str(max(int(minor) - 1, oldest)),
    }  # fmt: skip


def plain(path: str, kinds: KindTable, request: DocumentRequest, version: Json) -> Answer | None:
    """Return the answer to a path outside the API groups, None if the path is unknown."""
    if path == "/version":
        return answers.of(200, version or VERSION)
    if path in ("/", "/index.html"):
        body = encode({"paths": sorted(_paths(kinds))})
        return answers.Answer(200, msgspec.json.format(body, indent=2))
    return health.answer(path, request.query)


def _paths(kinds: KindTable) -> set[str]:
    """Return all paths except paths within a version; apiserver pkg/server/routes/index.go."""
    paths = {"/api", "/apis", "/apis/", "/openapi/v2", "/openapi/v3", "/version", *health.paths()}
    for group, version in kinds.versions():
        paths |= {f"/apis/{group}", f"/apis/{group}/{version}"} if group else {f"/api/{version}"}
    return paths


def answer(route: DiscoveryRoute, kinds: KindTable, request: DocumentRequest) -> Answer | None:
    """Return the answer to a discovery path, None if the group is not served."""
    if route.version is not None:
        assert route.group is not None
        return answers.of(200, _resource_list(kinds, route.group, route.version))
    version = aggregated.preferred_version(request)
    if version and not route.group:
        return aggregated.answer(kinds, version, request, core=route.group == "")
    served = aggregated.groups(kinds)
    if route.group == "":
        address = {"clientCIDR": "0.0.0.0/0", "serverAddress": request.address}
        body: Json = {
            "kind": "APIVersions",
            "versions": served[""],
            "serverAddressByClientCIDRs": [address],
        }
        return answers.of(200, body)
    if route.group is None:
        groups = [_group(group, versions) for group, versions in served.items() if group]
        return answers.of(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    if route.group not in served:
        return None
    one = _group(route.group, served[route.group])
    return answers.of(200, {"kind": "APIGroup", "apiVersion": "v1", **one})


def _group(group: str, versions: list[str]) -> Json:
    entries = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def _resource_list(kinds: KindTable, group: str, version: str) -> Json:
    resources: list[Json] = []
    for kind in sorted(kinds.in_version(group, version), key=lambda kind: kind.plural):
        resources.append(_resource(kind))
        resources += [_subresource(kind, name) for name in sorted(kind.subresources)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }


def _resource(kind: Kind) -> Json:
    entry: Json = {
        "name": kind.plural,
        "singularName": kind.singular_name,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": aggregated.verbs(kind),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if "get" in kind.verbs:  # kinds without get are not stored
        entry["storageVersionHash"] = _storage_version_hash(kind)
    return entry


def _storage_version_hash(kind: Kind) -> str:
    """Source: apiserver pkg/endpoints/discovery/storageversionhash.go."""
    group, _, version = (kind.stored_version or kind.api_version).rpartition("/")
    digest = hashlib.sha256(f"{group}/{version}/{kind.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _subresource(kind: Kind, name: str) -> Json:
    return {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        **aggregated.SUBRESOURCES[name],
    }
