"""Asks the API server who somebody is and what they may do: `TokenReview`, `SubjectAccessReview`.

A question that failed by the server's fault or on the way is asked again, four times at most, with
growing pauses; no single one may take longer than ten seconds.
Source: apiserver `plugin/pkg/authenticator/token/webhook`, `plugin/pkg/authorizer/webhook`,
`pkg/util/webhook` (`WithExponentialBackoff`, `DefaultShouldRetry`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from scheduler.api.core import Struct
from scheduler.client import (
    ApiError,
    ClientError,
    ConnectionFailed,
    DecodeError,
    RestClient,
    ServerError,
    TooManyRequests,
    repeat,
)
from scheduler.client.pacing import Backoff
from scheduler.client.rest import Subject

if TYPE_CHECKING:
    import random

    from scheduler.client import Connection
    from scheduler.clock import Clock
    from scheduler.serving.users import User

#: Where a cluster says which authorities sign its clients' certificates.
AUTHENTICATION_CONFIG_MAP: Final = ("kube-system", "extension-apiserver-authentication")

_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_TIMEOUT_SECONDS: Final = 10.0
_RETRIES_MAX: Final = 4
#: The answers of every request wait for these calls, so that they are hardly limited.
_QPS: Final = 200.0
_BURST: Final = 400
_TRANSIENT_REASONS: Final = frozenset({"InternalError", "Timeout"})

T = TypeVar("T")


class ReviewedUser(Struct, frozen=True):
    """Whom a token belongs to."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class TokenReviewStatus(Struct, frozen=True):
    """What the API server makes of a token."""

    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()
    error: str = ""


class SubjectAccessReviewStatus(Struct, frozen=True):
    """Whether somebody may do something. Neither allowed nor denied means that nobody cares."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _TokenReview(Struct, frozen=True):
    status: TokenReviewStatus = TokenReviewStatus()


class _SubjectAccessReview(Struct, frozen=True):
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class _ConfigMap(Struct, frozen=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class ReviewClient:
    """A client for these questions alone; an async context manager. Raises `ClientError`."""

    def __init__(self, connection: Connection, *, clock: Clock, rng: random.Random) -> None:
        self._clock: Final = clock
        self._rng: Final = rng
        self._client: Final = RestClient(
            connection,
            clock=clock,
            user_agent="kubesched/delegated-auth",
            qps=_QPS,
            burst=_BURST,
            timeout_seconds=_TIMEOUT_SECONDS,
        )

    async def __aenter__(self) -> ReviewClient:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._client.__aexit__(*exception)

    async def review_token(self, token: str) -> TokenReviewStatus:
        """Whose token this is."""
        review = {
            "kind": "TokenReview",
            "apiVersion": "authentication.k8s.io/v1",
            "spec": {"token": token},
        }
        return (await self._ask(_TOKEN_REVIEWS, review, _TokenReview)).status

    async def review_access(self, user: User, *, verb: str, path: str) -> SubjectAccessReviewStatus:
        """Whether a user may use this method on this path."""
        spec: dict[str, object] = {
            "nonResourceAttributes": {"path": path, "verb": verb},
            "user": user.name,
            "groups": user.groups,
        }
        if user.extra:
            spec["extra"] = user.extra
        if user.uid:
            spec["uid"] = user.uid
        review = {
            "kind": "SubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "spec": spec,
        }
        return (await self._ask(_ACCESS_REVIEWS, review, _SubjectAccessReview)).status

    async def authentication_settings(self) -> dict[str, str]:
        """What the cluster says of its clients' certificates."""
        namespace, name = AUTHENTICATION_CONFIG_MAP
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        body = await self._client.request("GET", path, subject=Subject("configmaps", name))
        return _decoded(body, _ConfigMap, path).data

    async def _ask(self, path: str, review: object, answer: type[T]) -> T:
        body = msgspec.json.encode(review)
        backoff = Backoff(
            clock=self._clock,
            rng=self._rng,
            initial_seconds=0.5,
            cap_seconds=_TIMEOUT_SECONDS,
            factor=1.5,
            jitter=0.2,
        )

        async def ask_once() -> T:
            return _decoded(await self._client.request("POST", path, body=body), answer, path)

        return await repeat(
            ask_once,
            retries_max=_RETRIES_MAX,
            delay_seconds=lambda error, _: backoff.step() if _is_transient(error) else None,
            sleep=self._clock.sleep,
        )


def _decoded(body: bytes, answer: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(body, type=answer)
    except msgspec.DecodeError as error:
        kind = answer.__name__.removeprefix("_")
        raise DecodeError(url=path, kind=kind, detail=str(error)) from error


def _is_transient(error: ClientError) -> bool:
    if isinstance(error, ConnectionFailed):
        return error.reset
    if isinstance(error, ApiError) and error.retry_after_seconds is not None:
        return True
    return isinstance(error, TooManyRequests) or (
        isinstance(error, ServerError) and error.reason in _TRANSIENT_REASONS
    )
