"""The client for `TokenReview` and `SubjectAccessReview` of the API server.

A request that failed by a passing error is retried at most four times, with growing delays; each
may take ten seconds.
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
from scheduler.client.flow_control import Backoff
from scheduler.client.rest import Subject

if TYPE_CHECKING:
    import random

    from scheduler.client import Connection
    from scheduler.clock import Clock

#: The config map with the authorities that sign the clients' certificates of a cluster.
AUTHENTICATION_CONFIG_MAP: Final = ("kube-system", "extension-apiserver-authentication")

_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_TIMEOUT_SECONDS: Final = 10.0
_RETRIES_MAX: Final = 4
#: High limits: the answer to every request waits for these calls.
_QPS: Final = 200.0
_BURST: Final = 400
_TRANSIENT_REASONS: Final = frozenset({"InternalError", "Timeout"})

T = TypeVar("T")

#: The group whose members may do everything.
MASTERS: Final = "system:masters"
_AUTHENTICATED: Final = "system:authenticated"
_UNAUTHENTICATED: Final = "system:unauthenticated"


class User(Struct, frozen=True):
    """The user of a request, as a `TokenReview` describes it."""

    name: str = msgspec.field(name="username", default="")
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    def authenticated(self) -> User:
        """Return the same user as a member of `system:authenticated`."""
        marker_groups = {_AUTHENTICATED, _UNAUTHENTICATED}
        if self.name == ANONYMOUS.name or marker_groups.intersection(self.groups):
            return self
        return msgspec.structs.replace(self, groups=(*self.groups, _AUTHENTICATED))


ANONYMOUS: Final = User("system:anonymous", (_UNAUTHENTICATED,))


class TokenReviewStatus(Struct, frozen=True):
    """The result of a review of a token."""

    authenticated: bool = False
    user: User = User()
    error: str = ""


class SubjectAccessReviewStatus(Struct, frozen=True):
    """The result of a review of an access; neither allowed nor denied means no opinion."""

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
    """A client for reviews alone; an async context manager. Raises `ClientError`."""

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
        review = {
            "kind": "TokenReview",
            "apiVersion": "authentication.k8s.io/v1",
            "spec": {"token": token},
        }
        return (await self._review(_TOKEN_REVIEWS, review, _TokenReview)).status

    async def review_access(self, user: User, *, verb: str, path: str) -> SubjectAccessReviewStatus:
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
        return (await self._review(_ACCESS_REVIEWS, review, _SubjectAccessReview)).status

    async def authentication_settings(self) -> dict[str, str]:
        """Return the data of the config map about clients' certificates."""
        namespace, name = AUTHENTICATION_CONFIG_MAP
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        body = await self._client.request("GET", path, subject=Subject("configmaps", name))
        return _decoded(body, _ConfigMap, path).data

    async def _review(self, path: str, review: object, kind: type[T]) -> T:
        body = msgspec.json.encode(review)
        backoff = Backoff(
            clock=self._clock,
            rng=self._rng,
            initial_seconds=0.5,
            cap_seconds=_TIMEOUT_SECONDS,
            factor=1.5,
            jitter=0.2,
        )

        async def send() -> T:
            return _decoded(await self._client.request("POST", path, body=body), kind, path)

        return await repeat(
            send,
            retries_max=_RETRIES_MAX,
            delay_seconds=lambda error, _: backoff.step() if _is_transient(error) else None,
            sleep=self._clock.sleep,
        )


def _decoded(body: bytes, kind: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        name = kind.__name__.removeprefix("_")
        raise DecodeError(url=path, kind=name, detail=str(error)) from error


def _is_transient(error: ClientError) -> bool:
    if isinstance(error, ConnectionFailed):
        return error.reset
    if isinstance(error, ApiError) and error.retry_after_seconds is not None:
        return True
    return isinstance(error, TooManyRequests) or (
        isinstance(error, ServerError) and error.reason in _TRANSIENT_REASONS
    )
