"""The attributes of a request that authorizers decide by, read from the URL alone.

Source: apiserver pkg/endpoints/request/requestinfo.go of v0.36.3.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from fakeapi.types.errors import Forbidden

if TYPE_CHECKING:
    from fakeapi.access.users import User
    from fakeapi.decoding.options import Query

VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_ON_COLLECTIONS: Final = {"delete": "deletecollection"}
_NAMESPACES: Final = "namespaces"
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
_SPECIAL: Final = frozenset({"proxy", "watch"})
#: A browser must not take a message for HTML.
_ESCAPED: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"))
#: A field selector for one name makes that the name of the request.
_EXACT_NAME = re.compile(r"(?:^|.*,)metadata\.name==?([^,=!\\/%]+)(?:,.*|$)").fullmatch


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
        """Return True for requests without an end of their own (watch, proxy, exec)."""
        return self.verb in _SPECIAL

    @property
    def is_mutating(self) -> bool:
        """Return True if the request may change objects."""
        return self.verb not in ("get", "list", "watch")

    def denied(self, user_name: str) -> str:
        """Return the sentence of a refusal, as upstream words it."""
        if not self.about_resource:
            return f'User "{user_name}" cannot {self.verb} path "{self.path}"'
        what = (
            f'User "{user_name}" cannot {self.verb} resource "{self.whole_resource}" '
            f'in API group "{self.group}"'
        )
        if self.namespace:
            return f'{what} in the namespace "{self.namespace}"'
        return f"{what} at the cluster scope"

    def refusal(self, user: User, reason: str) -> Forbidden:
        """The answer to a user who may not; `reason` is mostly empty."""
        why = self.denied(user.name)
        for character, escaped in _ESCAPED:
            why = why.replace(character, escaped)
        why = f"{why}: {reason}" if reason else why
        return Forbidden(self.resource, self.group, self.name, why)


def attributes_of(method: str, path: str, query: Query) -> Attributes:
    """Return the attributes of a request to a decoded path; never raises."""
    parts = path.strip("/").split("/")
    if parts[0] not in ("api", "apis") or len(parts) < (3 if parts[0] == "api" else 4):
        return Attributes(method.lower(), path)
    group = ""
    if parts[0] == "apis":
        group = parts[1]
        parts = parts[1:]
    parts = parts[2:]
    verb = VERBS.get(method, "")
    if parts[0] in _SPECIAL and len(parts) > 1:
        verb = parts[0]
        parts = parts[1:]
    namespace = ""
    if parts[0] == _NAMESPACES and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 and verb != "proxy" else ""
    if not name:
        if verb == "get":
            verb = "watch" if query.flag("watch") else "list"
            found = _EXACT_NAME(query.text("fieldSelector"))
            name = found[1] if found else ""
        else:
            verb = _ON_COLLECTIONS.get(verb, verb)
    return Attributes(
        verb, path, group, parts[0], subresource, namespace, name, about_resource=True
    )
