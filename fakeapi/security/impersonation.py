"""Acting as somebody else: the Impersonate- headers, for those who may impersonate.

Source: apiserver pkg/endpoints/filters/impersonation of v0.36.3, its legacy mode; the verbs of
constrained impersonation, which that falls back from, are not known here.
"""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Final

from ..errors import BadRequest
from .attributes import Attributes
from .users import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    extra_of,
    service_account,
    service_account_groups,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multidict import CIMultiDictProxy

    from .authorization import Authorizer

__all__ = ["impersonated"]

_USER: Final = "Impersonate-User"
_GROUP: Final = "Impersonate-Group"
_UID: Final = "Impersonate-Uid"
_EXTRA: Final = "impersonate-extra-"
_AUTHENTICATION: Final = "authentication.k8s.io"


def impersonated(headers: CIMultiDictProxy[str], user: User, authorizer: Authorizer) -> User:
    """The user that a request is to be answered as. Raises Forbidden, BadRequest."""
    name = headers.get(_USER, "")
    groups = tuple(headers.getall(_GROUP, ()))
    uid = headers.get(_UID, "")
    extra: dict[str, list[str]] = {}
    for header, value in headers.items():
        if header.lower().startswith(_EXTRA):
            key = urllib.parse.unquote(header[len(_EXTRA) :].lower())
            extra.setdefault(key, []).append(value)
    if not name:
        if groups or uid or extra:
            raise BadRequest("requested impersonation without impersonating a user name")
        return user
    wanted = User(name, groups, uid, extra_of(extra))
    for attributes in _asked(wanted):
        decision = authorizer.decide(user, attributes)
        if not decision.allowed:
            raise attributes.refusal(user, decision.reason)
    return _with_usual_groups(wanted)


def _asked(wanted: User) -> Iterator[Attributes]:
    """What the requestor must be allowed to impersonate, one by one."""
    account = service_account(wanted.name)
    if account is not None:
        yield _attributes("serviceaccounts", account[1], namespace=account[0])
    else:
        yield _attributes("users", wanted.name)
    for group in wanted.groups:
        yield _attributes("groups", group)
    for key, values in wanted.extra:
        for value in values:
            yield _attributes("userextras", value, group=_AUTHENTICATION, subresource=key)
    if wanted.uid:
        yield _attributes("uids", wanted.uid, group=_AUTHENTICATION)


def _attributes(
    resource: str, name: str, *, group: str = "", subresource: str = "", namespace: str = ""
) -> Attributes:
    return Attributes(
        "impersonate",
        group=group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
        about_resource=True,
    )


def _with_usual_groups(wanted: User) -> User:
    groups = wanted.groups
    account = service_account(wanted.name)
    if account is not None and not groups:
        groups = service_account_groups(account[0])
    if wanted.name == ANONYMOUS.name:
        if UNAUTHENTICATED not in groups:
            groups = (*groups, UNAUTHENTICATED)
    elif AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    return User(wanted.name, groups, wanted.uid, wanted.extra)
