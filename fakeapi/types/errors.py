"""What the server refuses, as exceptions that render as metav1.Status.

    ApiError                        any answer with a Status body
      BadRequest              400   malformed body, selector, option
      BadTarget               400   a path that cannot be decoded; plain text
      Unauthorized            401   nobody knows who that is
      Forbidden               403   admission says no, or the roles do
      NotFound                404   no such object, or no such resource (no name)
      MethodNotAllowed        405   the path exists, the verb does not
      NotAcceptable           406   no Accept media type can be served
      Conflict                409   stale resourceVersion, failed precondition, bound pod
      AlreadyExists           409   the name is taken
      Expired                 410   the resourceVersion is older than the event log
      EntityTooLarge          413   the body exceeds 3 MiB
      UnsupportedMediaType    415   the body's Content-Type
      Invalid                 422   validation, with one cause per field
      TooManyRequests         429   a disruption budget
      TooBusy                 429   more requests at once than allowed
      InternalError           500   a defect of this server
      UnreasonedFailure       500   upstream's own 500 answers that carry no reason
      ResourceVersionTooLarge 504   the resourceVersion lies in the future

Codes, reasons, messages and details mirror k8s.io/apimachinery pkg/api/errors of v0.36.3.
Errors of the command line and of manifests are `LoadError` in loading.py.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.types import gotext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeapi.types.objects import Json

OPTIMISTIC_LOCK_MESSAGE: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_KIND_SEPARATOR: Final = "."


class _Omitted:
    """Marks a field error without a bad value in its text."""


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


@dataclasses.dataclass(frozen=True, slots=True)
class FieldError:
    """One cause of a validation failure; `reason` is upstream's cause type."""

    reason: str
    field: str
    detail: str = ""
    value: object = OMITTED

    @property
    def message(self) -> str:
        """The text of the cause, without the field."""
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
    """The errors with values whose names are sorted, as Go shows what it knows as maps only."""
    return [
        dataclasses.replace(error, value=_sorted(error.value))
        if isinstance(error.value, dict | list)
        else error
        for error in errors
    ]


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def required(field: str, detail: str = "") -> FieldError:
    """The field must be given."""
    return FieldError("FieldValueRequired", field, detail)


def invalid(field: str, value: object, detail: str) -> FieldError:
    """The field's value breaks a rule."""
    return FieldError("FieldValueInvalid", field, detail, value)


def duplicate(field: str, value: object, detail: str = "") -> FieldError:
    """The value occurs twice where it must be unique."""
    return FieldError("FieldValueDuplicate", field, detail, value)


def forbidden(field: str, detail: str) -> FieldError:
    """The field may not be set or changed here."""
    return FieldError("FieldValueForbidden", field, detail)


def not_supported(field: str, value: object, supported: Sequence[str]) -> FieldError:
    """The value is none of the few that are known."""
    quoted = ", ".join(f'"{item}"' for item in supported)
    return FieldError("FieldValueNotSupported", field, f"supported values: {quoted}", value)


def too_long(field: str, maximum: int) -> FieldError:
    """The value has more bytes than allowed."""
    unit = "byte" if maximum == 1 else "bytes"
    return FieldError("FieldValueTooLong", field, f"may not be more than {maximum} {unit}")


def too_many(field: str, count: int, maximum: int) -> FieldError:
    """The list has more items than allowed."""
    unit = "item" if maximum == 1 else "items"
    return FieldError("FieldValueTooMany", field, f"must have at most {maximum} {unit}", count)


def aggregate(errors: Sequence[FieldError]) -> str:
    """The text Go makes of a list of field errors: one bare, several in brackets, no repeats."""
    lines = list(dict.fromkeys(f"{error.field}: {error.message}" for error in errors))
    return lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"


def qualified(resource: str, group: str) -> str:
    """A resource or kind with its group, as messages name it."""
    return f"{resource}{_KIND_SEPARATOR}{group}" if group else resource


class ApiError(Exception):
    """An answer with a failure Status; `details` of None leaves that part out."""

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
        """The metav1.Status this error is on the wire."""
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

    def __init__(self, resource: str, group: str, name: str, message: str) -> None:
        details: Json = {"name": name} if name else {}
        if group:
            details["group"] = group
        if resource:
            details["kind"] = resource
        super().__init__(message, details=details)


class BadRequest(ApiError):
    """The request cannot be understood."""

    code = 400
    reason = "BadRequest"


def unhandled(kind: str, version: str, why: object, *, expected: str = "") -> BadRequest:
    """The refusal of a body that says it is of a kind; `expected` if another one was."""
    wanted = expected or kind
    return BadRequest(f'{kind} in version "{version}" cannot be handled as a {wanted}: {why}')


class BadTarget(ApiError):
    """The path has a % that begins no escape; net/http says so in plain text, to nobody's API."""

    code = 400
    reason = "BadRequest"

    def __init__(self) -> None:
        super().__init__("400 Bad Request")


class Unauthorized(ApiError):
    """The request does not show who makes it, or nothing that is known."""

    code = 401
    reason = "Unauthorized"

    def __init__(self) -> None:
        super().__init__("Unauthorized")


class Forbidden(_ObjectError):
    """Admission refuses the object, or authorization the request; that may be about a path only."""

    code = 403
    reason = "Forbidden"

    def __init__(self, resource: str, group: str, name: str, why: str) -> None:
        subject = f'{qualified(resource, group)} "{name}"' if name else qualified(resource, group)
        message = f"{subject} is forbidden: {why}" if resource else f"forbidden: {why}"
        super().__init__(resource, group, name, message)


class NotFound(_ObjectError):
    """There is no such object."""

    code = 404
    reason = "NotFound"

    def __init__(self, resource: str, group: str, name: str) -> None:
        super().__init__(resource, group, name, f'{qualified(resource, group)} "{name}" not found')


class UnknownResource(ApiError):
    """The API group is served, this resource of it is not."""

    code = 404
    reason = "NotFound"

    def __init__(self) -> None:
        super().__init__("the server could not find the requested resource", details={})


class MethodNotAllowed(ApiError):
    """The path is served, but not with this verb."""

    code = 405
    reason = "MethodNotAllowed"

    def __init__(self) -> None:
        super().__init__(
            "the server does not allow this method on the requested resource", details={}
        )


class NotAcceptable(ApiError):
    """None of the media types the client accepts can be produced."""

    code = 406
    reason = "NotAcceptable"


class Conflict(_ObjectError):
    """The object is not in the state the request builds on."""

    code = 409
    reason = "Conflict"

    def __init__(self, resource: str, group: str, name: str, why: str) -> None:
        subject = f'{qualified(resource, group)} "{name}"'
        super().__init__(
            resource, group, name, f"Operation cannot be fulfilled on {subject}: {why}"
        )


class AlreadyExists(_ObjectError):
    """The name is taken; for a generated name the client may try again."""

    code = 409
    reason = "AlreadyExists"

    def __init__(self, resource: str, group: str, name: str, *, generated: bool = False) -> None:
        message = f'{qualified(resource, group)} "{name}" already exists'
        if generated:
            message += ", the server was not able to generate a unique name for the object"
        super().__init__(resource, group, name, message)
        if generated:
            self.retry_after_seconds = 1
            self.details = {**(self.details or {}), "retryAfterSeconds": 1}


class Expired(ApiError):
    """The resourceVersion is older than what the event log still holds."""

    code = 410
    reason = "Expired"

    def __init__(self, message: str, *, continue_token: str = "") -> None:
        super().__init__(message)
        self.continue_token = continue_token

    def status(self) -> Json:
        """The Status, with a token to go on inconsistently if the request was a page."""
        body = super().status()
        if self.continue_token:
            body["metadata"] = {"continue": self.continue_token}
        return body


class EntityTooLarge(ApiError):
    """The body is larger than the server takes."""

    code = 413
    reason = "RequestEntityTooLarge"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"Request entity too large: limit is {limit_bytes}")


class UnsupportedMediaType(ApiError):
    """The body's media type is not one the server decodes."""

    code = 415
    reason = "UnsupportedMediaType"


class Invalid(_ObjectError):
    """The object, or the options of the request, break validation rules."""

    code = 422
    reason = "Invalid"

    def __init__(self, kind: str, group: str, name: str, errors: Sequence[FieldError]) -> None:
        subject = f'{qualified(kind, group)} "{name}" is invalid: {aggregate(errors)}'
        super().__init__(kind, group, name, subject)
        causes = [{"reason": e.reason, "message": e.message, "field": e.field} for e in errors]
        self.details = {**(self.details or {}), "causes": causes}


class Unprocessable(ApiError):
    """A JSON patch does not apply to the object."""

    code = 422
    reason = "Invalid"

    def __init__(self) -> None:
        super().__init__(
            "the server rejected our request due to an error in our request", details={}
        )


class TooManyRequests(ApiError):
    """A disruption budget is spent, or the server asks to slow down."""

    code = 429
    reason = "TooManyRequests"


class TooBusy(ApiError):
    """More requests are in work than the server is to do at once; upstream's answer is text."""

    code = 429
    reason = "TooManyRequests"

    def __init__(self) -> None:
        message = "Too many requests, please try again later."
        super().__init__(message, retry_after_seconds=1)


class InternalError(ApiError):
    """A defect of this server met the request."""

    code = 500
    reason = "InternalError"

    def __init__(self, why: str) -> None:
        super().__init__(f"Internal error occurred: {why}", details={"causes": [{"message": why}]})


class UnreasonedFailure(ApiError):
    """One of upstream's 500 answers without a reason: plain Go errors of its handlers."""

    code = 500


class ResourceVersionTooLarge(ApiError):
    """The resourceVersion asked for has not been reached in time."""

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
    """The request, its body among it, took longer than a request may."""

    code = 504
    reason = "Timeout"

    def __init__(self) -> None:
        super().__init__(
            "Timeout: request did not complete within the allotted timeout", details={}
        )
