"""Jobs that are gangs get a Workload, a PodGroup and members; PodGroups in use are kept."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from fakeapi.actors.owners.pod_groups_of_jobs import pod_group_name, workload_name

from ..actor_cluster import PODS, Cluster, cluster
from ..api_client import Json
from .test_jobs import JOBS, end, indexed, job, live

WORKLOADS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/workloads"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
EVENTS = "/api/v1/namespaces/default/events"


def alpha(**actors: Any) -> AbstractAsyncContextManager[Cluster]:
    return cluster(runtime_config="api/alpha=true", **actors)


async def groups_of_pods(c: Cluster) -> set[str | None]:
    pods = await c.items(PODS)
    return {pod["spec"].get("schedulingGroup", {}).get("podGroupName") for pod in pods}


async def test_a_gang_has_a_workload_a_pod_group_and_members() -> None:
    async with alpha(owners=True) as c:
        made = await c.create(JOBS, indexed())
        (workload,), (group,) = await c.items(WORKLOADS), await c.items(GROUPS)
        owner = {
            "apiVersion": "batch/v1", "kind": "Job", "name": "j",
            "uid": made["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        policy = {"gang": {"minCount": 3}}
        assert workload["metadata"]["ownerReferences"] == [owner]
        assert workload["spec"]["controllerRef"] == {
            "apiGroup": "batch", "kind": "Job", "name": "j",
        }  # fmt: skip
        (template,) = workload["spec"]["podGroupTemplates"]
        assert (template["name"], template["schedulingPolicy"]) == ("j-pgt-0", policy)
        name, metadata = workload["metadata"]["name"], group["metadata"]
        assert metadata["ownerReferences"] == [
            owner,
            {
                "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "name": name,
                "uid": workload["metadata"]["uid"],
            },
        ]  # fmt: skip
        reference = {"workloadName": name, "podGroupTemplateName": "j-pgt-0"}
        assert group["spec"]["podGroupTemplateRef"] == {"workload": reference}
        assert group["spec"]["schedulingPolicy"] == policy
        assert await groups_of_pods(c) == {metadata["name"]}
        assert len(await c.items(PODS)) == 3
        events = {event["reason"]: event["message"] for event in await c.items(EVENTS)}
        assert events["WorkloadCreated"] == f"Created Workload {name} for Job j"


async def test_a_replaced_pod_is_a_member_of_the_same_group() -> None:
    async with alpha(owners=True) as c:
        await c.create(JOBS, indexed())
        await end(c, (await live(c))["0"], code=1)
        await c.advance(60)
        assert "0" in await live(c)
        assert len(await c.items(GROUPS)) == 1
        assert await groups_of_pods(c) == {(await c.items(GROUPS))[0]["metadata"]["name"]}


async def test_a_suspended_gang_has_its_group_before_it_has_pods() -> None:
    async with alpha(owners=True) as c:
        await c.create(JOBS, indexed(suspend=True))
        assert (len(await c.items(GROUPS)), await c.items(PODS)) == (1, [])
        await c.api.patch(f"{JOBS}/j", {"spec": {"suspend": False}})
        await c.settle()
        assert await groups_of_pods(c) == {(await c.items(GROUPS))[0]["metadata"]["name"]}


@pytest.mark.parametrize(
    "body",
    [
        job(parallelism=3, completions=3),
        indexed(parallelism=2),
        indexed(parallelism=1, completions=1),
    ],
)
async def test_other_jobs_have_no_group(body: Json) -> None:
    async with alpha(owners=True) as c:
        await c.create(JOBS, body)
        assert await c.items(WORKLOADS) == await c.items(GROUPS) == []
        assert await groups_of_pods(c) == {None}


async def test_a_group_in_the_template_is_the_users_own() -> None:
    async with alpha(owners=True) as c:
        body = indexed()
        body["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "mine"}
        await c.create(JOBS, body)
        assert await c.items(WORKLOADS) == []
        assert await groups_of_pods(c) == {"mine"}


async def test_a_workload_of_another_owner_leaves_the_pods_alone() -> None:
    async with alpha(owners=True) as c:
        template = {"name": "t", "schedulingPolicy": {"basic": {}}}
        reference = {"apiGroup": "batch", "kind": "Job", "name": "j"}
        spec = {"controllerRef": reference, "podGroupTemplates": [template]}
        await c.create(WORKLOADS, {"metadata": {"name": "w"}, "spec": spec})
        await c.create(JOBS, indexed())
        assert (len(await c.items(WORKLOADS)), await c.items(GROUPS)) == (1, [])
        assert await groups_of_pods(c) == {None}


async def test_a_job_that_has_started_gets_no_group() -> None:
    async with alpha(owners=True) as c:
        body = indexed()
        body["spec"]["suspend"] = True
        await c.create(JOBS, body)
        for path in (GROUPS, WORKLOADS):
            (found,) = await c.items(path)
            target = f"{path}/{found['metadata']['name']}"
            await c.api.patch(target, {"metadata": {"finalizers": None}})
            await c.api.delete(target)
        await c.api.patch(f"{JOBS}/j", {"spec": {"suspend": False}})
        await c.settle()
        assert (await c.items(WORKLOADS), await groups_of_pods(c)) == ([], {None})


async def test_without_alpha_versions_and_without_the_option_jobs_have_no_group() -> None:
    async with cluster(owners=True, garbage_collector=True) as c:
        await c.create(JOBS, indexed())
        assert await groups_of_pods(c) == {None}
    async with alpha(owners=True, pod_groups=False) as c:
        await c.create(JOBS, indexed())
        assert (await c.items(WORKLOADS), await groups_of_pods(c)) == ([], {None})


async def test_a_deleted_group_stays_until_its_pods_have_ended() -> None:
    async with alpha(garbage_collector=True) as c:
        gang = {"schedulingPolicy": {"gang": {"minCount": 1}}}
        for name in ("used", "free"):
            await c.create(GROUPS, {"metadata": {"name": name}, "spec": gang})
        spec = {
            "containers": [{"name": "main", "image": "x"}],
            "restartPolicy": "Never",
            "schedulingGroup": {"podGroupName": "used"},
        }
        made = [await c.create(PODS, {"metadata": {"name": name}, "spec": spec}) for name in "ab"]
        for name in ("used", "free"):
            await c.api.delete(f"{GROUPS}/{name}")
        await c.settle()
        assert [one["metadata"]["name"] for one in await c.items(GROUPS)] == ["used"]
        await end(c, made[0])
        assert len(await c.items(GROUPS)) == 1
        await c.api.delete(f"{PODS}/b", {"gracePeriodSeconds": 0})
        await c.settle()
        assert await c.items(GROUPS) == []


async def test_a_deleted_job_takes_its_workload_and_group_with_it() -> None:
    async with alpha(owners=True, garbage_collector=True) as c:
        await c.create(JOBS, indexed())
        await c.api.delete(f"{JOBS}/j", {"propagationPolicy": "Background"})
        await c.settle()
        await c.advance(60)
        assert await c.items(WORKLOADS) == await c.items(GROUPS) == await c.items(PODS) == []


def test_names_are_upstreams() -> None:
    # From pkg/controller/job of v1.36.3.
    assert workload_name("j", "11111111-2222-3333-4444-555555555555") == "j-68d7549f75"
    assert pod_group_name("w", "j-pgt-0") == "w-j-pgt-0-678bb54f79"
    assert len(workload_name("j" * 253, "u")) == 253
    for lengths in ((253, 7), (7, 253), (253, 253)):
        assert len(pod_group_name("w" * lengths[0], "t" * lengths[1])) == 253
