"""Who asks? A client certificate says so, or a bearer token, or nobody does.

    certificate    verified in the handshake; its common name is the user
    token          the API server is asked whose it is, and the answer kept for a while
    neither        system:anonymous

A certificate comes first. A token that is no good, or that cannot be judged, is not the same as
none: the request is refused with 401, whatever its path.
Source: apiserver `authenticatorfactory/delegating.go`, `request/bearertoken`, `token/cache`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from typing import TYPE_CHECKING, Final

from scheduler.client import ClientError
from scheduler.serving.errors import AuthenticationError
from scheduler.serving.expiring_cache import ExpiringCache
from scheduler.serving.users import ANONYMOUS, User, user_of_certificate

if TYPE_CHECKING:
    from aiohttp import web

    from scheduler.clock import Clock
    from scheduler.serving.reviews import ReviewClient

_log: Final = logging.getLogger("kubesched")

#: Upstream's bound: 32 stripes of 1,024.
_TOKENS_MAX: Final = 32 * 1024


class TokenReviews:
    """Whose tokens are whose. No token is kept, only a keyed hash of it.

    Many requests that come with one token at one time are one question.
    """

    def __init__(self, client: ReviewClient, *, cache_seconds: float, clock: Clock) -> None:
        self._client: Final = client
        self._cache_seconds: Final = cache_seconds
        self._known: Final[ExpiringCache[bytes, User | str]] = ExpiringCache(
            clock=clock, entries_max=_TOKENS_MAX
        )
        self._under_way: Final[dict[bytes, asyncio.Task[User]]] = {}
        self._key: Final = secrets.token_bytes(32)

    async def user(self, token: str) -> User:
        """Whose token this is. Raises AuthenticationError."""
        try:
            key = hmac.digest(self._key, token.encode(), hashlib.sha256)
        except UnicodeEncodeError as error:
            raise AuthenticationError("invalid bearer token") from error
        known = self._known.get(key)
        if isinstance(known, User):
            return known
        if known is not None:
            raise AuthenticationError(known)
        asked = self._under_way.get(key)
        if asked is None:
            asked = self._under_way[key] = asyncio.ensure_future(self._ask(key, token))
            asked.add_done_callback(lambda task: self._answered(key, task))
        # One client that goes away must not take the answer from the others.
        return await asyncio.shield(asked)

    def _answered(self, key: bytes, task: asyncio.Task[User]) -> None:
        self._under_way.pop(key, None)
        if not task.cancelled():
            # Looked at even if everybody who waited has gone away.
            task.exception()

    async def _ask(self, key: bytes, token: str) -> User:
        try:
            status = await self._client.review_token(token)
        except ClientError as error:
            _log.error("Failed to make webhook authenticator request: %s", error)
            raise AuthenticationError(str(error)) from error
        if status.authenticated:
            who = status.user
            user = User(who.username, who.groups, who.uid, who.extra)
            self._known.put(key, user, seconds=self._cache_seconds)
            return user
        if status.error:
            # Perhaps a passing trouble: not remembered.
            raise AuthenticationError(status.error)
        self._known.put(key, "invalid bearer token", seconds=self._cache_seconds)
        raise AuthenticationError("invalid bearer token")


class Authenticator:
    """Says who sent a request. Without `tokens` every token counts for nothing."""

    def __init__(self, tokens: TokenReviews | None = None) -> None:
        self._tokens: Final = tokens

    async def user(self, request: web.BaseRequest) -> User:
        """Who sent it. Raises AuthenticationError for credentials that are no good."""
        problem = None
        try:
            user = self._by_certificate(request)
        except AuthenticationError as error:
            user, problem = None, error
        if user is None and self._tokens is not None and (token := _bearer_token(request)):
            user = await self._tokens.user(token)
        if user is not None:
            return user.authenticated()
        if problem is not None:
            raise problem
        return ANONYMOUS

    def _by_certificate(self, request: web.BaseRequest) -> User | None:
        connection = request.get_extra_info("ssl_object")
        # Only a certificate that has been verified is handed out.
        der = connection.getpeercert(binary_form=True) if connection is not None else None
        return user_of_certificate(der) if der else None


def _bearer_token(request: web.BaseRequest) -> str:
    words = request.headers.get("Authorization", "").strip().split(" ", 2)
    return words[1] if len(words) > 1 and words[0].lower() == "bearer" else ""
