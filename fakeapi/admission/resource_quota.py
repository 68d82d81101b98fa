"""ResourceQuota: writes that exceed the quotas of their namespace are refused.

Source: apiserver pkg/admission/plugin/resourcequota/controller.go (CheckRequest) of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.admission.chain import Plugin
from fakeapi.quota import scopes
from fakeapi.quota.books import QuotaBooks
from fakeapi.quota.usage import (
    CLAIMS,
    DEVICE_CLAIMS,
    IGNORED,
    SERVICES,
    missing_in_containers,
    usage_of,
)
from fakeapi.store.registry import Operation, Review
from fakeapi.types.kind import PODS

if TYPE_CHECKING:
    from fakeapi.quota.books import Account
    from fakeapi.store.registry import Registry
    from fakeapi.types.kind import ResourceKey
    from fakeapi.types.quantity import Amount


class ResourceQuota(Plugin):
    """Refuses writes that exceed a quota; `QuotaBooks` keeps the status of quotas."""

    name = "ResourceQuota"

    def __init__(self) -> None:
        self._books: QuotaBooks | None = None

    def follow(self, state: Registry) -> None:
        """Open the books."""
        self._books = QuotaBooks(state)

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """Return True for creates, and for updates of kinds whose use can grow."""
        if operation is Operation.DELETE or resource in IGNORED:
            return False
        if subresource:
            return (resource, subresource) == (PODS, "resize") and operation is Operation.UPDATE
        changing = (PODS, SERVICES, CLAIMS, DEVICE_CLAIMS)
        return operation is Operation.CREATE or resource in changing

    def check(self, review: Review) -> None:
        """Raise Forbidden if the object does not fit into a quota."""
        if self._books is None or not review.target.namespace:
            return
        accounts = self._books.accounts(review.target.namespace)
        if not accounts or _keeps_its_scope(review):
            return
        pertinent = [
            account for account in accounts if account.matches(review.resource, review.object)
        ]
        if review.resource == PODS:
            for account in pertinent:
                _check_containers(review, account)
        for account in pertinent:
            more = _more(review, account)
            if _exceeded(account, more):
                account = self._books.recount(account)
            exceeded = _exceeded(account, more)
            if exceeded:
                raise review.forbid(
                    f"exceeded quota: {account.name}, requested: {_listed(more, exceeded)}, "
                    f"used: {_listed(account.used, exceeded)}, "
                    f"limited: {_listed(account.hard, exceeded)}"
                )


def _keeps_its_scope(review: Review) -> bool:
    """Return True for updates of pods that cannot change their use: no resize, no new scope."""
    if review.resource != PODS or review.old is None or review.target.subresource:
        return False
    return scopes.is_terminating(review.object) == scopes.is_terminating(review.old)


def _check_containers(review: Review, account: Account) -> None:
    """Raise Forbidden if a container lacks requests or limits that the quota counts."""
    missing = missing_in_containers(review.object, account.names(PODS))
    if missing:
        listed = "; ".join(f"{name} for: {','.join(who)}" for name, who in missing.items())
        raise review.forbid(f"failed quota: {account.name}: must specify {listed}")


def _more(review: Review, account: Account) -> dict[str, Amount]:
    """Return the amounts that the write adds to the use of a quota."""
    resource, old = review.resource, review.old
    now = usage_of(resource, review.object)
    was: dict[str, Amount] = {}
    if old is not None and account.matches(resource, old):
        was = usage_of(resource, old)
    more = {}
    for name in account.names(resource):
        if name in now:
            difference = now[name].minus(was[name]) if name in was else now[name]
            if difference > 0:
                more[name] = difference
    return more


def _exceeded(account: Account, more: dict[str, Amount]) -> list[str]:
    return sorted(
        name
        for name, amount in more.items()
        if name not in account.used or account.used[name] + amount > account.hard[name]
    )


def _listed(amounts: dict[str, Amount], names: list[str]) -> str:
    return ",".join(f"{name}={amounts[name].shown()}" for name in names if name in amounts)
