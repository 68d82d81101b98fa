"""ReplicaSets, ReplicationControllers and Deployments."""

from typing import Any

from fakeapi import KubeletOptions

from ..actor_cluster import PODS, Cluster, cluster, conditions, pod
from ..api_client import Json

APPS = "/apis/apps/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
QUICK = KubeletOptions(termination_seconds=0)


def owner(name: str, *, image: str = "x", spec: Json | None = None, **fields: Any) -> Json:
    labels = {"app": name}
    containers = [{"name": "c", "image": image}]
    template = {
        "metadata": {"labels": labels},
        "spec": {"nodeName": "n1", "containers": containers, **(spec or {})},
    }
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **fields},
    }


async def test_a_replica_set_keeps_its_number_of_pods() -> None:
    async with cluster(kubelet=QUICK, owners=True) as c:
        await c.create(f"{APPS}/replicasets", owner("rs", replicas=3))
        await c.advance(1)
        status = (await c.read(f"{APPS}/replicasets/rs"))["status"]
        names = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        assert [status[name] for name in names] == [3, 3, 3, 3]
        first = (await c.items(PODS))[0]["metadata"]["name"]
        await c.api.delete(f"{PODS}/{first}")
        await c.advance(1)
        pods = await c.items(PODS)
        assert len(pods) == 3
        assert first not in {one["metadata"]["name"] for one in pods}
        await c.api.patch(f"{APPS}/replicasets/rs", {"spec": {"replicas": 1}})
        await c.settle()
        assert len(await c.items(PODS)) == 1


async def test_a_replication_controller_keeps_its_number_of_pods() -> None:
    path = "/api/v1/namespaces/default/replicationcontrollers"
    async with cluster(kubelet=QUICK, owners=True) as c:
        body = owner("rc", replicas=2)
        body["spec"]["selector"] = {"app": "rc"}
        await c.create(path, body)
        await c.advance(1)
        found = await c.read(f"{path}/rc")
        assert found["status"] == {
            "replicas": 2,
            "fullyLabeledReplicas": 2,
            "readyReplicas": 2,
            "availableReplicas": 2,
            "observedGeneration": 1,
        }
        (reference,) = (await c.items(PODS))[0]["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["controller"]) == ("ReplicationController", True)
        await c.api.patch(f"{path}/rc", {"spec": {"replicas": 1}})
        await c.settle()
        assert len(await c.items(PODS)) == 1


async def test_a_replica_set_adopts_orphans_and_releases_pods() -> None:
    async with cluster(owners=True) as c:
        orphan = pod("orphan")
        orphan["metadata"]["labels"] = {"app": "rs"}
        await c.create(PODS, orphan)
        await c.create(f"{APPS}/replicasets", owner("rs", replicas=1))
        assert [one["metadata"]["name"] for one in await c.items(PODS)] == ["orphan"]
        await c.api.patch(f"{PODS}/orphan", {"metadata": {"labels": {"app": "other"}}})
        await c.settle()
        pods = {p["metadata"]["name"]: p["metadata"] for p in await c.items(PODS)}
        assert len(pods) == 2
        assert "ownerReferences" not in pods["orphan"]


async def test_a_replica_set_has_a_condition_if_its_pods_are_refused() -> None:
    async with cluster(owners=True) as c:
        hard = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
        await c.create("/api/v1/namespaces/default/resourcequotas", hard)
        quiet = owner("rs", replicas=1, spec={"priorityClassName": "system-node-critical"})
        quiet["spec"]["template"]["spec"]["priority"] = 7
        await c.create(f"{APPS}/replicasets", quiet)
        status = (await c.read(f"{APPS}/replicasets/rs"))["status"]
        assert status["conditions"][0]["reason"] == "FailedCreate"


async def finished(c: Cluster, name: str) -> bool:
    """True if `kubectl rollout status` would succeed."""
    found = await c.read(f"{APPS}/deployments/{name}")
    status, wanted = found["status"], found["spec"]["replicas"]
    return bool(
        status["observedGeneration"] == found["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == wanted
        and status.get("replicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
    )


async def test_a_deployment_rolls_over_within_its_bounds() -> None:
    async with cluster(kubelet=QUICK, owners=True) as c:
        rolling = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        await c.create(f"{APPS}/deployments", owner("d", replicas=4, strategy=rolling))
        await c.advance(1)
        assert await finished(c, "d")
        new = owner("d", replicas=4, image="y")["spec"]["template"]
        await c.api.patch(f"{APPS}/deployments/d", {"spec": {"template": new}})
        await c.settle()
        assert not await finished(c, "d")
        for _ in range(8):
            pods = await c.items(PODS)
            assert len(pods) <= 5
            assert sum(conditions(one).get("Ready") == "True" for one in pods) >= 3
            await c.advance(1)
        assert await finished(c, "d")
        images = {one["spec"]["containers"][0]["image"] for one in await c.items(PODS)}
        assert images == {"y"}
        sets = await c.items(f"{APPS}/replicasets")
        assert sorted(one["spec"]["replicas"] for one in sets) == [0, 4]
        found = await c.read(f"{APPS}/deployments/d")
        assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
        reasons = {one["type"]: one["reason"] for one in found["status"]["conditions"]}
        assert reasons == {
            "Available": "MinimumReplicasAvailable",
            "Progressing": "NewReplicaSetAvailable",
        }


async def test_a_deployment_rolls_back_to_an_earlier_replica_set() -> None:
    async with cluster(kubelet=QUICK, owners=True) as c:
        for image in ("x", "y", "x"):
            body = owner("d", replicas=1, image=image)
            reply = await c.api.get(f"{APPS}/deployments/d")
            if reply.code == 404:
                await c.create(f"{APPS}/deployments", body)
            else:
                patch = {"spec": {"template": body["spec"]["template"]}}
                await c.api.patch(f"{APPS}/deployments/d", patch)
            await c.advance(3, step_seconds=1)
        assert await finished(c, "d")
        assert len(await c.items(f"{APPS}/replicasets")) == 2


async def test_a_deployment_scales_and_recreates() -> None:
    async with cluster(kubelet=KubeletOptions(termination_seconds=5), owners=True) as c:
        strategy = {"type": "Recreate"}
        await c.create(f"{APPS}/deployments", owner("d", replicas=1, strategy=strategy))
        await c.advance(1)
        await c.api.patch(f"{APPS}/deployments/d", {"spec": {"replicas": 3}})
        await c.advance(1)
        assert await finished(c, "d")
        new = owner("d", image="y")["spec"]["template"]
        await c.api.patch(f"{APPS}/deployments/d", {"spec": {"template": new}})
        await c.advance(4)
        assert {p["spec"]["containers"][0]["image"] for p in await c.items(PODS)} == {"x"}
        await c.advance(2, step_seconds=1)
        assert {p["spec"]["containers"][0]["image"] for p in await c.items(PODS)} == {"y"}
        await c.advance(1)
        assert await finished(c, "d")


async def test_a_deployment_without_progress_exceeds_its_deadline() -> None:
    async with cluster(owners=True) as c:
        await c.create(f"{APPS}/deployments", owner("d", replicas=1, progressDeadlineSeconds=60))
        await c.advance(60)
        found = (await c.read(f"{APPS}/deployments/d"))["status"]["conditions"]
        reasons = {one["type"]: one["reason"] for one in found}
        assert reasons["Progressing"] == "ProgressDeadlineExceeded"
