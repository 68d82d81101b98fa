"""StatefulSets, Jobs and DaemonSets."""

import json
from typing import Any

import pytest

from fakeapi import KubeletOptions

from ..actor_cluster import NODES, PODS, Cluster, cluster, node
from ..api_client import Json
from .test_owners import APPS, JOBS, QUICK, owner


async def names(c: Cluster) -> list[str]:
    return [one["metadata"]["name"] for one in await c.items(PODS)]


async def images(c: Cluster) -> list[str]:
    return [one["spec"]["containers"][0]["image"] for one in await c.items(PODS)]


async def test_a_stateful_set_creates_pods_in_order_and_scales_down_from_the_top() -> None:
    async with cluster(kubelet=QUICK, owners=True) as c:
        await c.create(f"{APPS}/statefulsets", owner("s", replicas=3, serviceName="svc"))
        assert await names(c) == ["s-0"]
        await c.advance(1)
        assert await names(c) == ["s-0", "s-1"]
        await c.advance(2, step_seconds=1)
        assert await names(c) == ["s-0", "s-1", "s-2"]
        status = (await c.read(f"{APPS}/statefulsets/s"))["status"]
        counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
        assert [status[name] for name in counts] == [3, 3, 3, 3]
        assert status["currentRevision"] == status["updateRevision"]
        await c.api.delete(f"{PODS}/s-1")
        await c.advance(1)
        assert await names(c) == ["s-0", "s-1", "s-2"]
        await c.api.patch(f"{APPS}/statefulsets/s", {"spec": {"replicas": 1}})
        await c.settle()
        assert await names(c) == ["s-0"]


async def test_a_stateful_set_rolls_from_the_top_and_stops_at_its_partition() -> None:
    async with cluster(kubelet=QUICK, owners=True) as c:
        await c.create(
            f"{APPS}/statefulsets", owner("s", replicas=3, podManagementPolicy="Parallel")
        )
        await c.advance(1)
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        spec = {"template": owner("s", image="y")["spec"]["template"], "updateStrategy": strategy}
        await c.api.patch(f"{APPS}/statefulsets/s", {"spec": spec})
        await c.settle()
        assert await images(c) == ["x", "x", "y"]
        await c.advance(3, step_seconds=1)
        assert await images(c) == ["x", "y", "y"]
        await c.api.delete(f"{PODS}/s-0")
        await c.advance(1)
        assert await images(c) == ["x", "y", "y"]
        strategy["rollingUpdate"] = {"partition": 0}
        await c.api.patch(f"{APPS}/statefulsets/s", {"spec": {"updateStrategy": strategy}})
        await c.advance(2, step_seconds=1)
        assert await images(c) == ["y", "y", "y"]
        status = (await c.read(f"{APPS}/statefulsets/s"))["status"]
        assert status["currentRevision"] == status["updateRevision"]


async def test_the_data_of_a_revision_has_its_keys_in_order() -> None:
    async with cluster(owners=True) as c:
        await c.create(f"{APPS}/statefulsets", owner("s", replicas=1))
        (revision,) = await c.items(f"{APPS}/controllerrevisions")
    shown = json.dumps(revision["data"])
    assert shown == json.dumps(revision["data"], sort_keys=True)
    assert '"$patch": "replace"' in shown


async def test_each_pod_of_a_stateful_set_has_its_claim() -> None:
    async with cluster(owners=True) as c:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claims = [{"metadata": {"name": "data"}, "spec": spec}]
        await c.create(f"{APPS}/statefulsets", owner("s", replicas=1, volumeClaimTemplates=claims))
        (found,) = await c.items("/api/v1/namespaces/default/persistentvolumeclaims")
        assert found["metadata"]["name"] == "data-s-0"
        volumes = (await c.read(f"{PODS}/s-0"))["spec"]["volumes"]
        assert volumes[0]["persistentVolumeClaim"] == {"claimName": "data-s-0"}


def job(*, policy: str = "Never", codes: str = "0", **fields: Any) -> Json:
    says = {
        "fakeapi.kubesched.io/run-seconds": "1",
        "fakeapi.kubesched.io/startup-seconds": "0",
        "fakeapi.kubesched.io/exit-codes": codes,
    }
    spec = {
        "nodeName": "n1",
        "restartPolicy": policy,
        "containers": [{"name": "c", "image": "x"}],
    }
    template = {"metadata": {"annotations": says}, "spec": spec}
    return {"metadata": {"name": "j"}, "spec": {"template": template, **fields}}


def ends(found: Json) -> dict[str, str]:
    return {one["type"]: one["reason"] for one in found["status"].get("conditions", [])}


async def test_a_job_runs_its_completions_in_parallel() -> None:
    async with cluster(kubelet=QUICK, owners=True) as c:
        await c.create(JOBS, job(completions=5, parallelism=2))
        most = 0
        for _ in range(4):
            found = await c.read(f"{JOBS}/j")
            most = max(most, found["status"].get("active", 0))
            await c.advance(1)
        found = await c.read(f"{JOBS}/j")
        assert (most, found["status"]["succeeded"]) == (2, 5)
        assert "active" not in found["status"]
        assert ends(found) == {
            "SuccessCriteriaMet": "CompletionsReached",
            "Complete": "CompletionsReached",
        }
        assert found["status"]["completionTime"]
        assert all("finalizers" not in one["metadata"] for one in await c.items(PODS))


async def test_a_job_fails_at_its_backoff_limit() -> None:
    async with cluster(kubelet=QUICK, owners=True) as c:
        await c.create(JOBS, job(codes="1", backoffLimit=2))
        await c.advance(60, step_seconds=5)
        found = await c.read(f"{JOBS}/j")
        assert found["status"]["failed"] == 3
        assert ends(found)["Failed"] == "BackoffLimitExceeded"


async def test_a_job_counts_a_pod_that_was_deleted_once_it_has_ended() -> None:
    async with cluster(kubelet=QUICK, owners=True) as c:
        await c.create(JOBS, job(completions=2))
        (first,) = await names(c)
        await c.advance(1)
        await c.api.delete(f"{PODS}/{first}")
        await c.advance(2, step_seconds=1)
        found = await c.read(f"{JOBS}/j")
        assert found["status"]["succeeded"] == 2
        assert first not in await names(c)


async def test_an_indexed_job_and_its_deadline() -> None:
    async with cluster(kubelet=QUICK, owners=True) as c:
        body = job(completions=3, parallelism=3, completionMode="Indexed")
        await c.create(JOBS, body)
        hosts = sorted(one["spec"]["hostname"] for one in await c.items(PODS))
        assert hosts == ["j-0", "j-1", "j-2"]
        await c.advance(1)
        assert (await c.read(f"{JOBS}/j"))["status"]["completedIndexes"] == "0-2"
        slow = job(activeDeadlineSeconds=5)
        slow["metadata"]["name"] = "slow"
        slow["spec"]["template"]["spec"]["nodeName"] = "nowhere"
        await c.create(JOBS, slow)
        await c.advance(5)
        assert ends(await c.read(f"{JOBS}/slow"))["FailureTarget"] == "DeadlineExceeded"


@pytest.mark.parametrize("cordoned", [True, False])
async def test_a_daemon_set_has_a_pod_for_every_fit_node(cordoned: bool) -> None:
    nodes = [node("a"), node("b"), node("c", labels={"kind": "other"})]
    nodes[0]["spec"] = {"unschedulable": cordoned}
    nodes.append(node("d") | {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
    async with cluster(load=nodes, owners=True) as c:
        body = owner("ds")
        body["spec"]["template"]["spec"].pop("nodeName")
        expression = {"key": "kind", "operator": "DoesNotExist"}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        body["spec"]["template"]["spec"]["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        }
        await c.create(f"{APPS}/daemonsets", body)
        terms = [
            one["spec"]["affinity"]["nodeAffinity"][
                "requiredDuringSchedulingIgnoredDuringExecution"
            ]["nodeSelectorTerms"][0]
            for one in await c.items(PODS)
        ]
        assert sorted(term["matchFields"][0]["values"][0] for term in terms) == ["a", "b"]
        assert terms[0]["matchExpressions"] == [expression]
        await c.create(NODES, node("e"))
        assert len(await names(c)) == 3
        status = (await c.read(f"{APPS}/daemonsets/ds"))["status"]
        assert status["desiredNumberScheduled"] == status["currentNumberScheduled"] == 3


async def test_a_daemon_set_rolls_node_by_node() -> None:
    options = KubeletOptions(termination_seconds=0)
    async with cluster(load=[node("n1"), node("n2")], kubelet=options, owners=True) as c:
        body = owner("ds")
        body["spec"]["template"]["spec"].pop("nodeName")
        await c.create(f"{APPS}/daemonsets", body)
        await bind_all(c)
        await c.advance(1)
        template = {**body["spec"]["template"]}
        template["spec"] = {"containers": [{"name": "c", "image": "y"}]}
        await c.api.patch(f"{APPS}/daemonsets/ds", {"spec": {"template": template}})
        await c.settle()
        assert sorted(await images(c)) == ["x", "y"]
        for _ in range(2):
            await bind_all(c)
            await c.advance(1)
        status = (await c.read(f"{APPS}/daemonsets/ds"))["status"]
        assert status["updatedNumberScheduled"] == status["numberAvailable"] == 2
        assert sorted(await images(c)) == ["y", "y"]


async def bind_all(c: Cluster) -> None:
    """Bind all pods of DaemonSets to their nodes, as a scheduler does."""
    for one in await c.items(PODS):
        if one["spec"].get("nodeName"):
            continue
        affinity = one["spec"]["affinity"]["nodeAffinity"]
        term = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
        target = {"kind": "Node", "name": term["matchFields"][0]["values"][0]}
        name = one["metadata"]["name"]
        await c.api.create(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
    await c.settle()
