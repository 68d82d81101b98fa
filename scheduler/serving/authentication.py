"""Authentication: the user of a request, by client certificate or bearer token.

    proxy          a certificate of a proxy's authority, and headers that name the user
    certificate    verified in the handshake; its common name is the user
    token          reviewed by the API server; the answer is cached
    neither        system:anonymous

These ways are tried in this order. A request with a token that is invalid, or that cannot be
reviewed, is refused with 401, whatever its path.
OpenSSL verifies a certificate against the authorities of users and of proxies together; here an
authority of either kind must have signed it directly. If proxies have authorities, a certificate
from an intermediate authority in neither bundle is refused, because its kind is not known.
Source: apiserver `authenticatorfactory/delegating.go`, `request/bearertoken`, `request/x509`,
`request/headerrequest`, `token/cache`, `pkg/authentication/user/user.go`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from cachetools import TTLCache
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID

from scheduler.client import ClientError
from scheduler.serving.reviews import ANONYMOUS, User

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp import web
    from multidict import CIMultiDictProxy

    from scheduler.clock import Clock
    from scheduler.serving.options import RequestHeaderOptions
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


@dataclass(slots=True)
class ClientTrust:
    """The authorities of client certificates, of users and of proxies, by their DER."""

    headers: RequestHeaderOptions
    clients: dict[bytes, x509.Certificate] = field(default_factory=dict)
    proxies: dict[bytes, x509.Certificate] = field(default_factory=dict)

    def has_proxy(self, leaf: x509.Certificate) -> bool:
        """True for the certificate of a proxy that may name users."""
        names = [name.value for name in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        allowed = self.headers.allowed_names
        is_allowed = not allowed or (bool(names) and names[-1] in allowed)
        return is_allowed and _is_signed_by(leaf, self.proxies.values())


class Authenticator:
    """Finds the user of a request. Without a client for reviews, tokens are ignored.

    No token is kept, only a keyed hash of it. Concurrent requests with one token are one review.
    """

    def __init__(
        self,
        client: ReviewClient | None,
        trust: ClientTrust,
        *,
        cache_seconds: float,
        clock: Clock,
    ) -> None:
        self._client: Final = client
        self._trust: Final = trust
        self._reviews: Final[TTLCache[bytes, TokenReviewStatus]] = TTLCache(
            _TOKENS_MAX, ttl=cache_seconds, timer=clock.monotonic
        )
        self._under_way: Final[dict[bytes, asyncio.Task[TokenReviewStatus]]] = {}
        self._key: Final = secrets.token_bytes(32)

    async def user(self, request: web.BaseRequest) -> User:
        """Return the user. Raises AuthenticationError for credentials that are invalid."""
        problem = None
        try:
            user = self._certified_user(request)
        except AuthenticationError as error:
            user, problem = None, error
        if user is None and self._client is not None and (token := _bearer_token(request)):
            user = await self._token_user(self._client, token)
        if user is not None:
            return user.authenticated()
        if problem is not None:
            raise problem
        return ANONYMOUS

    def _certified_user(self, request: web.BaseRequest) -> User | None:
        """Return the user of a certificate, or the one that a proxy names; None without either.

        Raises AuthenticationError for a certificate that names no user.
        """
        connection = request.get_extra_info("ssl_object")
        # Only a verified certificate is returned here.
        der = connection.getpeercert(binary_form=True) if connection is not None else None
        if not der:
            return None
        trust = self._trust
        if not trust.proxies:
            return user_from_certificate(der)
        leaf = x509.load_der_x509_certificate(der)
        if trust.has_proxy(leaf):
            user = user_from_headers(request.headers, trust.headers)
            if user is not None:
                return user
        if not _is_signed_by(leaf, trust.clients.values()):
            raise AuthenticationError("x509: certificate signed by unknown authority")
        return user_from_certificate(der)

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


def _is_signed_by(leaf: x509.Certificate, authorities: Iterable[x509.Certificate]) -> bool:
    for authority in authorities:
        # A wrong issuer or kind of key is a ValueError or TypeError, a wrong signature its own.
        with contextlib.suppress(ValueError, TypeError, InvalidSignature):
            leaf.verify_directly_issued_by(authority)
            return True
    return False


def user_from_headers(headers: CIMultiDictProxy[str], options: RequestHeaderOptions) -> User | None:
    """Return the user that a proxy names; None without a name."""

    def values(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(value for name in names for value in headers.getall(name, ()) if value)

    name = values(options.username_headers)
    if not name:
        return None
    extra: dict[str, tuple[str, ...]] = {}
    for prefix in options.extra_headers_prefix:
        for header, value in headers.items():
            if header.lower().startswith(prefix.lower()):
                key = unquote(header[len(prefix) :].lower())
                extra[key] = (*extra.get(key, ()), value)
    uid = values(options.uid_headers)
    return User(name[0], values(options.group_headers), uid[0] if uid else "", extra)


def _bearer_token(request: web.BaseRequest) -> str:
    words = request.headers.get("Authorization", "").strip().split(" ", 2)
    return words[1] if len(words) > 1 and words[0].lower() == "bearer" else ""


def user_from_certificate(der: bytes) -> User | None:
    """Return the user that a verified client certificate names; None without a common name.

    Raises AuthenticationError for an invalid uid.
    """
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
