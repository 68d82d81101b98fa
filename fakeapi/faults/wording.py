"""The failures that faults answer with, worded as upstream words them.

Where upstream has several texts for a code, it is the one that a client meets when the server is in
trouble: etcd that does not answer, a watch cache that is not ready, a server that is full.
Source: apimachinery pkg/api/errors/errors.go, apiserver pkg/storage/errors and
pkg/server/filters of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types import errors
from fakeapi.types.errors import ApiError

if TYPE_CHECKING:
    from fakeapi.faults.book import RequestFacts
    from fakeapi.faults.model import AnswerWith
    from fakeapi.types.objects import Json

__all__ = ["failure", "refused_watch_list", "status_of_code"]

_PLAIN: Final[dict[int, tuple[str, str]]] = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", 'forbidden: User "system:anonymous" cannot {verb} path "{path}"'),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    409: ("Conflict", "the server reported a conflict"),
    410: ("Expired", "The resourceVersion for the provided list is too old."),
    413: ("RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
    415: ("UnsupportedMediaType", "the body of the request was in an unknown format"),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: ("TooManyRequests", "Too many requests, please try again later."),
    500: ("InternalError", "Internal error occurred: etcdserver: request timed out"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        "Timeout: request did not complete within requested timeout - context deadline exceeded",
    ),
}
_CACHE_NOT_READY: Final = "storage is (re)initializing"
_ETCD: Final = "etcdserver: request timed out"


class _Failure(ApiError):
    """A failure of any code."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: Json | None, retry_after: int
    ) -> None:
        super().__init__(message, details=details, retry_after_seconds=retry_after)
        self.code = code
        self.reason = reason


def failure(answer: AnswerWith, facts: RequestFacts, current_version: int) -> ApiError:
    """The failure a fault answers a request with."""
    if answer.too_large_resource_version:
        wanted = facts.query.text("resourceVersion")
        version = int(wanted) if wanted.isdecimal() and wanted != "0" else current_version + 1
        return errors.ResourceVersionTooLarge(version, min(version - 1, current_version))
    upstream = _of_object(answer.code, facts)
    if upstream is None:
        reason, message = _PLAIN.get(answer.code, ("", f"injected: status {answer.code}"))
        message = message.format(verb=facts.verb, path=facts.path)
        details: Json | None = None
        if answer.code == 500:
            details = {"causes": [{"message": _ETCD}]}
        elif answer.code == 429 and facts.verb in ("list", "watch"):
            message = _CACHE_NOT_READY
    else:
        reason, message, details = upstream.reason, upstream.message, upstream.details
    return _Failure(
        answer.code,
        reason if answer.reason is None else answer.reason,
        message if answer.message is None else answer.message,
        details=details,
        retry_after=answer.retry_after_seconds,
    )


def refused_watch_list() -> ApiError:
    """What a server without the WatchList feature says to `sendInitialEvents`."""
    why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
    return errors.Invalid(
        "ListOptions", "meta.k8s.io", "", [errors.forbidden("sendInitialEvents", why)]
    )


def status_of_code(code: int) -> Json:
    """The Status of an ERROR event with that code."""
    reason, message = _PLAIN.get(code, ("", f"injected: status {code}"))
    return _Failure(code, reason, message, details=None, retry_after=0).status()


def _of_object(code: int, facts: RequestFacts) -> ApiError | None:
    """What upstream says about the object of a request; None if it says nothing about it."""
    route = facts.route
    if route is None or not facts.name:
        return None
    plural, group = route.kind.plural, route.kind.group
    if code == 404:
        return errors.NotFound(plural, group, facts.name)
    if code == 409 and facts.verb == "create" and not route.subresource:
        return errors.AlreadyExists(plural, group, facts.name)
    if code == 409:
        resource = f"{plural}/{route.subresource}" if route.subresource == "binding" else plural
        return errors.Conflict(resource, group, facts.name, errors.OPTIMISTIC_LOCK_MESSAGE)
    return None
