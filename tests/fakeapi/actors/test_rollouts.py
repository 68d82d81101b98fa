"""Rollouts and scaling of owners, and the claims of StatefulSets."""

import pytest

from ..actor_cluster import PODS, Cluster, cluster, conditions, node
from ..api_client import Json
from .test_owners import APPS, QUICK, owner
from .test_sets import bind_all, images, names

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
SETS = f"{APPS}/statefulsets"
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def sizes(sets: list[Json]) -> list[int]:
    return sorted(one["spec"]["replicas"] for one in sets)


async def resize(c: Cluster, path: str, replicas: int) -> None:
    await c.api.patch(path, {"spec": {"replicas": replicas}})
    await c.settle()


@pytest.mark.parametrize(
    ("deleted", "scaled", "after_scaling", "after_deletion"),
    [
        ("Retain", "Retain", 2, 2),
        ("Retain", "Delete", 1, 1),
        ("Delete", "Retain", 2, 0),
        ("Delete", "Delete", 1, 0),
    ],
)
async def test_claims_are_deleted_as_the_retention_policy_demands(
    deleted: str, scaled: str, after_scaling: int, after_deletion: int
) -> None:
    async with cluster(kubelet=QUICK, owners=True, garbage_collector=True) as c:
        policy = {"whenDeleted": deleted, "whenScaled": scaled}
        body = owner(
            "s",
            replicas=2,
            volumeClaimTemplates=[CLAIM],
            persistentVolumeClaimRetentionPolicy=policy,
        )
        await c.create(SETS, body)
        await c.advance(3, step_seconds=1)
        assert len(await c.items(CLAIMS)) == 2
        await resize(c, f"{SETS}/s", 1)
        await c.advance(3, step_seconds=1)
        assert len(await c.items(CLAIMS)) == after_scaling
        await c.api.delete(f"{SETS}/s")
        await c.advance(3, step_seconds=1)
        assert len(await c.items(CLAIMS)) == after_deletion


async def test_a_claim_stays_if_the_set_is_scaled_up_in_time() -> None:
    async with cluster(kubelet=QUICK, owners=True, garbage_collector=True) as c:
        policy = {"whenScaled": "Delete"}
        body = owner("s", replicas=2, volumeClaimTemplates=[CLAIM],
                     podManagementPolicy="Parallel",
                     persistentVolumeClaimRetentionPolicy=policy)  # fmt: skip
        await c.create(SETS, body)
        await c.advance(2, step_seconds=1)
        held = {"metadata": {"finalizers": ["a/b"]}}
        await c.api.patch(f"{PODS}/s-1", held)
        await resize(c, f"{SETS}/s", 1)
        (reference,) = (await c.read(f"{CLAIMS}/data-s-1"))["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["name"]) == ("Pod", "s-1")
        await resize(c, f"{SETS}/s", 2)
        await c.api.patch(f"{PODS}/s-1", {"metadata": {"finalizers": None}})
        await c.advance(5, step_seconds=1)
        claim = await c.read(f"{CLAIMS}/data-s-1")
        assert "ownerReferences" not in claim["metadata"]
        assert conditions(await c.read(f"{PODS}/s-1"))["Ready"] == "True"


async def test_ordinals_may_start_anywhere() -> None:
    async with cluster(kubelet=QUICK, owners=True) as c:
        body = owner("s", replicas=2, ordinals={"start": 5}, podManagementPolicy="Parallel")
        await c.create(SETS, body)
        assert await names(c) == ["s-5", "s-6"]
        await c.advance(1)
        await c.api.patch(f"{SETS}/s", {"spec": {"ordinals": {"start": 6}}})
        await c.advance(3, step_seconds=1)
        assert await names(c) == ["s-6", "s-7"]


async def test_a_parallel_set_scales_down_at_once_an_ordered_one_waits() -> None:
    async with cluster(owners=True) as c:  # without kubelet no pod is ready
        await c.create(SETS, owner("s", replicas=3, podManagementPolicy="Parallel"))
        await c.create(SETS, owner("o", replicas=2))
        assert await names(c) == ["o-0", "s-0", "s-1", "s-2"]
        await resize(c, f"{SETS}/s", 0)
        leaving = [p for p in await c.items(PODS) if "deletionTimestamp" in p["metadata"]]
        assert [one["metadata"]["name"] for one in leaving] == ["s-0", "s-1", "s-2"]


async def test_a_stateful_set_rolls_within_max_unavailable() -> None:
    async with cluster(kubelet=QUICK, owners=True) as c:
        await c.create(SETS, owner("s", replicas=4, podManagementPolicy="Parallel"))
        await c.advance(1)
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
        new = {"template": owner("s", image="y")["spec"]["template"], "updateStrategy": rolling}
        await c.api.patch(f"{SETS}/s", {"spec": new})
        await c.settle()
        kept = (await c.read(f"{SETS}/s"))["spec"]["updateStrategy"]["rollingUpdate"]
        at_once = 2 if "maxUnavailable" in kept else 1
        assert (await images(c)).count("y") == at_once
        await c.advance(5, step_seconds=1)
        assert await images(c) == ["y"] * 4


async def test_a_daemon_set_surges() -> None:
    nodes = [node(name) for name in ("n1", "n2", "n3")]
    async with cluster(load=nodes, kubelet=QUICK, owners=True) as c:
        surge = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        body = owner("ds", updateStrategy=surge)
        body["spec"]["template"]["spec"].pop("nodeName")
        await c.create(f"{APPS}/daemonsets", body)
        await bind_all(c)
        await c.advance(1)
        spec = {"containers": [{"name": "c", "image": "y"}]}
        await c.api.patch(f"{APPS}/daemonsets/ds", {"spec": {"template": {"spec": spec}}})
        await c.settle()
        assert sorted(await images(c)) == ["x", "x", "x", "y"]
        for _ in range(3):
            ready = [conditions(one).get("Ready") for one in await c.items(PODS)]
            assert ready.count("True") >= 3
            assert len(ready) == 4
            await bind_all(c)
            await c.advance(1)
        assert sorted(await images(c)) == ["y", "y", "y"]


async def test_a_deployment_is_scaled_in_proportion_during_a_rollout() -> None:
    async with cluster(kubelet=QUICK, owners=True) as c:
        rolling = {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
        await c.create(f"{APPS}/deployments", owner("d", replicas=10, strategy=rolling))
        await c.advance(1)
        broken = owner("d", image="y")["spec"]["template"]
        broken["spec"]["nodeName"] = "nowhere"  # its pods never begin
        await c.api.patch(f"{APPS}/deployments/d", {"spec": {"template": broken}})
        await c.advance(3, step_seconds=1)
        assert sizes(await c.items(f"{APPS}/replicasets")) == [5, 8]
        await resize(c, f"{APPS}/deployments/d", 15)
        assert sizes(await c.items(f"{APPS}/replicasets")) == [7, 11]


async def test_a_deployment_keeps_its_revision_history_limit() -> None:
    async with cluster(kubelet=QUICK, owners=True) as c:
        await c.create(f"{APPS}/deployments", owner("d", replicas=1, revisionHistoryLimit=1))
        await c.advance(2, step_seconds=1)
        for image in ("y", "z"):
            new = owner("d", image=image)["spec"]["template"]
            await c.api.patch(f"{APPS}/deployments/d", {"spec": {"template": new}})
            await c.advance(4, step_seconds=1)
        left = {one["spec"]["template"]["spec"]["containers"][0]["image"]: one
                for one in await c.items(f"{APPS}/replicasets")}  # fmt: skip
        assert {image: one["spec"]["replicas"] for image, one in left.items()} == {"y": 0, "z": 1}
