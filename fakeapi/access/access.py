"""What a server knows about its users: how they show who they are, and what they may do."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fakeapi.access.authentication import Authenticator
from fakeapi.access.authorization import AlwaysAllow, Authorizer
from fakeapi.access.service_accounts import TokenIssuer

if TYPE_CHECKING:
    from fakeapi.store.registry import Registry

__all__ = ["Access"]


@dataclasses.dataclass(slots=True)
class Access:
    """Authentication and authorization of one server; by default nothing is guarded."""

    authenticator: Authenticator = dataclasses.field(default_factory=Authenticator)
    authorizer: Authorizer = dataclasses.field(default_factory=AlwaysAllow)
    _issuer: TokenIssuer | None = None

    def issuer_for(self, state: Registry) -> TokenIssuer:
        """What makes tokens of service accounts, believed from the first one on."""
        if self._issuer is None:
            self._issuer = self.authenticator.account_of = TokenIssuer(state)
        return self._issuer
