"""Every way in which talking to the API server can go wrong.

    ClientError
    |-- KubeconfigError              no connection can be made of what the files say
    |-- ConnectionFailed             no answer came; a write may or may not have been carried out
    |   |-- ConnectionRefused        nobody listens: nothing was carried out
    |   `-- StreamInterrupted        a watch broke off, perhaps in the middle of an event
    |-- DecodeError                  an answer came, and it is no valid object
    `-- ApiError                     the server said no
        |-- Unauthorized             401  who are you?
        |-- Forbidden                403  I know who you are, and you may not
        |-- NotFound                 404
        |-- Conflict                 409  the object has changed, or its state forbids this
        |-- AlreadyExists            409  somebody else made it first (not a Conflict)
        |-- Expired                  410  that resource version is no longer known: list again
        |-- Invalid                  422  the object breaks a rule
        |-- TooManyRequests          429  later
        `-- ServerError              5xx  the server's own fault
            `-- ResourceVersionTooLarge   504  that resource version is not known yet

The tree is ours and not aiohttp's: callers decide by class whether to retry, to list again or to
give up, and must not have to know which library carried the bytes. There is a class where someone
catches it; every other refusal is a plain `ApiError` with its code and reason.

A refusal is classed by its `reason` and, where the reason is none we know, by its code, as
apimachinery does. An answer that is no `Status` at all (a proxy's error page) gets the reason and
the words client-go would give it. Source: apimachinery `pkg/api/errors/errors.go`, client-go
`rest/request.go` (`transformResponse`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.client.wire import Status, StatusCause, StatusDetails

#: Of a body that is no Status, this much is kept (client-go's bound).
_BODY_BYTES_MAX: Final = 2048

#: The cause that marks a resource version from the future, and what older servers wrote instead.
_TOO_LARGE_REASON: Final = "ResourceVersionTooLarge"
_TOO_LARGE_TEXT: Final = "Too large resource version"


class ClientError(Exception):
    """The base of everything this package raises on purpose."""


class KubeconfigError(ClientError):
    """No connection can be made: one line names the file and what is wrong with it."""


class ConnectionFailed(ClientError):
    """No answer came. A write may have been carried out all the same.

    `reset` says that the connection broke while the request was under way, which is worth another
    try where the request changes nothing.
    """

    def __init__(self, message: str, *, reset: bool = False) -> None:
        super().__init__(message)
        self.reset = reset


class ConnectionRefused(ConnectionFailed):
    """Nobody listens at the address: most likely the server is starting again."""


class StreamInterrupted(ConnectionFailed):
    """A watch broke off. Everything up to the last whole event has been delivered."""


class DecodeError(ClientError):
    """An answer that is no valid object: the text names the URL, the kind and the field."""

    def __init__(self, *, url: str, kind: str, detail: str) -> None:
        super().__init__(f"{url}: not a valid {kind}: {detail}")
        self.url = url
        self.kind = kind
        self.detail = detail


class ApiError(ClientError):
    """The server refused. `str()` of it is the server's own message, as in client-go.

    `retry_after_seconds` is from the header Retry-After or the `Status` itself. The client retries
    after `retry_delay_seconds`, which only the header sets (see `retries`).
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        details: StatusDetails | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or StatusDetails()
        self.retry_after_seconds = retry_after_seconds
        self.retry_delay_seconds: int | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.status}, {self.reason!r}, {self.message!r})"


class Unauthorized(ApiError):
    """The credentials are missing, wrong or worn out."""


class Forbidden(ApiError):
    """The credentials are good, but not for this; also what admission refuses."""


class NotFound(ApiError):
    """There is no such object, or no such kind of object."""


class Conflict(ApiError):
    """The object is not in the state the write was meant for: read it again."""


class AlreadyExists(ApiError):
    """An object of this name is there already."""


class Expired(ApiError):
    """The server has forgotten the history back to this resource version."""


class Invalid(ApiError):
    """The object breaks a rule of its kind; `details.causes` names the fields."""


class TooManyRequests(ApiError):
    """The server, or a disruption budget, wants us to come back later."""


class ServerError(ApiError):
    """The server failed at something that was not our fault."""


class ResourceVersionTooLarge(ServerError):
    """The server does not know this resource version yet: it lags, or it has lost its history."""


_BY_REASON: Final[dict[str, type[ApiError]]] = {
    "AlreadyExists": AlreadyExists,
    "BadRequest": ApiError,
    "Conflict": Conflict,
    "Expired": Expired,
    "Forbidden": Forbidden,
    "Gone": Expired,
    "InternalError": ServerError,
    "Invalid": Invalid,
    "MethodNotAllowed": ApiError,
    "NotAcceptable": ApiError,
    "NotFound": NotFound,
    "RequestEntityTooLarge": ApiError,
    "ServerTimeout": ServerError,
    "ServiceUnavailable": ServerError,
    "Timeout": ServerError,
    "TooManyRequests": TooManyRequests,
    "Unauthorized": Unauthorized,
    "UnsupportedMediaType": ApiError,
}

_BY_CODE: Final[dict[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}

#: For answers that are no Status: reason and words by code. `{server}` is what the server wrote.
_GENERIC: Final[dict[int, tuple[str, str]]] = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", "{server}"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: (
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    ),
    406: ("NotAcceptable", "{server}"),
    409: ("Conflict", "the server reported a conflict"),
    415: ("UnsupportedMediaType", "{server}"),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: (
        "TooManyRequests",
        "the server has received too many requests and has asked us to try again later",
    ),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        "the server was unable to return a response in the time allotted, but may still be "
        "processing the request",
    ),
}
_NOT_ACCEPTABLE: Final = (
    "the server was unable to respond with a content type that the client supports"
)


def error_of_status(
    status: Status, *, code: int = 0, retry_after_seconds: int | None = None
) -> ApiError:
    """The error a `Status` stands for. `code` is the HTTP code, for a status that has none."""
    code = status.code or code
    details = status.details or StatusDetails()
    return _class_of(code, status.reason, status.message, details)(
        code,
        status.reason,
        status.message,
        details=details,
        retry_after_seconds=retry_after_seconds or details.retry_after_seconds or None,
    )


def error_of_response(
    code: int,
    body: bytes,
    *,
    content_type: str = "",
    method: str = "GET",
    group_resource: str = "",
    name: str = "",
    retry_after_seconds: int | None = None,
) -> ApiError:
    """The error an HTTP answer stands for, be it a `Status` or some proxy's page.

    `group_resource` (`pods`, `leases.coordination.k8s.io`) and `name` say what was asked for; they
    end up in the words of an answer that has none of its own.
    """
    status = _decode_status(body)
    if status is not None and status.kind == "Status" and status.status == "Failure":
        return error_of_status(status, code=code, retry_after_seconds=retry_after_seconds)
    server = "unknown"
    if not content_type or content_type.startswith("text/"):
        server = body[:_BODY_BYTES_MAX].decode("utf-8", "replace").strip()
    reason, message = _generic_reason(code, method, server)
    if group_resource:
        subject = f"{group_resource} {name}" if name else group_resource
        message = f"{message} ({method.lower()} {subject})"
    details = StatusDetails(
        name=name,
        kind=group_resource.partition(".")[0],
        group=group_resource.partition(".")[2],
        causes=(StatusCause(reason="UnexpectedServerResponse", message=server),),
        retry_after_seconds=retry_after_seconds or 0,
    )
    return _class_of(code, reason, message, details)(
        code, reason, message, details=details, retry_after_seconds=retry_after_seconds
    )


def _decode_status(body: bytes) -> Status | None:
    try:
        return msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        return None


def _generic_reason(code: int, method: str, server: str) -> tuple[str, str]:
    if code == 409 and method == "POST":
        return "AlreadyExists", _GENERIC[409][1]
    if code == 406 and server in {"", "unknown"}:
        return "NotAcceptable", _NOT_ACCEPTABLE
    if code in _GENERIC:
        reason, message = _GENERIC[code]
        return reason, server if message == "{server}" else message
    if code >= 500:
        quoted = msgspec.json.encode(server).decode()
        return (
            "InternalError",
            f"an error on the server ({quoted}) has prevented the request from succeeding",
        )
    return (
        "",
        f"the server responded with the status code {code} but did not return more information",
    )


def _class_of(code: int, reason: str, message: str, details: StatusDetails) -> type[ApiError]:
    if any(cause.reason == _TOO_LARGE_REASON for cause in details.causes):
        return ResourceVersionTooLarge
    if reason == "Timeout" and (
        _TOO_LARGE_TEXT in message
        or any(cause.message == _TOO_LARGE_TEXT for cause in details.causes)
    ):
        return ResourceVersionTooLarge
    known = _BY_REASON.get(reason)
    if known is not None:
        # A 429 is a 429 whatever reason it gives itself.
        return TooManyRequests if code == 429 else known
    return _BY_CODE.get(code) or (ServerError if code >= 500 else ApiError)
