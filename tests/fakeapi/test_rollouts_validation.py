"""What is refused of Deployments, StatefulSets, Jobs and CronJobs, as kube-apiserver refuses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .api_client import MERGE

if TYPE_CHECKING:
    from .api_client import ApiClient

APPS = "/apis/apps/v1/namespaces/default"
BATCH = "/apis/batch/v1/namespaces/default"
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
ONCE = {**CONTAINERS, "restartPolicy": "Never"}


def workload(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": CONTAINERS}
    selector = {"matchLabels": {"a": "b"}}
    return {"metadata": {"name": "w"}, "spec": {"selector": selector, "template": template, **spec}}


def job(pod: dict[str, Any] = ONCE, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}, **spec}}


def rolling(unavailable: object, surge: object) -> dict[str, Any]:
    return {"strategy": {"rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}}


STRATEGY = "spec.strategy.rollingUpdate"


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        (
            {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
            [("FieldValueForbidden", STRATEGY)],
        ),
        ({"strategy": {"type": "X"}}, [("FieldValueNotSupported", "spec.strategy")]),
        (rolling(0, 0), [("FieldValueInvalid", f"{STRATEGY}.maxUnavailable")]),
        (rolling("150%", "150%"), [("FieldValueInvalid", f"{STRATEGY}.maxUnavailable")]),
        (rolling(1, "x"), [("FieldValueInvalid", f"{STRATEGY}.maxSurge")]),
        (
            {"progressDeadlineSeconds": 5, "minReadySeconds": 10},
            [("FieldValueInvalid", "spec.progressDeadlineSeconds")],
        ),
        ({"revisionHistoryLimit": -1}, [("FieldValueInvalid", "spec.revisionHistoryLimit")]),
        (
            {"selector": None},
            [
                ("FieldValueRequired", "spec.selector"),
                ("FieldValueInvalid", "spec.template.metadata.labels"),
            ],
        ),
    ],
)
async def test_deployments_that_are_refused(
    api: ApiClient, spec: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    reply = await api.post(f"{APPS}/deployments", workload(**spec))
    assert (reply.code, reply.causes) == (422, causes)


async def test_another_strategy_needs_the_parameters_of_the_first_gone(api: ApiClient) -> None:
    await api.create(f"{APPS}/deployments", workload())
    path = f"{APPS}/deployments/w"
    refused = await api.patch(path, {"spec": {"strategy": {"type": "Recreate"}}}, MERGE)
    assert refused.message == (
        'Deployment.apps "w" is invalid: spec.strategy.rollingUpdate: Forbidden: '
        "may not be specified when strategy `type` is 'Recreate'"
    )
    strategy = {"type": "Recreate", "rollingUpdate": None}
    assert (await api.patch(path, {"spec": {"strategy": strategy}}, MERGE)).code == 200


async def test_most_of_a_stateful_set_is_fixed(api: ApiClient) -> None:
    await api.create(f"{APPS}/statefulsets", workload(serviceName="s"))
    path = f"{APPS}/statefulsets/w"
    refused = await api.patch(path, {"spec": {"serviceName": "z"}}, MERGE)
    assert (refused.code, refused.causes) == (422, [("FieldValueForbidden", "spec")])
    assert "for fields other than 'replicas', 'ordinals', 'template'" in refused.message
    assert (await api.patch(path, {"spec": {"replicas": 3}}, MERGE)).code == 200


RESTART = "template.spec.restartPolicy"


@pytest.mark.parametrize(
    ("body", "causes"),
    [
        (job(CONTAINERS), [("FieldValueRequired", f"spec.{RESTART}")]),
        (
            job(ONCE | {"restartPolicy": "OnFailure"}, podFailurePolicy={"rules": []}),
            [("FieldValueInvalid", f"spec.{RESTART}")],
        ),
        (job(backoffLimit=-1), [("FieldValueInvalid", "spec.backoffLimit")]),
        (
            job({"restartPolicy": "Never"}),
            [("FieldValueRequired", "spec.template.spec.containers")],
        ),
    ],
)
async def test_jobs_that_are_refused(
    api: ApiClient, body: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    reply = await api.post(f"{BATCH}/jobs", body)
    assert (reply.code, reply.causes) == (422, causes)


async def test_jobs_of_cron_jobs_are_checked(api: ApiClient) -> None:
    spec = {"schedule": "@daily", "jobTemplate": {"spec": job(CONTAINERS)["spec"]}}
    reply = await api.post(f"{BATCH}/cronjobs", {"metadata": {"name": "c"}, "spec": spec})
    assert reply.causes == [("FieldValueRequired", f"spec.jobTemplate.spec.{RESTART}")]


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"template": {"spec": {"restartPolicy": "OnFailure"}}}, ["spec.template"]),
        ({"completions": 5}, ["spec.completions"]),
        ({"completionMode": "Indexed"}, ["spec.completionMode"]),
        ({"parallelism": 5, "suspend": True}, []),
    ],
)
async def test_what_is_fixed_in_a_job(
    api: ApiClient, change: dict[str, Any], fields: list[str]
) -> None:
    await api.create(f"{BATCH}/jobs", job(completions=1))
    reply = await api.patch(f"{BATCH}/jobs/j", {"spec": change}, MERGE)
    assert reply.code == (422 if fields else 200)
    assert [field for _, field in (reply.causes if fields else [])] == fields
