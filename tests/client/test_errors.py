"""Refusals as errors: which class, which words."""

import json

import pytest

from scheduler.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ResourceVersionTooLarge,
    ServerError,
    TooManyRequests,
    Unauthorized,
    error_of_response,
)
from tests.client.scripted_server import status

TOO_LARGE = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large"}]}


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", ApiError),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (404, "SomethingNew", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Expired),
        (410, "Gone", Expired),
        (415, "UnsupportedMediaType", ApiError),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "", ServerError),
        (500, "InternalError", ServerError),
        (503, "ServiceUnavailable", ServerError),
        (504, "Timeout", ServerError),
    ],
)
def test_a_status_becomes_the_error_of_its_reason(
    code: int, reason: str, expected: type[ApiError]
) -> None:
    error = error_of_response(code, json.dumps(status(code, reason, "why")).encode())

    assert type(error) is expected
    assert (error.status, error.reason, str(error)) == (code, reason, "why")


@pytest.mark.parametrize(
    ("message", "details"),
    [
        ("Timeout: Too large resource version: 9, current: 5", TOO_LARGE),
        ("Too large resource version: 9, current: 5", {}),
        ("Timeout", {"causes": [{"message": "Too large resource version"}]}),
    ],
)
def test_a_version_from_the_future_is_recognised_in_all_its_spellings(
    message: str, details: dict[str, object]
) -> None:
    body = json.dumps(status(504, "Timeout", message, details=details)).encode()

    assert type(error_of_response(504, body)) is ResourceVersionTooLarge


def test_a_status_keeps_its_details() -> None:
    details: dict[str, object] = {
        "name": "p",
        "kind": "pods",
        "causes": [{"reason": "FieldValueInvalid", "message": "bad", "field": "spec.x"}],
        "retryAfterSeconds": 3,
    }
    error = error_of_response(422, json.dumps(status(422, "Invalid", details=details)).encode())

    assert error.details.name == "p"
    assert error.details.causes[0].field == "spec.x"
    assert error.retry_after_seconds == 3


@pytest.mark.parametrize(
    ("code", "method", "expected", "reason", "message"),
    [
        (
            404,
            "GET",
            NotFound,
            "NotFound",
            "the server could not find the requested resource (get pods p)",
        ),
        (409, "PUT", Conflict, "Conflict", "the server reported a conflict (put pods p)"),
        (
            409,
            "POST",
            AlreadyExists,
            "AlreadyExists",
            "the server reported a conflict (post pods p)",
        ),
        (403, "GET", Forbidden, "Forbidden", "no way (get pods p)"),
        (
            502,
            "GET",
            ServerError,
            "InternalError",
            'an error on the server ("no way") has prevented the request from succeeding'
            " (get pods p)",
        ),
        (
            503,
            "GET",
            ServerError,
            "ServiceUnavailable",
            "the server is currently unable to handle the request (get pods p)",
        ),
        (
            418,
            "GET",
            ApiError,
            "",
            "the server responded with the status code 418 but did not return more information"
            " (get pods p)",
        ),
    ],
)
def test_an_answer_that_is_no_status_gets_the_message_of_client_go(
    code: int, method: str, expected: type[ApiError], reason: str, message: str
) -> None:
    error = error_of_response(
        code,
        b"no way\n",
        content_type="text/plain; charset=utf-8",
        method=method,
        group_resource="pods",
        name="p",
    )

    assert type(error) is expected
    assert (error.status, error.reason, str(error)) == (code, reason, message)


def test_a_page_that_is_no_text_is_not_quoted() -> None:
    error = error_of_response(500, b"{}", content_type="application/json")

    assert str(error) == (
        'an error on the server ("unknown") has prevented the request from succeeding'
    )


def test_the_group_of_a_resource_ends_up_in_the_details() -> None:
    error = error_of_response(404, b"", group_resource="leases.coordination.k8s.io")

    assert (error.details.kind, error.details.group) == ("leases", "coordination.k8s.io")
