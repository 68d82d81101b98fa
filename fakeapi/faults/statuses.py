"""The Statuses that faults answer with, with upstream's texts.

If upstream has several texts for a code, the text is that of a server in trouble: etcd does not
answer, a watch cache is not ready, too many requests.
Source: apimachinery pkg/api/errors/errors.go, apiserver pkg/storage/errors and
pkg/server/filters of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.decoding.options import unsigned
from fakeapi.types import errors
from fakeapi.types.errors import ApiError

if TYPE_CHECKING:
    from fakeapi.faults.model import AnswerWith
    from fakeapi.faults.request_info import RequestInfo
    from fakeapi.types.objects import Json

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


def version_in(text: str) -> int:
    """Return a resource version, 0 for any other text."""
    try:
        return unsigned(text)
    except ValueError:
        return 0


def failure(answer: AnswerWith, info: RequestInfo, current_version: int) -> ApiError:
    """Return the error that a fault answers a request with."""
    if answer.too_large_resource_version:
        version = version_in(info.query.text("resourceVersion")) or current_version + 1
        return errors.ResourceVersionTooLarge(version, min(version - 1, current_version))
    upstream = _of_object(answer.code, info)
    if upstream is None:
        reason, message = _PLAIN.get(answer.code, ("", f"injected: status {answer.code}"))
        message = message.format(verb=info.verb, path=info.path)
        details: Json | None = None
        if answer.code == 500:
            details = {"causes": [{"message": _ETCD}]}
        elif answer.code == 429 and info.verb in ("list", "watch"):
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
    """Return the error of a server without the WatchList feature."""
    why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
    return errors.Invalid(
        "ListOptions", "meta.k8s.io", "", [errors.forbidden("sendInitialEvents", why)]
    )


def status_of_code(code: int) -> Json:
    """Return the Status of an ERROR event with that code."""
    reason, message = _PLAIN.get(code, ("", f"injected: status {code}"))
    return _Failure(code, reason, message, details=None, retry_after=0).status()


def _of_object(code: int, info: RequestInfo) -> ApiError | None:
    """Return the error that names the object of a request; None if upstream has none."""
    route = info.route
    if route is None or not info.name:
        return None
    plural, group = route.kind.plural, route.kind.group
    if code == 404:
        return errors.NotFound(plural, group, info.name)
    if code == 409 and info.verb == "create" and not route.subresource:
        return errors.AlreadyExists(plural, group, info.name)
    if code == 409:
        resource = f"{plural}/{route.subresource}" if route.subresource == "binding" else plural
        return errors.Conflict(resource, group, info.name, errors.OPTIMISTIC_LOCK_MESSAGE)
    return None
