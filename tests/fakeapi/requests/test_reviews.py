"""Reviews on a server that lets everybody do everything, as it is by default."""

from typing import Any

import pytest

from ..api_client import ApiClient

Json = dict[str, Any]

AUTHENTICATION = "/apis/authentication.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
SELF = f"{AUTHORIZATION}/selfsubjectaccessreviews"
OTHERS = f"{AUTHORIZATION}/subjectaccessreviews"
LOCAL = f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"
PODS: Json = {"verb": "get", "resource": "pods", "namespace": "default"}


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        (SELF, {"resourceAttributes": PODS}),
        (SELF, {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}),
        (OTHERS, {"resourceAttributes": PODS, "user": "jane"}),
        (LOCAL, {"resourceAttributes": PODS, "groups": ["devs"]}),
    ],
)
async def test_everything_is_allowed_and_the_answer_is_the_review_with_its_status(
    api: ApiClient, path: str, spec: Json
) -> None:
    reply = await api.post(path, {"spec": spec})
    assert reply.code == 201
    assert reply.body["spec"] == spec
    assert reply.body["status"] == {"allowed": True}


async def test_without_rbac_two_rules_allow_everything(api: ApiClient) -> None:
    reply = await api.post(
        f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}
    )
    assert reply.body["status"] == {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


async def test_without_authentication_the_user_is_anonymous(api: ApiClient) -> None:
    reply = await api.post(f"{AUTHENTICATION}/selfsubjectreviews", {})
    assert reply.code == 201
    assert reply.body["status"]["userInfo"] == {
        "username": "system:anonymous",
        "groups": ["system:unauthenticated"],
    }


async def test_no_token_is_known(api: ApiClient) -> None:
    reply = await api.post(f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": "x"}})
    assert reply.code == 201
    assert reply.body["status"] == {"user": {}, "error": "invalid bearer token"}


@pytest.mark.parametrize(
    ("path", "review", "field", "words"),
    [
        (SELF, {"spec": {}}, "spec.resourceAttributes", "exactly one of nonResourceAttributes or"),
        (
            SELF,
            {"spec": {"resourceAttributes": PODS, "nonResourceAttributes": {"path": "/"}}},
            "spec.nonResourceAttributes",
            "cannot be specified in combination with resourceAttributes",
        ),
        (
            OTHERS,
            {"spec": {"resourceAttributes": PODS}},
            "spec.user",
            "at least one of user or group must be specified",
        ),
        (
            OTHERS,
            {"metadata": {"name": "x"}, "spec": {"resourceAttributes": PODS, "user": "jane"}},
            "metadata",
            "must be empty",
        ),
        (
            LOCAL,
            {"spec": {"resourceAttributes": {**PODS, "namespace": "other"}, "user": "jane"}},
            "spec.resourceAttributes.namespace",
            "must match metadata.namespace",
        ),
        (
            LOCAL,
            {"spec": {"nonResourceAttributes": {"path": "/"}, "user": "jane"}},
            "spec.nonResourceAttributes",
            "disallowed on this kind of request",
        ),
        (
            SELF,
            {"spec": {"resourceAttributes": {**PODS, "labelSelector": {}}}},
            "spec.resourceAttributes.labelSelector.requirements",
            "requirements or rawSelector is required",
        ),
    ],
)
async def test_a_review_that_makes_no_sense_is_invalid(
    api: ApiClient, path: str, review: Json, field: str, words: str
) -> None:
    reply = await api.post(path, review)
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert field in [cause[1] for cause in reply.causes]
    assert words in reply.message


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"{AUTHORIZATION}/selfsubjectrulesreviews", "no namespace on request"),
        (
            f"{AUTHENTICATION}/tokenreviews",
            "token is required for TokenReview in authentication",
        ),
    ],
)
async def test_a_review_without_its_question_is_a_bad_request(
    api: ApiClient, path: str, message: str
) -> None:
    reply = await api.post(path, {"spec": {}})
    assert (reply.code, reply.message) == (400, message)


async def test_selectors_that_cannot_be_read_are_left_out_and_said(api: ApiClient) -> None:
    asked = {**PODS, "fieldSelector": {"rawSelector": "a,b"}, "labelSelector": {"rawSelector": "("}}
    reply = await api.post(SELF, {"spec": {"resourceAttributes": asked}})
    assert reply.body["status"]["evaluationError"] == (
        "spec.resourceAttributes.fieldSelector ignored due to parse error; "
        "spec.resourceAttributes.labelSelector ignored due to parse error"
    )


async def test_reviews_are_not_stored(api: ApiClient) -> None:
    reply = await api.get(SELF)
    assert (reply.code, reply.reason) == (405, "MethodNotAllowed")
