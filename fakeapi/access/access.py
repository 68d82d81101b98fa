"""Authentication and authorization of one server."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fakeapi.access.authentication import Authenticator
from fakeapi.access.service_accounts import TokenIssuer

if TYPE_CHECKING:
    from fakeapi.access.attributes import Attributes
    from fakeapi.access.users import User
    from fakeapi.store.registry import Registry
    from fakeapi.types.objects import Json


class Decision(NamedTuple):
    """The result of an authorization; most refusals have no reason."""

    allowed: bool
    reason: str = ""


class Rules(NamedTuple):
    """The PolicyRules of a user in a namespace; `error` is set if rules could not be read."""

    rules: list[Json]
    error: str = ""


class Authorizer(Protocol):
    """Decides if a user may make a request."""

    def decide(self, user: User, attributes: Attributes) -> Decision:
        """Return True as `allowed` if the user may make the request."""

    def rules_for(self, user: User, namespace: str) -> Rules:
        """Return the rules of the user for the namespace and for all namespaces."""


class AlwaysAllow:
    """Allows every request."""

    def decide(self, user: User, attributes: Attributes) -> Decision:
        return Decision(allowed=True)

    def rules_for(self, user: User, namespace: str) -> Rules:
        return Rules(
            [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]},
            ]
        )


@dataclasses.dataclass(slots=True)
class Access:
    """Authentication and authorization of one server; by default every request is allowed."""

    authenticator: Authenticator = dataclasses.field(default_factory=Authenticator)
    authorizer: Authorizer = dataclasses.field(default_factory=AlwaysAllow)
    _issuer: TokenIssuer | None = None

    def issuer_for(self, state: Registry) -> TokenIssuer:
        """Return the issuer of service account tokens; from then on its tokens are accepted."""
        if self._issuer is None:
            self._issuer = self.authenticator.account_of = TokenIssuer(state)
        return self._issuer
