"""One request, from its head and body to its verb, without I/O.

call = understood(registry, method, target, headers)     raises ApiError
call.body = ...                                          once it has been read
call.target(options)                                     the object that a write changes
"""

from __future__ import annotations

import dataclasses
import re
import urllib.parse
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import hdrs

from fakeapi.access.attributes import VERBS
from fakeapi.access.users import ANONYMOUS, User
from fakeapi.apply import manager_of
from fakeapi.decoding import routes
from fakeapi.decoding.bodies import media_type
from fakeapi.decoding.options import Query
from fakeapi.decoding.routes import DiscoveryRoute, PlainRoute, Route
from fakeapi.http import negotiation, presentation
from fakeapi.store.registry import Target
from fakeapi.types.errors import BadTarget
from fakeapi.types.kind import STREAMS
from fakeapi.types.records import MutableRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeapi.decoding.options import WriteOptions
    from fakeapi.http.negotiation import Accepted
    from fakeapi.http.presentation import Presentation
    from fakeapi.store.registry import Registry
    from fakeapi.types.kind import Kind

_WITHOUT_TABLES: Final = ("binding", "eviction", "resize")
_ONLY_CREATED: Final = ("create",)
_METADATA_ONLY: Final = tuple(name for name in negotiation.TARGETS if name != "Table")
_STRAY_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})").search
_NO_PARAMETERS: Final = Query({})


class Call(MutableRecord):
    """One request. `body` and `user` are filled in before a verb sees it."""

    method: str
    query: Query
    headers: Mapping[str, str]
    #: The resource that the path names; of a document (discovery, OpenAPI, health) `document`.
    found: Route | None
    document: DiscoveryRoute | PlainRoute | None
    body: bytes = b""
    user: User = ANONYMOUS
    #: Sent to the client with the answer, even if that is a refusal.
    warnings: list[str] = msgspec.field(default_factory=list)

    @property
    def route(self) -> Route:
        """The resource that the path names; the path must name one."""
        assert self.found is not None
        return self.found

    @property
    def is_list(self) -> bool:
        """True if the request lists or watches a collection, and so may have to wait."""
        route = self.found
        if route is None or self.method != "GET":
            return False
        return not route.name or (route.watch and not route.subresource)

    @property
    def is_watch(self) -> bool:
        """True if a list request is a watch."""
        return self.route.watch or self.query.flag("watch")

    @property
    def is_long_running(self) -> bool:
        """True for watches and streams, which no deadline ends."""
        route = self.found
        if route is None:
            return False
        return route.subresource in STREAMS or (self.is_list and self.is_watch)

    @property
    def content_type(self) -> str:
        """The media type of the body."""
        return media_type(self.headers.get(hdrs.CONTENT_TYPE))

    def presentation(self, registry: Registry) -> Presentation:
        """Return the form in which the client wants objects. Raises NotAcceptable, BadRequest."""
        route = self.route
        is_never_listed = route.subresource in _WITHOUT_TABLES or route.kind.verbs == _ONLY_CREATED
        accepted = negotiation.negotiate(
            self.headers.get(hdrs.ACCEPT, ""),
            custom=not route.kind.schema,
            is_list=not route.name,
            targets=_METADATA_ONLY if is_never_listed else negotiation.TARGETS,
        )
        accepted = with_indentation(accepted, self.query, self.headers)
        return presentation.presentation(route.kind, accepted, self.query, registry.clock)

    def target(
        self, options: WriteOptions, *, name: str = "", of: Kind | None = None, part: str = ""
    ) -> Target:
        """Return the target of the write: the object of the URL, or another name, kind or part."""
        route = self.route
        manager = options.field_manager or manager_of(self.headers.get(hdrs.USER_AGENT, ""))
        return Target(
            of or route.kind,
            route.namespace,
            name or route.name,
            options,
            part or route.subresource,
            manager,
            VERBS[self.method],
            self.warnings,
        )


def understood(registry: Registry, method: str, target: str, headers: Mapping[str, str]) -> Call:
    """Return the call of a request; the target is path and query as sent. Raises BadTarget."""
    path, query = split_target(target)
    found = routes.resolve(path, registry.kinds)
    if not isinstance(found, Route):
        return Call(method, query, headers, None, found)
    call = Call(method, query, headers, found, None)
    if found.kind.deprecation_warning:
        call.warnings.append(found.kind.deprecation_warning)
    return call


def with_indentation(accepted: Accepted, query: Query, headers: Mapping[str, str]) -> Accepted:
    """Return the form, indented if a person is likely to read it."""
    if negotiation.wants_indentation(query, headers.get(hdrs.USER_AGENT, "")):
        return dataclasses.replace(accepted, pretty=True)
    return accepted


def split_target(target: str) -> tuple[str, Query]:
    """Return path and parameters, decoded; blank parameters count. Raises BadTarget."""
    path, _, query = target.partition("?")
    if "%" in path:
        if _STRAY_PERCENT(path):
            raise BadTarget
        path = urllib.parse.unquote(path)
    if ";" in query or "%" in query:  # Go's parser skips malformed parameters
        pairs = query.split("&")
        query = "&".join(pair for pair in pairs if ";" not in pair and not _STRAY_PERCENT(pair))
    if not query:
        return path, _NO_PARAMETERS
    return path, Query(urllib.parse.parse_qs(query, keep_blank_values=True))
