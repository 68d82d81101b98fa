"""What a server knows about its users: how they show who they are, and what they may do."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from .authentication import Authenticator
from .authorization import AlwaysAllow, Authorizer
from .service_accounts import TokenIssuer

if TYPE_CHECKING:
    from ..registry import Registry
    from .escalation import EscalationCheck

__all__ = ["Access"]


@dataclasses.dataclass(slots=True)
class Access:
    """Authentication and authorization of one server; by default nothing is guarded."""

    authenticator: Authenticator = dataclasses.field(default_factory=Authenticator)
    authorizer: Authorizer = dataclasses.field(default_factory=AlwaysAllow)
    #: What looks at roles and bindings before they are stored, with RBAC.
    escalation: EscalationCheck | None = None
    _issuer: TokenIssuer | None = None

    def issuer_for(self, state: Registry) -> TokenIssuer:
        """What makes tokens of service accounts, believed from the first one on."""
        if self._issuer is None:
            self._issuer = self.authenticator.account_of = TokenIssuer(state)
        return self._issuer
