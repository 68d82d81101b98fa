"""The grammar of URLs, read once: the kind, object and subresource of a path.

    /api/v1/...              the core group
    /apis/GROUP/VERSION/...  all others
        RESOURCE                             all of it, cluster-wide
        RESOURCE/NAME[/SUBRESOURCE]          cluster-scoped
        namespaces/NS/RESOURCE               one namespace
        namespaces/NS/RESOURCE/NAME[/SUBRESOURCE]
        watch/...                            the deprecated form of ?watch=true

Slashes at the end are ignored. An empty part is not found, except in namespaces//RESOURCE, which is
all of the resource. Namespaces are a resource, too: namespaces/NS/status.

The authorizer and the verbs get the one value that `resolve` returns. Source: apiserver
pkg/endpoints/request/requestinfo.go of v0.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from fakeapi.types.client_text import cached
from fakeapi.types.errors import BadRequest, UnknownResource
from fakeapi.types.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.types.errors import ApiError
    from fakeapi.types.kind import Kind, KindTable

NAMESPACES: Final = "namespaces"
WATCH: Final = "watch"
#: Verbs that stand in a path before the resource.
VERBS_IN_PATHS: Final = frozenset({"proxy", WATCH})
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
_CACHED_MAX: Final = 4096


class Names(NamedTuple):
    """The parts of a path below a version, whether or not they are served.

    `namespace` is None without namespaces/NS in front of the resource. `verb` is one of
    `VERBS_IN_PATHS`, or empty.
    """

    group: str
    version: str
    resource: str
    namespace: str | None = None
    name: str = ""
    subresource: str = ""
    verb: str = ""
    #: True if more parts follow, which have no meaning.
    is_longer: bool = False


class Route(Record, frozen=True):
    """A path of an object, or of a collection if the name is empty."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    #: True for the deprecated form, which only watches.
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


class Unserved(Record, frozen=True):
    """A path that leads nowhere.

    `names` is None above the resources. `error` makes the answer; without it there is no such page.
    """

    names: Names | None = None
    error: Callable[[], ApiError] | None = None


Found: TypeAlias = Route | DiscoveryRoute | PlainRoute | Unserved


def resolve(path: str, kinds: KindTable) -> Found:
    """Return what a decoded path leads to."""
    return kinds.derived("routes by path", lambda: _finder(kinds))(path)


def _finder(kinds: KindTable) -> Callable[[str], Found]:
    """Return a function that remembers the newest routes."""
    return cached(_CACHED_MAX)(lambda path: _resolve(path, kinds))


def _resolve(path: str, kinds: KindTable) -> Found:
    root, *parts = path.rstrip("/").split("/")[1:] or [""]
    if root not in ("api", "apis") or path[0] != "/":
        return PlainRoute("/version" if path == "/version/" else path)
    group = ""
    if root == "apis":
        if not parts:
            return DiscoveryRoute()
        group, *parts = parts
    if not parts:
        return DiscoveryRoute(group) if group or root == "api" else Unserved()
    version, *parts = parts
    names = _names(group, version, parts) if parts else None
    if root == "apis" and not group:
        return Unserved(names)
    if not kinds.serves(group, version):
        is_served = any(group == served for served, _ in kinds.versions())
        return Unserved(names, UnknownResource if is_served else None)
    if names is None:
        return DiscoveryRoute(group, version)
    return _route(names, kinds)


def _names(group: str, version: str, parts: list[str]) -> Names:
    """Return the names in the parts below a version."""
    verb, namespace = "", None
    if parts[0] in VERBS_IN_PATHS and len(parts) > 1:
        verb, *parts = parts
    if parts[0] == NAMESPACES and len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
        _, namespace, *parts = parts
    resource, name, subresource, *rest = [*parts, *[""] * (3 - len(parts))]
    return Names(group, version, resource, namespace, name, subresource, verb, bool(rest))


def _route(names: Names, kinds: KindTable) -> Route | Unserved:
    """Return what names in a served version lead to."""
    kind = kinds.find(names.group, names.version, names.resource)
    unknown = Unserved(names, UnknownResource)
    if kind is None or names.is_longer or (names.namespace is not None and not kind.namespaced):
        return unknown
    if names.namespace == "" and names.name:
        return Unserved(names, _without_namespace)
    if kind.namespaced and names.name and not names.namespace:
        return unknown
    if names.subresource and (not names.name or names.subresource not in kind.subresources):
        return unknown
    is_watch = names.verb == WATCH
    if names.verb and (not is_watch or names.subresource or WATCH not in kind.verbs):
        return unknown
    return Route(kind, names.namespace or "", names.name, names.subresource, is_watch)


def _without_namespace() -> BadRequest:
    return BadRequest("Namespace parameter required.")
