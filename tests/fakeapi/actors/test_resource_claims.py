"""Claims from templates, and the end of claims that no pod uses."""

from ..actor_cluster import PODS, Cluster, cluster, pod
from ..api_client import Json

DRA = "/apis/resource.k8s.io/v1/namespaces/default"
CLAIMS, TEMPLATES = f"{DRA}/resourceclaims", f"{DRA}/resourceclaimtemplates"
EVENTS = "/api/v1/namespaces/default/events"
FINALIZER = "resource.kubernetes.io/delete-protection"
DEVICES: Json = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
TEMPLATE: Json = {
    "metadata": {"name": "t"},
    "spec": {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"devices": DEVICES},
    },
}
RESULT: Json = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d0"}


def claiming(name: str = "p", *, node: str = "", **source: str) -> Json:
    claims = [{"name": "gpu", **(source or {"resourceClaimTemplateName": "t"})}]
    made = pod(name, node=node, spec={"resourceClaims": claims})
    if not node:
        del made["spec"]["nodeName"]
    return made


async def allocate(c: Cluster, name: str, *users: Json) -> Json:
    """Write a claim as the scheduler does: finalizer, then allocation and reservation."""
    path = f"{CLAIMS}/{name}"
    await c.api.patch(path, {"metadata": {"finalizers": [FINALIZER]}})
    reserved = [
        {"resource": "pods", "name": user["metadata"]["name"], "uid": user["metadata"]["uid"]}
        for user in users
    ]
    status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": reserved}
    answer = await c.api.patch(f"{path}/status", {"status": status})
    assert answer.code == 200, answer.body
    await c.settle()
    return await c.read(path)


async def test_a_pod_gets_a_claim_from_its_template() -> None:
    async with cluster(devices=True) as c:
        await c.create(TEMPLATES, TEMPLATE)
        made = await c.create(PODS, claiming())
        (claim,) = await c.items(CLAIMS)
        metadata = claim["metadata"]
        assert metadata["generateName"] == "p-gpu-"
        assert metadata["labels"] == {"a": "b"}
        assert metadata["annotations"] == {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"}
        owner = {
            "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"],
            "controller": True,
        }  # fmt: skip
        assert metadata["ownerReferences"] == [owner]
        exactly = claim["spec"]["devices"]["requests"][0]["exactly"]
        assert exactly == {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
        status = (await c.read(f"{PODS}/p"))["status"]
        named = [{"name": "gpu", "resourceClaimName": metadata["name"]}]
        assert status["resourceClaimStatuses"] == named


async def test_a_pod_waits_for_its_template() -> None:
    async with cluster(devices=True) as c:
        await c.create(PODS, claiming())
        assert await c.items(CLAIMS) == []
        (event,) = await c.items(EVENTS)
        assert (event["reason"], event["message"]) == (
            "FailedResourceClaimCreation",
            'PodResourceClaim gpu: resource claim template "t": '
            'resourceclaimtemplate.resource.k8s.io "t" not found',
        )
        await c.create(TEMPLATES, TEMPLATE)
        assert len(await c.items(CLAIMS)) == 1


async def test_a_claim_that_was_deleted_is_created_again() -> None:
    async with cluster(devices=True) as c:
        await c.create(TEMPLATES, TEMPLATE)
        await c.create(PODS, claiming())
        (first,) = await c.items(CLAIMS)
        await c.api.delete(f"{CLAIMS}/{first['metadata']['name']}")
        await c.settle()
        (second,) = await c.items(CLAIMS)
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        status = (await c.read(f"{PODS}/p"))["status"]
        (named,) = status["resourceClaimStatuses"]
        assert named["resourceClaimName"] == second["metadata"]["name"]


async def test_long_names_of_pod_and_claim_are_cut() -> None:
    async with cluster(devices=True) as c:
        await c.create(TEMPLATES, TEMPLATE)
        await c.create(PODS, claiming("p" * 80))
        (claim,) = await c.items(CLAIMS)
        assert claim["metadata"]["generateName"] == "p" * (80 * 57 // 85) + "-gp"


async def test_the_claim_of_an_ended_pod_is_deallocated_and_deleted() -> None:
    async with cluster(devices=True) as c:
        await c.create(TEMPLATES, TEMPLATE)
        made = await c.create(PODS, claiming(node="n1"))
        (claim,) = await c.items(CLAIMS)
        claim = await allocate(c, claim["metadata"]["name"], made)
        assert len(claim["status"]["reservedFor"]) == 1
        await c.api.patch(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}})
        await c.settle()
        assert await c.items(CLAIMS) == []


async def test_a_shared_claim_is_kept_while_a_pod_uses_it() -> None:
    async with cluster(devices=True) as c:
        await c.create(CLAIMS, {"metadata": {"name": "s"}, "spec": {"devices": DEVICES}})
        users = [
            await c.create(PODS, claiming(name, node="n1", resourceClaimName="s"))
            for name in ("p", "q")
        ]
        await allocate(c, "s", *users)
        await c.api.delete(f"{PODS}/p", gracePeriodSeconds=0)
        await c.settle()
        claim = await c.read(f"{CLAIMS}/s")
        assert [user["name"] for user in claim["status"]["reservedFor"]] == ["q"]
        assert claim["status"]["allocation"]
        await c.api.delete(f"{PODS}/q", gracePeriodSeconds=0)
        await c.settle()
        claim = await c.read(f"{CLAIMS}/s")
        assert "allocation" not in claim["status"]
        assert "finalizers" not in claim["metadata"]


async def test_a_reservation_for_an_earlier_pod_of_the_name_is_removed() -> None:
    async with cluster(devices=True) as c:
        await c.create(CLAIMS, {"metadata": {"name": "s"}, "spec": {"devices": DEVICES}})
        await c.create(PODS, claiming(resourceClaimName="s"))
        claim = await allocate(c, "s", {"metadata": {"name": "p", "uid": "another"}})
        assert "allocation" not in claim["status"]


async def test_other_users_of_a_claim_are_kept() -> None:
    async with cluster(devices=True) as c:
        await c.create(CLAIMS, {"metadata": {"name": "s"}, "spec": {"devices": DEVICES}})
        await allocate(c, "s")
        user = {"apiGroup": "example.com", "resource": "things", "name": "x", "uid": "u"}
        await c.api.patch(f"{CLAIMS}/s/status", {"status": {"reservedFor": [user]}})
        await c.settle()
        assert (await c.read(f"{CLAIMS}/s"))["status"]["reservedFor"] == [user]


async def test_an_allocated_claim_is_reserved_for_a_pod_that_is_bound_already() -> None:
    async with cluster(devices=True) as c:
        await c.create(CLAIMS, {"metadata": {"name": "s"}, "spec": {"devices": DEVICES}})
        await allocate(c, "s")
        made = await c.create(PODS, claiming(node="n1", resourceClaimName="s"))
        (user,) = (await c.read(f"{CLAIMS}/s"))["status"]["reservedFor"]
        assert user == {"resource": "pods", "name": "p", "uid": made["metadata"]["uid"]}


async def test_a_deleted_claim_waits_until_it_is_not_reserved() -> None:
    async with cluster(devices=True) as c:
        await c.create(CLAIMS, {"metadata": {"name": "s"}, "spec": {"devices": DEVICES}})
        made = await c.create(PODS, claiming(node="n1", resourceClaimName="s"))
        await allocate(c, "s", made)
        await c.api.delete(f"{CLAIMS}/s")
        await c.settle()
        assert (await c.read(f"{CLAIMS}/s"))["status"]["allocation"]
        await c.api.delete(f"{PODS}/p", gracePeriodSeconds=0)
        await c.settle()
        assert await c.code(f"{CLAIMS}/s") == 404


async def test_the_claims_of_a_deleted_pod_go_with_it() -> None:
    async with cluster(devices=True, garbage_collector=True) as c:
        await c.create(TEMPLATES, TEMPLATE)
        made = await c.create(PODS, claiming(node="n1"))
        (claim,) = await c.items(CLAIMS)
        await allocate(c, claim["metadata"]["name"], made)
        await c.api.delete(f"{PODS}/p", gracePeriodSeconds=0)
        await c.settle()
        assert await c.items(CLAIMS) == []
