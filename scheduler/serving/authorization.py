"""May they? First the rules that need nobody's opinion, then the API server's answer.

    member of system:masters           yes
    a path that is open to all         yes
    the API server, where one is set   what it says, kept for a while; no answer is an error
    otherwise                          no

Source: apiserver `options/authorization.go`, `authorization/{path,union}`,
`plugin/pkg/authorizer/webhook/webhook.go`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.field import quoted
from scheduler.client import ClientError
from scheduler.serving.errors import AuthorizationError, ServingError
from scheduler.serving.expiring_cache import ExpiringCache
from scheduler.serving.users import MASTERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.clock import Clock
    from scheduler.serving.reviews import ReviewClient, SubjectAccessReviewStatus
    from scheduler.serving.users import User

_log: Final = logging.getLogger("kubesched")

_ANSWERS_MAX: Final = 8192
#: A path longer than this is somebody's attempt to fill our memory.
_CACHED_CHARACTERS_MAX: Final = 10_000


class Decision(NamedTuple):
    """The outcome; `reason` is the API server's, for the one who asked."""

    allowed: bool
    reason: str = ""


class OpenPaths:
    """Paths open to all; one that ends in `*` opens all that begin with it."""

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


class AccessReviews:
    """The API server's opinion, remembered for as long as flags say."""

    def __init__(
        self,
        client: ReviewClient,
        *,
        authorized_seconds: float,
        unauthorized_seconds: float,
        clock: Clock,
    ) -> None:
        self._client: Final = client
        self._seconds: Final = {True: authorized_seconds, False: unauthorized_seconds}
        self._known: Final[ExpiringCache[tuple[object, ...], SubjectAccessReviewStatus]] = (
            ExpiringCache(clock=clock, entries_max=_ANSWERS_MAX)
        )

    async def decide(self, user: User, *, verb: str, path: str) -> Decision:
        """What the API server says. Raises AuthorizationError."""
        status = await self._status(user, verb, path)
        if status.denied and status.allowed:
            raise AuthorizationError(
                "webhook subject access review returned both allow and deny response"
            )
        return Decision(status.allowed, status.reason)

    async def _status(self, user: User, verb: str, path: str) -> SubjectAccessReviewStatus:
        key = (verb, path, user.name, user.groups, user.uid, tuple(sorted(user.extra.items())))
        status = self._known.get(key)
        if status is not None:
            return status
        try:
            status = await self._client.review_access(user, verb=verb, path=path)
        except ClientError as error:
            _log.error("Failed to make webhook authorizer request: %s", error)
            raise AuthorizationError(str(error)) from error
        if len(verb) + len(path) < _CACHED_CHARACTERS_MAX:
            self._known.put(key, status, seconds=self._seconds[status.allowed])
        return status


class Authorizer:
    """Decides whether a user may have what they ask for."""

    def __init__(self, open_paths: OpenPaths, reviews: AccessReviews | None = None) -> None:
        self._open_paths: Final = open_paths
        self._reviews: Final = reviews

    async def decide(self, user: User, *, verb: str, path: str) -> Decision:
        """Whether this user may use this method (in lower case) on this path.

        Raises AuthorizationError if nobody can say.
        """
        if MASTERS in user.groups or path in self._open_paths:
            return Decision(allowed=True)
        if self._reviews is None:
            return Decision(allowed=False)
        return await self._reviews.decide(user, verb=verb, path=path)
