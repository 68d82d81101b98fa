"""Authorization: the permission of a user for a method on a path.

    member of system:masters               yes
    a path that is open to all             yes
    the API server, if one is configured   reviewed there, the answer cached; none is an error
    otherwise                              no

Source: apiserver `options/authorization.go`, `authorization/{path,union}`,
`plugin/pkg/authorizer/webhook/webhook.go`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec
from cachetools import TLRUCache

from scheduler.api.field import quoted
from scheduler.client import ClientError
from scheduler.serving.options import ServingError
from scheduler.serving.reviews import MASTERS, SubjectAccessReviewStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.clock import Clock
    from scheduler.serving.options import AuthorizationOptions
    from scheduler.serving.reviews import ReviewClient, User

_log: Final = logging.getLogger(__name__)

_REVIEWS_MAX: Final = 8192
#: A review of a longer path is not cached: such paths are attempts to fill the memory.
_CACHED_CHARACTERS_MAX: Final = 10_000


class AuthorizationError(Exception):
    """No answer to the question if a request is allowed; the client gets 500."""


class OpenPaths:
    """The paths open to all; a path that ends in `*` opens all paths with this beginning."""

    def __init__(self, paths: Iterable[str]) -> None:
        exact, prefixes = set(), []
        for path in paths:
            bare = path.removeprefix("/")
            if "*" in bare[:-1]:
                raise ServingError(f"only trailing * allowed in {quoted(bare)}")
            if bare.endswith("*"):
                prefixes.append(bare[:-1])
            else:
                exact.add(bare)
        self._exact: Final = frozenset(exact)
        self._prefixes: Final = tuple(prefixes)

    def __contains__(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._exact or bare.startswith(self._prefixes)


class Authorizer:
    """Decides if a user may use a method on a path. Without a client there are no reviews."""

    def __init__(
        self,
        open_paths: OpenPaths,
        client: ReviewClient | None,
        *,
        options: AuthorizationOptions,
        clock: Clock,
    ) -> None:
        self._open_paths: Final = open_paths
        self._client: Final = client
        self._name: Final = "kubernetes.io/webhook: " if options.names_authorizer else ""
        seconds = {True: options.authorized_seconds, False: options.unauthorized_seconds}
        self._reviews: Final[TLRUCache[tuple[object, ...], SubjectAccessReviewStatus]] = TLRUCache(
            _REVIEWS_MAX,
            ttu=lambda key, status, now: now + seconds[status.allowed],
            timer=clock.monotonic,
        )

    async def review(self, user: User, *, verb: str, path: str) -> SubjectAccessReviewStatus:
        """Return the review of a method (in lower case) on a path. Raises AuthorizationError."""
        if MASTERS in user.groups or path in self._open_paths:
            return SubjectAccessReviewStatus(allowed=True)
        if self._client is None:
            return SubjectAccessReviewStatus()
        key = (verb, path, user.name, user.groups, user.uid, tuple(sorted(user.extra.items())))
        status = self._reviews.get(key)
        if status is None:
            try:
                status = await self._client.review_access(user, verb=verb, path=path)
            except ClientError as error:
                _log.error("Failed to make webhook authorizer request: %s", error)
                raise AuthorizationError(str(error)) from error
            if len(verb) + len(path) < _CACHED_CHARACTERS_MAX:
                self._reviews[key] = status
        if status.denied and status.allowed:
            raise AuthorizationError(
                "webhook subject access review returned both allow and deny response"
            )
        if self._name and status.reason and not status.denied:
            return msgspec.structs.replace(status, reason=self._name + status.reason)
        return status
