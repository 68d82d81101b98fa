"""Who may do what: the question, and the answer of a server that allows everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from fakeapi.access.attributes import Attributes
    from fakeapi.access.users import User
    from fakeapi.types.objects import Json

__all__ = ["AlwaysAllow", "Authorizer", "Decision", "Rules"]


class Decision(NamedTuple):
    """Whether it is allowed, and why or why not; most refusals give no reason."""

    allowed: bool
    reason: str = ""


class Rules(NamedTuple):
    """What somebody may do in a namespace: PolicyRules, and what went wrong while looking."""

    rules: list[Json]
    error: str = ""


class Authorizer(Protocol):
    """Decides about requests."""

    def decide(self, user: User, attributes: Attributes) -> Decision:
        """Whether the user may do that."""

    def rules_for(self, user: User, namespace: str) -> Rules:
        """What the user may do in the namespace, and everywhere."""


class AlwaysAllow:
    """Everybody may do everything."""

    def decide(self, user: User, attributes: Attributes) -> Decision:
        """Always yes."""
        return Decision(allowed=True)

    def rules_for(self, user: User, namespace: str) -> Rules:
        """Everything there is."""
        return Rules(
            [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]},
            ]
        )
