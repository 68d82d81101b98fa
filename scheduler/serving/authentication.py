"""Authentication: the user of a request, by client certificate or bearer token.

    certificate    verified in the handshake; its common name is the user
    token          reviewed by the API server; the answer is cached
    neither        system:anonymous

A certificate comes first. A token that is invalid, or that cannot be reviewed, is not the same as
none: the request is refused with 401, whatever its path.
Source: apiserver `authenticatorfactory/delegating.go`, `request/bearertoken`, `request/x509`,
`token/cache`, `pkg/authentication/user/user.go`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from typing import TYPE_CHECKING, Final

from cachetools import TTLCache

from scheduler.client import ClientError
from scheduler.serving.reviews import ANONYMOUS, User

if TYPE_CHECKING:
    from aiohttp import web

    from scheduler.clock import Clock
    from scheduler.serving.reviews import ReviewClient, TokenReviewStatus

_log: Final = logging.getLogger(__name__)

_CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_COMMON_NAME: Final = "2.5.4.3"
_ORGANIZATION: Final = "2.5.4.10"
#: The attribute of a certificate that may hold the user's uid.
_UID: Final = "1.3.6.1.4.1.57683.2"

#: Upstream's bound: 32 stripes of 1,024.
_TOKENS_MAX: Final = 32 * 1024
_INVALID_TOKEN: Final = "invalid bearer token"


class AuthenticationError(Exception):
    """Credentials that cannot be accepted; the client gets 401, the log gets the reason."""


class Authenticator:
    """Finds the user of a request. Without a client for reviews, tokens are ignored.

    No token is kept, only a keyed hash of it. Concurrent requests with one token are one review.
    """

    def __init__(self, client: ReviewClient | None, *, cache_seconds: float, clock: Clock) -> None:
        self._client: Final = client
        self._reviews: Final[TTLCache[bytes, TokenReviewStatus]] = TTLCache(
            _TOKENS_MAX, ttl=cache_seconds, timer=clock.monotonic
        )
        self._under_way: Final[dict[bytes, asyncio.Task[TokenReviewStatus]]] = {}
        self._key: Final = secrets.token_bytes(32)

    async def user(self, request: web.BaseRequest) -> User:
        """Return the user. Raises AuthenticationError for credentials that are invalid."""
        problem = None
        try:
            user = _certificate_user(request)
        except AuthenticationError as error:
            user, problem = None, error
        if user is None and self._client is not None and (token := _bearer_token(request)):
            user = await self._token_user(self._client, token)
        if user is not None:
            return user.authenticated()
        if problem is not None:
            raise problem
        return ANONYMOUS

    async def _token_user(self, client: ReviewClient, token: str) -> User:
        try:
            key = hmac.digest(self._key, token.encode(), hashlib.sha256)
        except UnicodeEncodeError as error:
            raise AuthenticationError(_INVALID_TOKEN) from error
        review = self._reviews.get(key)
        if review is None:
            task = self._under_way.get(key)
            if task is None:
                task = self._under_way[key] = asyncio.ensure_future(client.review_token(token))
                task.add_done_callback(lambda task: self._reviewed(key, task))
            try:
                # Shielded: a client that goes away must not cancel the review for the others.
                review = await asyncio.shield(task)
            except ClientError as error:
                raise AuthenticationError(str(error)) from error
        if review.authenticated:
            return review.user
        raise AuthenticationError(review.error or _INVALID_TOKEN)

    def _reviewed(self, key: bytes, task: asyncio.Task[TokenReviewStatus]) -> None:
        """Cache a review, unless it failed: the next request tries again."""
        self._under_way.pop(key, None)
        if task.cancelled():
            return
        # Retrieved also if all requests have gone away, else asyncio complains.
        if error := task.exception():
            _log.error("Failed to make webhook authenticator request: %s", error)
        elif not (review := task.result()).error or review.authenticated:
            self._reviews[key] = review


def _certificate_user(request: web.BaseRequest) -> User | None:
    connection = request.get_extra_info("ssl_object")
    # Only a verified certificate is returned here.
    der = connection.getpeercert(binary_form=True) if connection is not None else None
    return user_from_certificate(der) if der else None


def _bearer_token(request: web.BaseRequest) -> str:
    words = request.headers.get("Authorization", "").strip().split(" ", 2)
    return words[1] if len(words) > 1 and words[0].lower() == "bearer" else ""


def user_from_certificate(der: bytes) -> User | None:
    """Return the user that a verified client certificate names; None without a common name.

    Raises AuthenticationError for an invalid uid.
    """
    # Loading the library takes a while, and most clients bring a token.
    from cryptography import x509

    subject = x509.load_der_x509_certificate(der).subject
    names: dict[str, list[str]] = {}
    for attribute in subject:
        value = attribute.value
        text = value if isinstance(value, str) else value.decode("utf-8", "replace")
        names.setdefault(attribute.oid.dotted_string, []).append(text)
    common_name = names.get(_COMMON_NAME, [""])[-1]
    if not common_name:
        return None
    uids = names.get(_UID, [])
    if len(uids) > 1:
        raise AuthenticationError(f"expected 1 UID, but found multiple: [{' '.join(uids)}]")
    if uids == [""]:
        raise AuthenticationError("UID cannot be an empty string")
    fingerprint = hashlib.sha256(der).hexdigest()
    return User(
        common_name,
        tuple(names.get(_ORGANIZATION, [])),
        uids[0] if uids else "",
        {_CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)},
    )
