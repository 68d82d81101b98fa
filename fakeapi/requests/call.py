"""One request, from its head and body to its verb, without I/O.

call = understood(registry, method, target, headers)     raises ApiError
call.body = Body(...)                                    once it has been read
call.target(options)                                     the object of a write
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import hdrs

from fakeapi.access.attributes import Attributes, attributes_of, verb_of
from fakeapi.access.users import ANONYMOUS, User
from fakeapi.apply import manager_of
from fakeapi.decoding import routes
from fakeapi.decoding.bodies import Body, media_type
from fakeapi.decoding.options import Query, split_target
from fakeapi.decoding.routes import Found, Route
from fakeapi.http import negotiation, presentation
from fakeapi.store.registry import Target
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


class Call(MutableRecord):
    """One request. `body` and `user` are filled in before a verb sees it."""

    method: str
    path: str
    query: Query
    headers: Mapping[str, str]
    #: What the path leads to.
    found: Found
    #: The verb to carry out, as authorizers know it; empty without a route.
    verb: str = ""
    body: Body = msgspec.field(default_factory=Body)
    user: User = ANONYMOUS
    #: Sent to the client with the answer, even if that is a refusal.
    warnings: list[str] = msgspec.field(default_factory=list)

    @property
    def route(self) -> Route:
        """The resource that the path names; the path must name one."""
        assert isinstance(self.found, Route)
        return self.found

    @property
    def attributes(self) -> Attributes:
        """The attributes for authorizers."""
        return attributes_of(self.method, self.path, self.query, self.found)

    @property
    def is_long_running(self) -> bool:
        """True for watches and streams, which no deadline ends."""
        return isinstance(self.found, Route) and (
            self.verb == "watch" or self.found.subresource in STREAMS
        )

    @property
    def content_type(self) -> str:
        """The media type of the body."""
        return media_type(self.headers.get(hdrs.CONTENT_TYPE, ""))

    def presentation(self, registry: Registry) -> Presentation:
        """Return the media type and form of the answer. Raises NotAcceptable, BadRequest."""
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
            self.verb,
            self.warnings,
        )


def understood(registry: Registry, method: str, target: str, headers: Mapping[str, str]) -> Call:
    """Return the call of a request; the target is path and query as sent. Raises BadTarget."""
    path, query = split_target(target, registry.limits)
    call = Call(method, path, query, headers, routes.resolve(path, registry.kinds))
    if isinstance(call.found, Route):
        call.verb = verb_of(method, call.found, watches=query.flag("watch"))
        if call.found.kind.deprecation_warning:
            call.warnings.append(call.found.kind.deprecation_warning)
    return call


def with_indentation(accepted: Accepted, query: Query, headers: Mapping[str, str]) -> Accepted:
    """Return the form, indented if a person is likely to read it."""
    if negotiation.wants_indentation(query, headers.get(hdrs.USER_AGENT, "")):
        return dataclasses.replace(accepted, pretty=True)
    return accepted
