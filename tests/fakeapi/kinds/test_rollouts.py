"""Invalid Deployments, StatefulSets, Jobs and CronJobs are refused as by kube-apiserver."""

from typing import Any

import pytest

from ..api_client import MERGE, ApiClient

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


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        (
            {"type": "OnDelete", "rollingUpdate": {"partition": 1}},
            'spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":'
            "null}: only allowed for updateStrategy 'RollingUpdate'",
        ),
        (
            {"type": "Foo"},
            'spec.updateStrategy: Invalid value: {"Type":"Foo","RollingUpdate":null}: '
            "must be 'RollingUpdate' or 'OnDelete'",
        ),
        (
            {"rollingUpdate": {"partition": -1}},
            "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: "
            "must be greater than or equal to 0",
        ),
    ],
)
async def test_update_strategies_of_stateful_sets(
    api: ApiClient, strategy: dict[str, Any], why: str
) -> None:
    reply = await api.post(f"{APPS}/statefulsets", workload(updateStrategy=strategy))
    assert (reply.code, reply.message) == (422, f'StatefulSet.apps "w" is invalid: {why}')


async def test_a_stateful_set_whose_pods_are_replaced_when_deleted(api: ApiClient) -> None:
    await api.create(f"{APPS}/statefulsets", workload(updateStrategy={"type": "OnDelete"}))


@pytest.mark.parametrize(
    ("plural", "called"),
    [
        ("statefulsets", "statefulset"),
        ("daemonsets", "daemonset"),
        ("replicasets", "deployment"),
        ("deployments", "deployment"),
    ],
)
async def test_empty_selectors_are_refused(api: ApiClient, plural: str, called: str) -> None:
    reply = await api.post(f"{APPS}/{plural}", workload(selector={}))
    assert (reply.code, reply.causes) == (422, [("FieldValueInvalid", "spec.selector")])
    assert reply.message.endswith(
        f"spec.selector: Invalid value: {{}}: empty selector is invalid for {called}"
    )


async def test_a_daemon_set_without_a_selector_matches_nothing(api: ApiClient) -> None:
    reply = await api.post(f"{APPS}/daemonsets", workload(selector=None))
    assert reply.causes == [("FieldValueInvalid", "spec.template.metadata.labels")]


@pytest.mark.parametrize(
    ("plural", "more"),
    [
        ("statefulsets", "}"),
        ("replicasets", "}: invalid label selector"),
        ("daemonsets", None),
    ],
)
async def test_selectors_that_cannot_be_read(api: ApiClient, plural: str, more: str | None) -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "X"}]}
    reply = await api.post(f"{APPS}/{plural}", workload(selector=selector))
    fields = ["spec.selector.matchExpressions[0].operator"]
    if more is not None:
        fields.append("spec.selector")
        assert reply.message.endswith(f"]{more}]")
    assert [field for _, field in reply.causes] == fields


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


async def test_completions_change_with_the_parallelism(api: ApiClient) -> None:
    await api.create(f"{BATCH}/jobs", job(completionMode="Indexed", completions=3, parallelism=3))
    refused = await api.patch(f"{BATCH}/jobs/j", {"spec": {"completions": 5}})
    assert refused.message == (
        'Job.batch "j" is invalid: spec.completions: Invalid value: 5: '
        "can only be modified in tandem with spec.parallelism"
    )
    gone = await api.patch(f"{BATCH}/jobs/j", {"spec": {"completions": None}})
    assert gone.message == (
        'Job.batch "j" is invalid: spec.completions: Required value: '
        "when completion mode is Indexed"
    )
    both = {"spec": {"completions": 5, "parallelism": 5}}
    assert (await api.patch(f"{BATCH}/jobs/j", both)).code == 200


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"template": {"spec": {"restartPolicy": "OnFailure"}}}, ["spec.template"]),
        ({"completions": 5}, ["spec.completions"]),
        ({"completionMode": "Indexed"}, ["spec.completionMode"]),
        ({"parallelism": 5, "suspend": True}, []),
    ],
)
async def test_fields_of_a_job_that_cannot_change(
    api: ApiClient, change: dict[str, Any], fields: list[str]
) -> None:
    await api.create(f"{BATCH}/jobs", job(completions=1))
    reply = await api.patch(f"{BATCH}/jobs/j", {"spec": change}, MERGE)
    assert reply.code == (422 if fields else 200)
    assert [field for _, field in (reply.causes if fields else [])] == fields
