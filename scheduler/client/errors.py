"""The errors of requests to the API server.

    ClientError
    |-- KubeconfigError              the kubeconfig or the credentials are unusable
    |-- ConnectionFailed             no answer; a write may or may not have been executed
    |   |-- ConnectionRefused        no server at the address: nothing was executed
    |   `-- StreamInterrupted        a watch broke off, perhaps in the middle of an event
    |-- WriteRefused                 this process may not write, or no longer: nothing was sent
    |-- DecodeError                  the answer is no valid object
    |-- KindNotFound                 the server does not have this kind of objects
    `-- ApiError                     the server refused
        |-- Unauthorized             401  no valid credentials
        |-- Forbidden                403  the credentials do not allow this
        |-- NotFound                 404
        |-- Conflict                 409  the object has changed, or its state forbids this
        |-- AlreadyExists            409  the name is taken (not a Conflict)
        |-- Expired                  410  the resource version is too old: list again
        |-- Invalid                  422  the object breaks a rule
        |-- TooManyRequests          429  retry later
        `-- ServerError              5xx  a fault of the server
            `-- ResourceVersionTooLarge   504  the resource version is not known yet

Callers decide by class whether to retry, to list again or to give up, so aiohttp's errors do not
leave `transport`. A class exists where some caller catches it; every other refusal is a plain
`ApiError` with its code and reason.

The class of a refusal follows from its `reason`, or from its code if the reason is unknown, as in
apimachinery. An answer that is no `Status` (a proxy's error page) gets the reason and the message
that client-go would give it.
Source: apimachinery `pkg/api/errors/errors.go`, client-go `rest/request.go` (`transformResponse`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.client.objects import ApiStatus, StatusCause, StatusDetails

#: How much is kept of a body that is no Status (client-go's bound).
_BODY_BYTES_MAX: Final = 2048

#: The cause of a resource version from the future, and the text of older servers.
_TOO_LARGE_REASON: Final = "ResourceVersionTooLarge"
_TOO_LARGE_TEXT: Final = "Too large resource version"


class ClientError(Exception):
    """The base of all errors of this package."""


class KubeconfigError(ClientError):
    """No connection can be made: one line with the file and the error in it."""


class ConnectionFailed(ClientError):
    """There was no answer. A write may have been executed all the same.

    `reset` means that the connection broke during the request, so that a read is worth a retry.
    """

    def __init__(self, message: str, *, reset: bool = False) -> None:
        super().__init__(message)
        self.reset = reset


class ConnectionRefused(ConnectionFailed):
    """No server listens at the address: most likely it is restarting."""


class StreamInterrupted(ConnectionFailed):
    """A watch broke off. Everything up to the last complete event was delivered."""


class WriteRefused(ClientError):
    """A write that was not sent: this process only reads, or another one may lead now."""


class DecodeError(ClientError):
    """The answer is no valid object: the text names the URL, the kind and the field."""

    def __init__(self, *, url: str, kind: str, detail: str) -> None:
        super().__init__(f"{url}: not a valid {kind}: {detail}")
        self.url = url
        self.kind = kind
        self.detail = detail


class KindNotFound(ClientError):
    """The server's discovery does not name this kind."""


class ApiError(ClientError):
    """The server refused. `str()` of it is the server's own message, as in client-go.

    Only `Unauthorized` adds the credentials and the address, which help to mend it.

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
    """The credentials are missing, wrong or expired.

    `server` is the URL of the API server, `identity` the user and the file of the credentials.
    """

    server = ""
    identity = ""

    def __str__(self) -> str:
        refused = f"refused: the credentials of {self.identity}: " if self.identity else ""
        return f"{refused}{self.message}{f' (by {self.server})' if self.server else ''}"


class Forbidden(ApiError):
    """The credentials do not allow this, or admission refuses it."""


class NotFound(ApiError):
    """The object or the kind does not exist."""


class Conflict(ApiError):
    """The object is not in the state that the write requires: read it again."""


class AlreadyExists(ApiError):
    """An object of this name exists."""


class Expired(ApiError):
    """The server no longer has the history since this resource version."""


class Invalid(ApiError):
    """The object breaks a rule of its kind; `details.causes` names the fields."""


class TooManyRequests(ApiError):
    """The server, or a disruption budget, requires a later retry."""


class ServerError(ApiError):
    """The server failed, without a fault of the client."""


class ResourceVersionTooLarge(ServerError):
    """The server does not know this resource version yet: it lags or has lost its history."""


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

#: Reason and message by code, for answers that are no Status. `{server}` is the server's text.
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
    status: ApiStatus, *, code: int = 0, retry_after_seconds: int | None = None
) -> ApiError:
    """Return the error for a `Status`. `code` is the HTTP code, for a status without one."""
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
    """Return the error for an HTTP answer, be it a `Status` or a proxy's page.

    `group_resource` (`pods`, `leases.coordination.k8s.io`) and `name` are those of the request, for
    the message of an answer without a message.
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


def _decode_status(body: bytes) -> ApiStatus | None:
    try:
        return msgspec.json.decode(body, type=ApiStatus)
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
    error_class = _BY_REASON.get(reason)
    if error_class is not None:
        # A 429 is TooManyRequests whatever its reason is.
        return TooManyRequests if code == 429 else error_class
    return _BY_CODE.get(code) or (ServerError if code >= 500 else ApiError)
