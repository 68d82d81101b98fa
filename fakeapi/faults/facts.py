"""What faults may ask about a request, read from the request itself."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import hdrs

from fakeapi.decoding import routes
from fakeapi.decoding.options import Query
from fakeapi.faults.book import RequestFacts
from fakeapi.types.errors import ApiError

if TYPE_CHECKING:
    from aiohttp import web

    from fakeapi.types.kind import KindTable

__all__ = ["CLIENT_HEADER", "name_in", "request_facts"]

#: Tells clients apart that have the same User-Agent.
CLIENT_HEADER: Final = "X-Fakeapi-Client"

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


def request_facts(http: web.BaseRequest, kinds: KindTable) -> RequestFacts:
    """The facts of a request; never raises."""
    path, _, text = http.raw_path.partition("?")
    query = Query(urllib.parse.parse_qs(text, keep_blank_values=True))
    client = http.headers.get(CLIENT_HEADER) or http.headers.get(hdrs.USER_AGENT) or ""
    try:
        route = routes.resolve(urllib.parse.unquote(path), kinds)
    except ApiError:
        route = None
    if not isinstance(route, routes.Route):
        verb = "get" if http.method == "HEAD" else http.method.lower()
        return RequestFacts(verb, path, None, query, client)
    return RequestFacts(
        verb=_verb(http.method, route, query),
        path=path,
        route=route,
        query=query,
        client=client,
        name=route.name,
        resources=_resources(route),
    )


def name_in(body: bytes) -> str:
    """The name in the body of a create; empty if there is none, or none that can be read."""
    try:
        return msgspec.json.decode(body, type=_Named).metadata.name
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _verb(method: str, route: routes.Route, query: Query) -> str:
    if method == "DELETE":
        return "delete" if route.name else "deletecollection"
    if method not in ("GET", "HEAD"):
        return _VERBS.get(method, method.lower())
    if route.name and not route.watch:
        return "get"
    return "watch" if route.watch or query.flag("watch") else "list"


def _resources(route: routes.Route) -> tuple[str, ...]:
    plural, group = route.kind.plural, route.kind.group
    names = (plural, f"{plural}.{group}") if group else (plural,)
    if not route.subresource:
        return names
    return tuple(f"{name}/{route.subresource}" for name in names)
