"""The attributes of a request for authorizers, made from the route of the request.

Source: apiserver pkg/endpoints/request/requestinfo.go of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from fakeapi.decoding.routes import NAMESPACES, VERBS_IN_PATHS, WATCH, Route, Unserved
from fakeapi.decoding.selectors import exact_match
from fakeapi.types.errors import Forbidden
from fakeapi.types.kind import STREAMS
from fakeapi.types.names import path_segment

if TYPE_CHECKING:
    from fakeapi.access.users import User
    from fakeapi.decoding.options import Query
    from fakeapi.decoding.routes import Found

VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_ON_COLLECTIONS: Final = {"delete": "deletecollection"}
#: A browser must not take a message for HTML.
_ESCAPED: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"))


class Attributes(NamedTuple):
    """A verb on a resource, or on a path outside the resources."""

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    about_resource: bool = False

    @property
    def whole_resource(self) -> str:
        """The resource with its subresource, as roles name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    @property
    def is_long_running(self) -> bool:
        """Return True for requests without an end of their own (watch, proxy, exec, log)."""
        return self.verb in VERBS_IN_PATHS or self.subresource in STREAMS

    @property
    def is_mutating(self) -> bool:
        """Return True if the request may change objects."""
        return self.verb not in ("get", "list", "watch")

    def denied(self, user_name: str) -> str:
        """Return upstream's sentence of a refusal."""
        if not self.about_resource:
            return f'User "{user_name}" cannot {self.verb} path "{self.path}"'
        subject = (
            f'User "{user_name}" cannot {self.verb} resource "{self.whole_resource}" '
            f'in API group "{self.group}"'
        )
        if self.namespace:
            return f'{subject} in the namespace "{self.namespace}"'
        return f"{subject} at the cluster scope"

    def refusal(self, user: User, reason: str) -> Forbidden:
        """Return the error of a refusal; `reason` is mostly empty."""
        why = self.denied(user.name)
        for character, escaped in _ESCAPED:
            why = why.replace(character, escaped)
        why = f"{why}: {reason}" if reason else why
        return Forbidden(self.resource, self.group, self.name, why)


def verb_of(method: str, route: Route | Unserved, *, watches: bool) -> str:
    """Return the verb of a request for a resource; `watches` is the parameter `watch`."""
    if isinstance(route, Route):
        name, verb = route.name, WATCH if route.watch else ""
    else:
        name, verb = (route.names.name, route.names.verb) if route.names else ("", "")
    verb = verb or VERBS.get(method, "")
    if name:
        return verb
    if verb == "get":
        return WATCH if watches else "list"
    return _ON_COLLECTIONS.get(verb, verb)


def attributes_of(method: str, path: str, query: Query, route: Found) -> Attributes:
    """Return the attributes of a request; `route` is the resolved path."""
    if isinstance(route, Route):
        group, resource, namespace = route.kind.group, route.kind.plural, route.namespace
        name, subresource = route.name, route.subresource
    elif isinstance(route, Unserved) and route.names is not None:
        names = route.names
        group, resource, namespace = names.group, names.resource, names.namespace or ""
        name, subresource = names.name, names.subresource
    else:
        return Attributes(method.lower(), path)
    verb = verb_of(method, route, watches=query.flag("watch"))
    if resource == NAMESPACES and not namespace:
        namespace = name
    if verb == "proxy":
        subresource = ""
    if not name and verb in ("list", WATCH):
        named = exact_match(query.text("fieldSelector"), "metadata.name")
        name = "" if path_segment(named) else named
    return Attributes(
        verb, path, group, resource, subresource, namespace, name, about_resource=True
    )
