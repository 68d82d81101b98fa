"""Users: name, groups and the other results of authentication.

Source: apiserver pkg/authentication/{user,serviceaccount} of v0.36.3.
"""

from __future__ import annotations

import contextvars
import dataclasses
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeapi.types.objects import Json

#: Members of this group may do everything, without roles.
MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
_SERVICE_ACCOUNTS: Final = "system:serviceaccounts"


class SecurityError(Exception):
    """Options that contradict one another, or a file that cannot be used; the text is one line."""


@dataclasses.dataclass(frozen=True, slots=True)
class User:
    """An identity; `extra` is pairs of a key and its values, so that users can be compared."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def as_json(self) -> Json:
        """The authentication.k8s.io/v1 UserInfo."""
        info: Json = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra}
        return info

    def authenticated(self) -> User:
        """Return the user with the group of all authenticated users."""
        if AUTHENTICATED in self.groups or UNAUTHENTICATED in self.groups:
            return self
        return dataclasses.replace(self, groups=(*self.groups, AUTHENTICATED))


def extra_of(values: Mapping[str, list[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return `extra` of a user in the order of its keys."""
    return tuple((key, tuple(values[key])) for key in sorted(values))


def service_account(name: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account of a user name; None for other users."""
    if not name.startswith(_SERVICE_ACCOUNT):
        return None
    namespace, separator, account = name.removeprefix(_SERVICE_ACCOUNT).partition(":")
    if not separator or not namespace or not account or ":" in account:
        return None
    return namespace, account


def bound_node(user: User) -> str:
    """Return the node that a service account's token is bound to; empty if there is none."""
    nodes = dict(user.extra).get(_NODE_NAME, ())
    return nodes[0] if service_account(user.name) and len(nodes) == 1 else ""


def service_account_name(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"{_SERVICE_ACCOUNT}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, str]:
    """The groups that every service account of a namespace is in."""
    return (_SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{namespace}")


ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))
#: The user of the generated certificate and of `--token`.
ADMIN: Final = User("kubernetes-admin", (MASTERS,))
#: The user of programs in the server's own process.
SERVER: Final = User("system:apiserver", (MASTERS,))

_user: Final[contextvars.ContextVar[User]] = contextvars.ContextVar("user", default=SERVER)


def current_user() -> User:
    """Return the user of the request that this task answers, by default the server itself."""
    return _user.get()


def act_as(user: User) -> None:
    """Set the user of this task."""
    _user.set(user)
