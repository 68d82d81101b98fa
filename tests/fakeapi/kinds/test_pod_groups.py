"""PodGroups and Workloads: defaults, validation, immutable specs, admission, status."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock, ServerOptions

from ..api_client import ApiClient, Json
from ..state_files import serving

GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
WORKLOADS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/workloads"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
FINALIZER = "scheduling.k8s.io/podgroup-protection"
GANG: Json = {"gang": {"minCount": 2}}
MEMBER: Json = {
    "containers": [{"name": "c", "image": "x"}],
    "schedulingGroup": {"podGroupName": "g"},
}
IMMUTABLE = "Invalid value: null: field is immutable"


@pytest.fixture
async def alpha(session: aiohttp.ClientSession) -> AsyncIterator[ApiClient]:
    options = ServerOptions(runtime_config=["api/alpha=true"])
    async with FakeApiServer(clock=ManualClock(), seed=1, options=options) as server:
        yield ApiClient(session, server.url)


def group(name: str = "g", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": GANG, **spec}}


def workload(*templates: Json, **spec: Any) -> Json:
    return {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": list(templates), **spec}}


def template(name: str = "t", **fields: Any) -> Json:
    return {"name": name, "schedulingPolicy": GANG, **fields}


async def test_alpha_versions_are_off_by_default(api: ApiClient) -> None:
    assert (await api.post(GROUPS, group())).code == 404


async def test_a_group_gets_its_defaults_priority_and_finalizer(alpha: ApiClient) -> None:
    made = await alpha.create(GROUPS, {**group(), "status": {"conditions": [{"type": "A"}]}})
    assert made["spec"] == {
        "podGroupTemplateRef": None,
        "schedulingPolicy": GANG,
        "disruptionMode": "Pod",
        "priority": 0,
    }
    assert made["metadata"]["finalizers"] == [FINALIZER]
    assert "conditions" not in made.get("status", {})
    await alpha.create(CLASSES, {"metadata": {"name": "high"}, "value": 7})
    made = await alpha.create(GROUPS, group("h", priorityClassName="high"))
    assert (made["spec"]["priority"], made["spec"]["priorityClassName"]) == (7, "high")
    refused = await alpha.post(GROUPS, group("i", priority=3))
    assert refused.code == 403
    assert refused.message.endswith(
        "priority set in the pod group (3) must match the priority computed (0) based on the "
        "priority class set in the spec"
    )


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        (
            {"schedulingPolicy": {}},
            ['spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'],
        ),
        (
            {"schedulingPolicy": {"basic": {}, **GANG}},
            [
                'spec.schedulingPolicy: Invalid value: "{basic, gang}": '
                "must specify exactly one of: `basic`, `gang`"
            ],
        ),
        (
            {"schedulingPolicy": {"gang": {}}},
            ["spec.schedulingPolicy.gang.minCount: Required value"],
        ),
        (
            {"schedulingPolicy": {"gang": {"minCount": -1}}},
            [
                "spec.schedulingPolicy.gang.minCount: Invalid value: -1: "
                "must be greater than or equal to 1"
            ],
        ),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            ["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"],
        ),
        (
            {"schedulingConstraints": {"topology": [{}]}},
            ["spec.schedulingConstraints.topology[0].key: Required value"],
        ),
        (
            {"disruptionMode": "Some"},
            ['spec.disruptionMode: Unsupported value: "Some": supported values: "Pod", "PodGroup"'],
        ),
        (
            {"podGroupTemplateRef": {}},
            ['spec.podGroupTemplateRef: Invalid value: "": must specify one of: `workload`'],
        ),
        (
            {"podGroupTemplateRef": {"workload": {}}},
            [
                "spec.podGroupTemplateRef.workload.workloadName: Required value",
                "spec.podGroupTemplateRef.workload.podGroupTemplateName: Required value",
            ],
        ),
        (
            {"resourceClaims": [{"name": "a"}]},
            [
                'spec.resourceClaims[0]: Invalid value: "": must specify one of: '
                "`resourceClaimName`, `resourceClaimTemplateName`"
            ],
        ),
    ],
)
async def test_an_invalid_group_is_refused(alpha: ApiClient, spec: Json, errors: list[str]) -> None:
    refused = await alpha.post(GROUPS, group(**spec))
    text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    assert (refused.code, refused.message) == (
        422,
        f'PodGroup.scheduling.k8s.io "g" is invalid: {text}',
    )


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (workload(), "spec.podGroupTemplates: Required value"),
        (
            workload(*[template(f"t{index}") for index in range(9)]),
            "spec.podGroupTemplates: Too many: 9: must have at most 8 items",
        ),
        (
            workload(template(), template()),
            'spec.podGroupTemplates[1]: Duplicate value: {"name":"t",'
            '"schedulingPolicy":{"gang":{"minCount":2}},"schedulingConstraints":null}',
        ),
        (workload(template("")), "spec.podGroupTemplates[0].name: Required value"),
        (
            workload(template(), controllerRef={"name": "j"}),
            "spec.controllerRef.kind: Required value",
        ),
        (
            workload(template(), controllerRef={"kind": "Job", "name": "a/b"}),
            "spec.controllerRef.name: Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            workload(template(priority=1_000_000_001)),
            "spec.podGroupTemplates[0].priority: Invalid value: 1000000001: "
            "must be less than or equal to 1000000000",
        ),
    ],
)
async def test_an_invalid_workload_is_refused(alpha: ApiClient, body: Json, error: str) -> None:
    refused = await alpha.post(WORKLOADS, body)
    assert refused.code == 422
    assert refused.message == f'Workload.scheduling.k8s.io "w" is invalid: {error}'


async def test_specs_are_immutable(alpha: ApiClient) -> None:
    await alpha.create(GROUPS, group())
    await alpha.create(WORKLOADS, workload(template()))
    change = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": "PodGroup"}}
    refused = await alpha.patch(f"{GROUPS}/g", change)
    assert refused.message == (
        f'PodGroup.scheduling.k8s.io "g" is invalid: [spec.schedulingPolicy: {IMMUTABLE}, '
        f"spec.disruptionMode: {IMMUTABLE}]"
    )
    refused = await alpha.patch(f"{WORKLOADS}/w", workload(template("u")))
    assert refused.message == (
        f'Workload.scheduling.k8s.io "w" is invalid: spec.podGroupTemplates: {IMMUTABLE}'
    )
    labels = {"metadata": {"labels": {"a": "b"}}}
    for path in (f"{GROUPS}/g", f"{WORKLOADS}/w"):
        assert (await alpha.patch(path, labels)).code == 200


async def test_the_status_is_written_apart_and_validated(alpha: ApiClient) -> None:
    await alpha.create(GROUPS, group())
    condition = {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled"}
    refused = await alpha.patch(f"{GROUPS}/g/status", {"status": {"conditions": [condition]}})
    assert refused.causes == [("FieldValueRequired", "status.conditions[0].lastTransitionTime")]
    wrong = {"type": "a b", "status": "Maybe", "reason": "not one", "lastTransitionTime": None}
    refused = await alpha.patch(f"{GROUPS}/g/status", {"status": {"conditions": [wrong]}})
    assert [field for _, field in refused.causes] == [
        f"status.conditions[0].{name}"
        for name in ("type", "status", "lastTransitionTime", "reason")
    ]
    condition |= {"lastTransitionTime": "2027-01-15T08:00:00Z", "message": ""}
    body = {"spec": {"disruptionMode": "PodGroup"}, "status": {"conditions": [condition]}}
    reply = await alpha.patch(f"{GROUPS}/g/status", body)
    assert reply.code == 200, reply.body
    assert reply.body["status"]["conditions"] == [condition]
    assert reply.body["spec"]["disruptionMode"] == "Pod"
    claims = {"resourceClaimStatuses": [{"name": "c"}]}
    refused = await alpha.patch(f"{GROUPS}/g/status", {"status": claims})
    assert refused.message.endswith(
        'status.resourceClaimStatuses[0].name: Invalid value: "c": '
        "must match the name of an entry in `spec.resourceClaims`"
    )
    claim = {"name": "c", "resourceClaimTemplateName": "t"}
    await alpha.create(GROUPS, group("claims", resourceClaims=[claim]))
    statuses = [{"name": "c", "resourceClaimName": name} for name in ("x", "A")]
    refused = await alpha.patch(
        f"{GROUPS}/claims/status", {"status": {"resourceClaimStatuses": statuses}}
    )
    assert refused.causes == [
        ("FieldValueDuplicate", "status.resourceClaimStatuses[1]"),
        ("FieldValueInvalid", "status.resourceClaimStatuses[1].resourceClaimName"),
    ]
    statuses = [{"name": "c"}] * 5
    refused = await alpha.patch(
        f"{GROUPS}/claims/status", {"status": {"resourceClaimStatuses": statuses}}
    )
    assert refused.message.endswith("Too many: 5: must have at most 4 items")


async def test_the_workload_of_a_group_must_exist(alpha: ApiClient) -> None:
    reference = {"workloadName": "w", "podGroupTemplateName": "t"}
    body = group(podGroupTemplateRef={"workload": reference})
    refused = await alpha.post(GROUPS, body)
    forbidden = 'podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: '
    assert (refused.code, refused.message) == (403, f'{forbidden}Workload "w" not found')
    await alpha.create(WORKLOADS, workload(template("other")))
    refused = await alpha.post(GROUPS, body)
    assert refused.message == f'{forbidden}PodGroupTemplate "t" not found in Workload "w"'
    reference["podGroupTemplateName"] = "other"
    await alpha.create(GROUPS, body)


async def test_a_pods_group_is_validated_and_immutable(alpha: ApiClient) -> None:
    spec: Json = {"containers": [{"name": "c", "image": "x"}]}
    for made, error in (({}, "null: must specify one of: `podGroupName`"), ("A", '"A": a lower')):
        spec["schedulingGroup"] = {"podGroupName": made} if made else {}
        refused = await alpha.post(PODS, {"metadata": {"name": "p"}, "spec": spec})
        field = "spec.schedulingGroup.podGroupName"
        assert f"{field}: Invalid value: {error}" in refused.message
    spec["schedulingGroup"] = {"podGroupName": "g"}
    await alpha.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
    refused = await alpha.patch(f"{PODS}/p", {"spec": {"schedulingGroup": {"podGroupName": "h"}}})
    assert refused.causes == [("FieldValueForbidden", "spec")]


async def test_without_alpha_versions_new_pods_have_no_group(api: ApiClient) -> None:
    spec = {**MEMBER, "restartPolicy": "Never"}
    made = await api.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert "schedulingGroup" not in made["spec"]
    patched = await api.patch(f"{PODS}/p", {"spec": {"schedulingGroup": {"podGroupName": "g"}}})
    assert patched.code == 200
    assert "schedulingGroup" not in patched.body["spec"]
    job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}}
    of_job = (await api.create(JOBS, job))["spec"]["template"]["spec"]
    assert "schedulingGroup" not in of_job


async def test_a_pod_keeps_its_group_when_alpha_versions_are_turned_off(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    on = ServerOptions(runtime_config=["api/alpha=true"])
    async with serving(data=path, options=on) as (_, api):
        await api.create(PODS, {"metadata": {"name": "p"}, "spec": MEMBER})
    async with serving(data=path) as (_, api):
        await api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
        kept = (await api.get(f"{PODS}/p")).body
        assert kept["metadata"]["labels"] == {"a": "b"}
        assert kept["spec"]["schedulingGroup"] == {"podGroupName": "g"}


async def test_the_parallelism_of_a_gangs_job_is_fixed(alpha: ApiClient) -> None:
    await alpha.create(GROUPS, group())
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "x"}],
        "schedulingGroup": {"podGroupName": "g"},
    }
    body = {"metadata": {"name": "j"}, "spec": {"parallelism": 2, "template": {"spec": pod}}}
    await alpha.create(JOBS, body)
    refused = await alpha.patch(f"{JOBS}/j", {"spec": {"parallelism": 3}})
    assert (refused.code, refused.message) == (
        403,
        'jobs.batch "j" is forbidden: cannot change parallelism for a Job referencing '
        'gang-scheduled PodGroup "g"',
    )
    assert (await alpha.patch(f"{JOBS}/j", {"spec": {"suspend": True}})).code == 200


async def test_a_protected_group_stays_until_its_finalizer_goes(alpha: ApiClient) -> None:
    await alpha.create(GROUPS, group())
    await alpha.delete(f"{GROUPS}/g")
    kept = await alpha.get(f"{GROUPS}/g")
    assert "deletionTimestamp" in kept.body["metadata"]
    await alpha.patch(f"{GROUPS}/g", {"metadata": {"finalizers": None}})
    assert (await alpha.get(f"{GROUPS}/g")).code == 404
