"""The attributes of requests and events that faults match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from aiohttp import hdrs

from fakeapi.access.attributes import verb_of
from fakeapi.decoding import routes
from fakeapi.decoding.options import Query, split_target
from fakeapi.types.errors import BadTarget

if TYPE_CHECKING:
    from aiohttp import web

    from fakeapi.store.registry import Registry

#: Distinguishes clients with the same User-Agent.
CLIENT_HEADER: Final = "X-Fakeapi-Client"


class RequestInfo(NamedTuple):
    """The attributes of a request. `resources` are the names of its resource.

    `route` is None for paths that are no resource.
    """

    verb: str
    path: str
    route: routes.Route | None
    query: Query
    client: str
    name: str = ""
    resources: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        """Return the namespace of the request, or ""."""
        return self.route.namespace if self.route else ""

    @property
    def initial_events(self) -> bool:
        """Return True for a watch-list."""
        return self.query.flag("sendInitialEvents")


class EventInfo(NamedTuple):
    """The attributes of a watch event."""

    type: str
    namespace: str = ""
    name: str = ""
    resource_version: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


def request_info(http: web.BaseRequest, registry: Registry) -> RequestInfo:
    """Return the attributes of a request; never raises."""
    path = http.raw_path.partition("?")[0]
    client = http.headers.get(CLIENT_HEADER) or http.headers.get(hdrs.USER_AGENT) or ""
    try:
        decoded, query = split_target(http.raw_path, registry.limits)
    except BadTarget:
        decoded, query = path, Query({})
    route = routes.resolve(decoded, registry.kinds)
    if not isinstance(route, routes.Route):
        verb = "get" if http.method == "HEAD" else http.method.lower()
        return RequestInfo(verb, path, None, query, client)
    return RequestInfo(
        verb=verb_of(http.method, route, watches=query.flag("watch")) or http.method.lower(),
        path=path,
        route=route,
        query=query,
        client=client,
        name=route.name,
        resources=_resources(route),
    )


def name_in(body: bytes) -> str:
    """Return the name in the body of a create, "" if there is no readable name."""
    try:
        return msgspec.json.decode(body, type=_Named).metadata.name
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _resources(route: routes.Route) -> tuple[str, ...]:
    plural, group = route.kind.plural, route.kind.group
    names = (plural, f"{plural}.{group}") if group else (plural,)
    if not route.subresource:
        return names
    return tuple(f"{name}/{route.subresource}" for name in names)
