"""Jobs whose pods the test ends: counting, retries, indexes, suspension."""

from typing import Any

from fakeapi import KubeletOptions

from ..actor_cluster import PODS, Cluster, cluster, conditions
from ..api_client import Json

JOBS = "/apis/batch/v1/namespaces/default/jobs"
INDEX = "batch.kubernetes.io/job-completion-index"


def job(**fields: Any) -> Json:
    """Return a Job whose pods are ended by the test, as no kubelet runs."""
    containers = [{"name": "main", "image": "x"}, {"name": "side", "image": "y"}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    return {"metadata": {"name": "j"}, "spec": {"template": template, **fields}}


def indexed(**fields: Any) -> Json:
    return job(completionMode="Indexed", **{"completions": 3, "parallelism": 3, **fields})


async def end(c: Cluster, pod: Json, *, code: int = 0, **status: Any) -> None:
    """Let the pod's main container end so, now; `conditions=["DisruptionTarget"]` are true."""
    now = "2027-01-15T08:00:00Z"
    state = {"terminated": {"exitCode": code, "finishedAt": now, "startedAt": now}}
    told = [{"type": kind, "status": "True"} for kind in status.get("conditions", ())]
    body = {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": "main", "state": state, "image": "x", "imageID": "",
                               "ready": False, "restartCount": 0}],
        "conditions": told,
    }  # fmt: skip
    reply = await c.api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": body})
    assert reply.code == 200, reply.body
    await c.settle()


async def live(c: Cluster) -> dict[str, Json]:
    """The pods that have not ended, by index or else by name."""
    return {
        one["metadata"]["annotations"].get(INDEX, one["metadata"]["name"])
        if "annotations" in one["metadata"]
        else one["metadata"]["name"]: one
        for one in await c.items(PODS)
        if one["status"]["phase"] not in ("Failed", "Succeeded")
        and "deletionTimestamp" not in one["metadata"]
    }


async def status(c: Cluster) -> Json:
    found: Json = (await c.read(f"{JOBS}/j"))["status"]
    return found


def reasons(found: Json) -> dict[str, str]:
    return {one["type"]: one["reason"] for one in found.get("conditions", [])}


async def test_an_ended_pod_is_uncounted_then_released_then_counted() -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, job(completions=2))
        (first,) = (await live(c)).values()
        assert first["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
        seen: list[Json] = []
        async with c.api.watch(JOBS, resourceVersion="0") as watch:
            await end(c, first)
            await watch.next()
            seen = [await watch.next() for _ in range(2)]
        uid = first["metadata"]["uid"]
        told, counted = (one["object"]["status"] for one in seen if one)
        assert told["uncountedTerminatedPods"] == {"succeeded": [uid]}
        assert "succeeded" not in told
        assert (counted["uncountedTerminatedPods"], counted["succeeded"]) == ({}, 1)
        released = await c.read(f"{PODS}/{first['metadata']['name']}")
        assert "finalizers" not in released["metadata"]


async def test_a_pod_that_is_deleted_counts_as_failed_and_is_replaced_at_once() -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, job())
        (first,) = (await live(c)).values()
        first_path = f"{PODS}/{first['metadata']['name']}"
        held = {"finalizers": [*first["metadata"]["finalizers"], "a/b"]}
        await c.api.patch(first_path, {"metadata": held})
        await c.api.delete(first_path)
        await c.advance(10)
        assert (await status(c))["failed"] == 1
        assert len(await live(c)) == 1


async def test_a_suspended_job_has_no_pods_and_no_deadline() -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, job(activeDeadlineSeconds=60))
        await c.advance(50)
        await c.api.patch(f"{JOBS}/j", {"spec": {"suspend": True}})
        await c.settle()
        found = await status(c)
        assert await c.items(PODS) == []
        assert conditions({"status": found}) == {"Suspended": "True"}
        assert "startTime" not in found
        assert "failed" not in found
        await c.advance(100)
        await c.api.patch(f"{JOBS}/j", {"spec": {"suspend": False}})
        await c.advance(50)
        assert conditions(await c.read(f"{JOBS}/j")) == {"Suspended": "False"}
        assert len(await live(c)) == 1
        await c.advance(10)
        assert reasons(await status(c))["Failed"] == "DeadlineExceeded"


async def test_failures_delay_new_pods_with_backoff() -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, job(backoffLimit=10))
        for pause in (10, 20, 40):
            (pod,) = (await live(c)).values()
            now = c.server_time()
            state = {"terminated": {"exitCode": 1, "finishedAt": now, "startedAt": now}}
            container = {"name": "main", "state": state, "image": "x", "imageID": "",
                         "ready": False, "restartCount": 0}  # fmt: skip
            told = {"phase": "Failed", "containerStatuses": [container]}
            await c.api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": told})
            await c.advance(pause - 1)
            assert await live(c) == {}
            await c.advance(1)
            assert len(await live(c)) == 1


async def test_pods_of_a_deleted_job_are_released() -> None:
    async with cluster(owners=True, garbage_collector=True) as c:
        await c.create(JOBS, job())
        await c.api.delete(f"{JOBS}/j", {"propagationPolicy": "Background"})
        await c.advance(1)
        assert await c.items(PODS) == []


async def test_a_job_with_another_manager_is_ignored() -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, job(managedBy="example.com/other"))
        assert await c.items(PODS) == []
        assert await status(c) == {}


async def test_an_indexed_pod_has_its_index() -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, indexed())
        pod = (await live(c))["1"]
        assert pod["metadata"]["labels"][INDEX] == "1"
        assert pod["metadata"]["name"].startswith("j-1-")
        assert pod["spec"]["hostname"] == "j-1"
        field = {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}
        for container in pod["spec"]["containers"]:
            assert container["env"] == [
                {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": field}}
            ]


async def test_a_job_without_completions_starts_no_pod_after_a_success() -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, job(parallelism=2))
        first, second = (await live(c)).values()
        await end(c, first)
        assert set(await live(c)) == {second["metadata"]["name"]}
        assert reasons(await status(c)) == {}
        await end(c, second)
        found = await status(c)
        assert found["succeeded"] == 2
        assert [(one["type"], one["message"]) for one in found["conditions"]] == [
            ("SuccessCriteriaMet", "Reached expected number of succeeded pods"),
            ("Complete", "Reached expected number of succeeded pods"),
        ]


async def test_restarts_of_containers_count_for_the_backoff_limit() -> None:
    async with cluster(kubelet=True, owners=True) as c:
        body = job(backoffLimit=1)
        body["spec"]["template"]["spec"] |= {"nodeName": "n1", "restartPolicy": "OnFailure"}
        annotations = {"run-seconds": "5", "exit-codes": "1", "termination-seconds": "0"}
        body["spec"]["template"]["metadata"] = {
            "annotations": {f"fakeapi.kubesched.io/{key}": v for key, v in annotations.items()}
        }
        await c.create(JOBS, body)
        await c.advance(5)
        assert reasons(await status(c)) == {}
        await c.advance(5, step_seconds=1)
        found = await status(c)
        assert found["failed"] == 1
        assert [(one["type"], one["message"]) for one in found["conditions"]] == [
            ("FailureTarget", "Job has reached the specified backoff limit"),
            ("Failed", "Job has reached the specified backoff limit"),
        ]


async def test_parallelism_can_be_changed() -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, job(parallelism=3, completions=5))
        await c.api.patch(f"{JOBS}/j", {"spec": {"parallelism": 1}})
        await c.settle()
        assert len(await live(c)) == 1
        assert "failed" not in await status(c)
        await c.api.patch(f"{JOBS}/j", {"spec": {"parallelism": 4}})
        await c.settle()
        assert len(await live(c)) == 4


async def test_a_job_without_annotations_completes_if_all_pods_do() -> None:
    async with cluster(kubelet=KubeletOptions(pods_complete_after_seconds=5), owners=True) as c:
        body = job(completions=2)
        body["spec"]["template"]["spec"]["nodeName"] = "n1"
        await c.create(JOBS, body)
        await c.advance(12, step_seconds=1)
        assert reasons(await status(c))["Complete"] == "CompletionsReached"


async def test_fewer_completions_delete_the_highest_indexes() -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, indexed())
        await c.api.patch(f"{JOBS}/j", {"spec": {"completions": 2, "parallelism": 2}})
        await c.advance(1)
        assert sorted(await live(c)) == ["0", "1"]
