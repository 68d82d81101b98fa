"""The errors of the API, as exceptions that are sent as metav1.Status.

    ApiError                        any answer with a Status body
      BadRequest              400   malformed body, selector, option
      BadTarget               400   a path or query that cannot be decoded; plain text
      Unauthorized            401   no user, or an unknown one
      Forbidden               403   denied by admission or authorization
      NotFound                404   no such object, or no such resource (no name)
      MethodNotAllowed        405   the path exists, the verb does not
      NotAcceptable           406   no Accept media type can be served
      Conflict                409   stale resourceVersion, failed precondition, bound pod
      AlreadyExists           409   the name is taken
      Expired                 410   the resourceVersion is older than the event log
      EntityTooLarge          413   the body exceeds 3 MiB
      ObjectTooLarge          413   the object exceeds 1.5 MiB
      UnsupportedMediaType    415   the body's Content-Type
      Invalid                 422   validation, with one cause per field
      TooManyRequests         429   a disruption budget
      TooBusy                 429   more requests at once than allowed
      InternalError           500   a defect of this server
      UnreasonedFailure       500   upstream's own 500 answers that carry no reason
      ResourceVersionTooLarge 504   the resourceVersion lies in the future

Codes, reasons, messages and details are those of k8s.io/apimachinery pkg/api/errors of v0.36.3.
Errors of manifests are `LoadError` in loading/manifests.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.types import gotext
from fakeapi.types.limits import DEFAULT
from fakeapi.types.objects import in_key_order
from fakeapi.types.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeapi.types.objects import Json

OPTIMISTIC_LOCK_MESSAGE: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_KIND_SEPARATOR: Final = "."


class _Omitted:
    """Marks a field error whose text has no value."""


OMITTED: Final = _Omitted()

_LABELS: Final = {
    "FieldValueRequired": "Required value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueNotFound": "Not found",
}
_WITHOUT_VALUE: Final = {"FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong"}


class FieldError(Record, frozen=True):
    """One cause of a validation failure; `reason` is upstream's cause type."""

    reason: str
    field: str
    detail: str = ""
    value: object = OMITTED

    @property
    def message(self) -> str:
        """Return the text of the cause, without the field."""
        body = _LABELS[self.reason]
        if self.reason not in _WITHOUT_VALUE and self.value is not OMITTED:
            body = f"{body}: {_shown(self.value)}"
        return f"{body}: {self.detail}" if self.detail else body


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return gotext.quoted(value)
    if isinstance(value, float):
        return gotext.number(value)
    return msgspec.json.encode(value).decode()


def in_order(errors: Sequence[FieldError]) -> list[FieldError]:
    """Return the errors, the keys in their values sorted, as Go prints maps."""
    return [msgspec.structs.replace(error, value=in_key_order(error.value)) for error in errors]


def required(field: str, detail: str = "") -> FieldError:
    """Return the error of a missing field."""
    return FieldError("FieldValueRequired", field, detail)


def invalid(field: str, value: object, detail: str) -> FieldError:
    """Return the error of a value that breaks a rule."""
    return FieldError("FieldValueInvalid", field, detail, value)


def duplicate(field: str, value: object, detail: str = "") -> FieldError:
    """Return the error of a value that must be unique."""
    return FieldError("FieldValueDuplicate", field, detail, value)


def forbidden(field: str, detail: str) -> FieldError:
    """Return the error of a field that may not be set or changed."""
    return FieldError("FieldValueForbidden", field, detail)


def not_supported(field: str, value: object, supported: Sequence[str]) -> FieldError:
    """Return the error of a value that is not among the supported values."""
    quoted = ", ".join(f'"{item}"' for item in supported)
    return FieldError("FieldValueNotSupported", field, f"supported values: {quoted}", value)


def too_long(field: str, maximum: int) -> FieldError:
    """Return the error of a value with too many bytes."""
    unit = "byte" if maximum == 1 else "bytes"
    return FieldError("FieldValueTooLong", field, f"may not be more than {maximum} {unit}")


def too_many(field: str, count: int, maximum: int) -> FieldError:
    """Return the error of a list with too many items."""
    unit = "item" if maximum == 1 else "items"
    return FieldError("FieldValueTooMany", field, f"must have at most {maximum} {unit}", count)


def aggregate(errors: Sequence[FieldError], length_max: int) -> str:
    """Return Go's text of errors: a single error as it is, several in brackets, without repeats.

    The text is cut after the error that reaches `length_max` characters.
    """
    return _aggregate(_causes(errors, length_max), len(errors))


def _causes(errors: Sequence[FieldError], length_max: int) -> list[Json]:
    """Return the causes of a Status, as many as an answer may show and at least one.

    Upstream shows all: a body of 3 MiB may have a million errors that each show the whole body.
    """
    causes: list[Json] = []
    length = 0
    for error in errors:
        message = error.message
        causes.append({"reason": error.reason, "message": message, "field": error.field})
        length += len(message) + len(error.field)
        if length > length_max:
            break
    return causes


def _aggregate(causes: Sequence[Json], count: int) -> str:
    """Return the text of the causes of `count` errors."""
    lines = [f"{cause['field']}: {cause['message']}" for cause in causes]
    if count > len(causes):
        lines.append(f"and {count - len(causes)} more errors")
    return gotext.aggregated(lines)


def qualified(resource: str, group: str) -> str:
    """Return a resource or kind with its group, as messages name it."""
    return f"{resource}{_KIND_SEPARATOR}{group}" if group else resource


class ApiError(Exception):
    """An answer with a failure Status. `details` of None leaves the details out."""

    code = 500
    reason = ""

    def __init__(
        self, message: str, *, details: Json | None = None, retry_after_seconds: int = 0
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.retry_after_seconds = retry_after_seconds
        if retry_after_seconds:
            self.details = {**(details or {}), "retryAfterSeconds": retry_after_seconds}

    def status(self) -> Json:
        """Return the metav1.Status in its wire form."""
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


class _ObjectError(ApiError):
    """An error about one object, named in the details by resource, group and name."""

    def __init__(
        self, resource: str, group: str, name: str, message: str, *, retry_after_seconds: int = 0
    ) -> None:
        details: Json = {"name": name} if name else {}
        if group:
            details["group"] = group
        if resource:
            details["kind"] = resource
        super().__init__(message, details=details, retry_after_seconds=retry_after_seconds)


class BadRequest(ApiError):
    """The request is malformed."""

    code = 400
    reason = "BadRequest"


def unhandled(kind: str, version: str, why: object, *, expected: str = "") -> BadRequest:
    """Return the error of a body of an unknown kind, or of a kind other than `expected`."""
    wanted = expected or kind
    return BadRequest(f'{kind} in version "{version}" cannot be handled as a {wanted}: {why}')


class BadTarget(ApiError):
    """The path has a % that begins no escape, or the query too many parameters.

    Go's net/http answers in plain text.
    """

    code = 400
    reason = "BadRequest"

    def __init__(self, why: str = "") -> None:
        super().__init__(f"400 Bad Request: {why}" if why else "400 Bad Request")


class Unauthorized(ApiError):
    """The request has no credentials, or unknown credentials."""

    code = 401
    reason = "Unauthorized"

    def __init__(self) -> None:
        super().__init__("Unauthorized")


class Forbidden(_ObjectError):
    """Admission denies the object, or authorization the request, which may have no object."""

    code = 403
    reason = "Forbidden"

    def __init__(self, resource: str, group: str, name: str, why: str) -> None:
        subject = f'{qualified(resource, group)} "{name}"' if name else qualified(resource, group)
        message = f"{subject} is forbidden: {why}" if resource else f"forbidden: {why}"
        super().__init__(resource, group, name, message)


class NotFound(_ObjectError):
    """The object does not exist."""

    code = 404
    reason = "NotFound"

    def __init__(self, resource: str, group: str, name: str) -> None:
        super().__init__(resource, group, name, f'{qualified(resource, group)} "{name}" not found')


class UnknownResource(ApiError):
    """The API group is served, but not this resource."""

    code = 404
    reason = "NotFound"

    def __init__(self) -> None:
        super().__init__("the server could not find the requested resource", details={})


class MethodNotAllowed(ApiError):
    """The path is served, but not with this method."""

    code = 405
    reason = "MethodNotAllowed"

    def __init__(self) -> None:
        super().__init__(
            "the server does not allow this method on the requested resource", details={}
        )


class NotAcceptable(ApiError):
    """The server cannot answer in a media type that the client accepts."""

    code = 406
    reason = "NotAcceptable"


class Conflict(_ObjectError):
    """The object is not in the state that the request requires."""

    code = 409
    reason = "Conflict"

    def __init__(self, resource: str, group: str, name: str, why: str) -> None:
        subject = f'{qualified(resource, group)} "{name}"'
        super().__init__(
            resource, group, name, f"Operation cannot be fulfilled on {subject}: {why}"
        )


class AlreadyExists(_ObjectError):
    """The name is taken. For a generated name the client may retry."""

    code = 409
    reason = "AlreadyExists"

    def __init__(self, resource: str, group: str, name: str, *, generated: bool = False) -> None:
        message = f'{qualified(resource, group)} "{name}" already exists'
        if generated:
            message += ", the server was not able to generate a unique name for the object"
        super().__init__(resource, group, name, message, retry_after_seconds=int(generated))


class Expired(ApiError):
    """The resourceVersion is older than the event log."""

    code = 410
    reason = "Expired"

    def __init__(self, message: str, *, continue_token: str = "") -> None:
        super().__init__(message)
        self.continue_token = continue_token

    def status(self) -> Json:
        """Return the Status, with a continue token for an inconsistent list if it was a page."""
        body = super().status()
        if self.continue_token:
            body["metadata"] = {"continue": self.continue_token}
        return body


class EntityTooLarge(ApiError):
    """The body exceeds the limit."""

    code = 413
    reason = "RequestEntityTooLarge"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"Request entity too large: limit is {limit_bytes}")


class ObjectTooLarge(ApiError):
    """The object is larger than what etcd stores by default."""

    code = 413
    reason = "RequestEntityTooLarge"

    def __init__(self) -> None:
        super().__init__("etcdserver: request is too large")


class UnsupportedMediaType(ApiError):
    """The server does not decode the body's media type."""

    code = 415
    reason = "UnsupportedMediaType"


class Invalid(_ObjectError):
    """The object, or the options of the request, are not valid."""

    code = 422
    reason = "Invalid"

    def __init__(
        self,
        kind: str,
        group: str,
        name: str,
        errors: Sequence[FieldError],
        length_max: int = DEFAULT.max_errors_length,
    ) -> None:
        self._subject = kind, group, name
        self._errors = errors
        self._length_max = length_max
        causes = _causes(errors, length_max)
        why = _aggregate(causes, len(errors))
        super().__init__(kind, group, name, f'{qualified(kind, group)} "{name}" is invalid: {why}')
        self.details = {**(self.details or {}), "causes": causes}

    def within(self, length_max: int) -> Invalid:
        """Return the error with as many of its causes as have this number of characters."""
        if length_max == self._length_max:
            return self
        return Invalid(*self._subject, self._errors, length_max)


class Unprocessable(ApiError):
    """A JSON patch does not apply to the object."""

    code = 422
    reason = "Invalid"

    def __init__(self) -> None:
        super().__init__(
            "the server rejected our request due to an error in our request", details={}
        )


class TooManyRequests(ApiError):
    """A disruption budget is used up, or the server asks to slow down."""

    code = 429
    reason = "TooManyRequests"


class TooBusy(ApiError):
    """Too many requests are in flight. Upstream's answer is plain text."""

    code = 429
    reason = "TooManyRequests"

    def __init__(self) -> None:
        message = "Too many requests, please try again later."
        super().__init__(message, retry_after_seconds=1)


class InternalError(ApiError):
    """A defect of this server."""

    code = 500
    reason = "InternalError"

    def __init__(self, why: str) -> None:
        super().__init__(f"Internal error occurred: {why}", details={"causes": [{"message": why}]})


class UnreasonedFailure(ApiError):
    """A 500 answer without a reason: upstream's handlers return a plain Go error."""

    code = 500


class ResourceVersionTooLarge(ApiError):
    """The requested resourceVersion was not reached in time."""

    code = 504
    reason = "Timeout"

    def __init__(self, wanted: int, current: int) -> None:
        super().__init__(
            f"Timeout: Too large resource version: {wanted}, current: {current}",
            details={
                "causes": [
                    {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
                ]
            },
            retry_after_seconds=1,
        )


class RequestTimedOut(ApiError):
    """The request, body included, took too long."""

    code = 504
    reason = "Timeout"

    def __init__(self) -> None:
        super().__init__(
            "Timeout: request did not complete within the allotted timeout", details={}
        )
