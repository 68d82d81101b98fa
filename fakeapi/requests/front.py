"""A request as it is understood, from its head and its body to its answer; no I/O happens here.

Inquiry.of(method, target, headers)   what is asked for, in which form     (raises ApiError)
    .route is None                    a document: discovery, OpenAPI, /healthz
    .waits                            a list or a watch, which may have to wait
    otherwise                         `perform` has the answer at once
"""

from __future__ import annotations

import dataclasses
import logging
import re
import urllib.parse
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs

from fakeapi.access.users import ANONYMOUS, User
from fakeapi.decoding import routes
from fakeapi.decoding.bodies import media_type
from fakeapi.decoding.options import Query
from fakeapi.decoding.routes import Route
from fakeapi.http import answers, negotiation, presentation
from fakeapi.requests import dispatch
from fakeapi.requests.verbs import Request
from fakeapi.types.errors import ApiError, BadTarget, InternalError, NotAcceptable
from fakeapi.types.records import MutableRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeapi.decoding.routes import DiscoveryRoute, PlainRoute
    from fakeapi.http.answers import Answer
    from fakeapi.http.negotiation import Accepted
    from fakeapi.http.presentation import Presentation
    from fakeapi.store.registry import Registry

__all__ = ["BODYLESS", "Inquiry", "explained", "split_target"]

_log = logging.getLogger("fakeapi")

#: Methods whose bodies nobody reads.
BODYLESS: Final = frozenset({"GET", "HEAD"})
_WITHOUT_TABLES: Final = ("binding", "eviction", "resize")
_ONLY_CREATED: Final = ("create",)
_STRAY_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})").search
_NO_PARAMETERS: Final = Query({})


class Inquiry(MutableRecord):
    """What one request is about, once its head is there."""

    registry: Registry
    method: str
    query: Query
    headers: Mapping[str, str]
    found: Route | DiscoveryRoute | PlainRoute | None
    #: What it names if that is something of a kind.
    route: Route | None
    #: Whether it is a list or a watch of what it names.
    waits: bool
    #: What answers it otherwise, once it is known.
    verb: dispatch.Verb | None = None

    @classmethod
    def of(
        cls, registry: Registry, method: str, target: str, headers: Mapping[str, str]
    ) -> Inquiry:
        """Understand a request; the target is path and query as sent. Raises ApiError."""
        path, query = split_target(target)
        found = routes.resolve(path, registry.kinds)
        if not isinstance(found, Route):
            return cls(registry, method, query, headers, found, None, waits=False)
        waits = dispatch.is_list(method, found)
        return cls(registry, method, query, headers, found, found, waits=waits)

    def shown(self, route: Route) -> Presentation:
        """The form in which the client wants objects. Raises ApiError, as for a wrong method."""
        if not self.waits:
            self.verb = dispatch.verb_of(self.method, route)
        custom = not route.kind.schema
        accepted = negotiation.negotiate(
            self.headers.get(hdrs.ACCEPT, ""),
            custom=custom,
            is_list=not route.name,
            tables=route.subresource not in _WITHOUT_TABLES and route.kind.verbs != _ONLY_CREATED,
        )
        accepted = _for_its_reader(accepted, self.query, self.headers)
        return presentation.presentation(route.kind, accepted, self.query, self.registry.clock)

    def request(self, route: Route, body: bytes, user: User = ANONYMOUS) -> Request:
        """The request for a verb, now that its body is there as well."""
        headers = self.headers
        content_type = media_type(headers.get(hdrs.CONTENT_TYPE))
        user_agent = headers.get(hdrs.USER_AGENT, "")
        deprecated = route.kind.deprecation_warning
        return Request(
            self.method,
            route,
            self.query,
            body,
            content_type,
            warnings=[deprecated] if deprecated else [],
            user_agent=user_agent,
            user=user,
        )

    def perform(self, request: Request, shown: Presentation) -> Answer:
        """The answer to a request that waits for nothing. Raises ApiError."""
        verb = self.verb or dispatch.verb_of(self.method, request.route)
        return answers.presented(verb(self.registry, request), shown)


def explained(error: Exception, method: str, target: str, headers: Mapping[str, str]) -> Answer:
    """The Status of whatever went wrong, in the form asked for; what should not have is logged."""
    if not isinstance(error, ApiError):
        _log.error("%s %s failed", method, target, exc_info=error)
        error = InternalError(repr(error))
    answer = answers.of_error(error)
    if answer.content_type != answers.JSON:
        return answer
    try:
        accepted = negotiation.negotiate(headers.get(hdrs.ACCEPT, ""))
    except NotAcceptable:
        accepted = negotiation.PLAIN
    query = split_target(target)[1]
    return answers.written(answer, _for_its_reader(accepted, query, headers))


def _for_its_reader(accepted: Accepted, query: Query, headers: Mapping[str, str]) -> Accepted:
    if negotiation.wants_indentation(query, headers.get(hdrs.USER_AGENT, "")):
        return dataclasses.replace(accepted, pretty=True)
    return accepted


def split_target(target: str) -> tuple[str, Query]:
    """Path and parameters of a request, decoded; blank parameters count. Raises BadTarget."""
    path, _, query = target.partition("?")
    if "%" in path:
        if _STRAY_PERCENT(path):
            raise BadTarget
        path = urllib.parse.unquote(path)
    if ";" in query or "%" in query:  # Go's parser passes over what is not well formed
        pairs = query.split("&")
        query = "&".join(pair for pair in pairs if ";" not in pair and not _STRAY_PERCENT(pair))
    if not query:
        return path, _NO_PARAMETERS
    return path, Query(urllib.parse.parse_qs(query, keep_blank_values=True))
