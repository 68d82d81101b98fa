"""The grammar of URLs: the kind, object and subresource of a path.

    /api/v1/...              the core group
    /apis/GROUP/VERSION/...  all others
        RESOURCE                             all of it, cluster-wide
        RESOURCE/NAME[/SUBRESOURCE]          cluster-scoped
        namespaces/NS/RESOURCE               one namespace
        namespaces/NS/RESOURCE/NAME[/SUBRESOURCE]
        watch/...                            the deprecated form of ?watch=true

Slashes at the end are ignored. An empty part is not found, except in namespaces//RESOURCE, which is
all of the resource. Namespaces are a resource, too: namespaces/NS/status.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.types.errors import BadRequest, UnknownResource
from fakeapi.types.records import Record

if TYPE_CHECKING:
    from fakeapi.types.kind import Kind, KindTable

_NAMESPACES: Final = "namespaces"
#: The cache of routes of collections, whose paths are few and frequent, in the table of kinds.
_COLLECTIONS: Final = "collections by path"
_COLLECTIONS_MAX: Final = 4096


class Route(Record, frozen=True):
    """A path of an object, or of a collection if the name is empty."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DiscoveryRoute:
    """A path of discovery: of all groups, of a group (the core group is ""), of a version."""

    group: str | None = None
    version: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PlainRoute:
    """A path outside the API groups, such as /healthz."""

    path: str


def resolve(path: str, kinds: KindTable) -> Route | DiscoveryRoute | PlainRoute | None:
    """Return the route of a path, None if there is none.

    Raises UnknownResource for an unknown resource of a served version.
    """
    collections = kinds.derived.setdefault(_COLLECTIONS, {})
    assert isinstance(collections, dict)
    found: Route | DiscoveryRoute | PlainRoute | None = collections.get(path)
    if found is None:
        found = _resolve(path, kinds)
        if isinstance(found, Route) and not found.name and len(collections) < _COLLECTIONS_MAX:
            collections[path] = found
    return found


def _resolve(path: str, kinds: KindTable) -> Route | DiscoveryRoute | PlainRoute | None:
    root, *parts = path.rstrip("/").split("/")[1:] or [""]
    if root == "api":
        return _resolve_in(parts, "", kinds)
    if root == "apis":
        if not parts:
            return DiscoveryRoute()
        return _resolve_in(parts[1:], parts[0], kinds) if parts[0] else None
    return PlainRoute("/version" if path == "/version/" else path)


def _resolve_in(parts: list[str], group: str, kinds: KindTable) -> Route | DiscoveryRoute | None:
    if not parts:
        return DiscoveryRoute(group)
    version = parts[0]
    if not kinds.serves(group, version):
        if any(group == served for served, _ in kinds.versions()):
            raise UnknownResource
        return None
    if len(parts) == 1:
        return DiscoveryRoute(group, version)
    rest = parts[1:]
    watch = rest[0] == "watch"
    return _resolve_resource(rest[1:] if watch else rest, group, version, kinds, watch=watch)


def _resolve_resource(
    parts: list[str], group: str, version: str, kinds: KindTable, *, watch: bool
) -> Route:
    namespace, is_nowhere = "", False
    if len(parts) > 2 and parts[0] == _NAMESPACES and not _is_namespace_route(parts, group, kinds):
        namespace, parts = parts[1], parts[2:]
        is_nowhere = not namespace
    if not all(parts):
        raise UnknownResource
    kind = kinds.find(group, version, parts[0])
    in_namespace = namespace or is_nowhere
    if kind is None or (in_namespace and not kind.namespaced) or len(parts) > 3:
        raise UnknownResource
    if is_nowhere and len(parts) > 1:
        raise BadRequest("Namespace parameter required.")
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    if name and kind.namespaced and not namespace:
        raise UnknownResource
    if subresource and subresource not in kind.subresources:
        raise UnknownResource
    return Route(kind, namespace, name, subresource, watch)


def _is_namespace_route(parts: list[str], group: str, kinds: KindTable) -> bool:
    """True for a subresource of a namespace, such as namespaces/NS/status."""
    if group or len(parts) != 3:
        return False
    kind = kinds.find("", "v1", _NAMESPACES)
    return kind is not None and parts[2] in kind.subresources
