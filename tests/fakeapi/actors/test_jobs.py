"""The policies of Jobs: which failures count, when an index or Job is over, what is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ..actor_cluster import PODS, Cluster, cluster, conditions

if TYPE_CHECKING:
    from ..api_client import Json

JOBS = "/apis/batch/v1/namespaces/default/jobs"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def job(**fields: Any) -> Json:
    """A Job whose pods nobody runs: tests say how they end."""
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


async def test_a_pod_that_has_ended_is_named_then_counted_and_released() -> None:
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


async def test_only_failed_pods_are_replaced_if_the_job_wants_it_so() -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, job(podReplacementPolicy="Failed"))
        (first,) = (await live(c)).values()
        path = f"{PODS}/{first['metadata']['name']}"
        held = {"finalizers": [*first["metadata"]["finalizers"], "a/b"]}
        await c.api.patch(path, {"metadata": held})
        await c.api.delete(path)
        await c.advance(60)
        found = await status(c)
        assert (found.get("failed", 0), found["terminating"], len(await live(c))) == (0, 1, 0)
        await end(c, first, code=1)
        await c.advance(60)
        assert len(await live(c)) == 1
        assert (await status(c))["failed"] == 1


FAIL_JOB = {
    "action": "FailJob",
    "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]},
}
IGNORE = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}


async def test_an_exit_code_ends_the_job() -> None:
    async with cluster(owners=True) as c:
        policy = {"rules": [IGNORE, FAIL_JOB]}
        await c.create(JOBS, job(parallelism=2, completions=2, podFailurePolicy=policy))
        first, second = (await live(c)).values()
        await end(c, first, code=42)
        found = await status(c)
        assert reasons(found) == {"FailureTarget": "PodFailurePolicy", "Failed": "PodFailurePolicy"}
        name = first["metadata"]["name"]
        assert found["conditions"][0]["message"] == (
            f"Container main for pod default/{name} failed with exit code 42 "
            "matching FailJob rule at index 1"
        )
        assert await c.code(f"{PODS}/{second['metadata']['name']}") == 404
        assert found["failed"] == 2


async def test_failures_that_are_ignored_do_not_count() -> None:
    async with cluster(owners=True) as c:
        policy = {"rules": [IGNORE, FAIL_JOB]}
        await c.create(JOBS, job(podFailurePolicy=policy, backoffLimit=0))
        for _ in range(3):
            (pod,) = (await live(c)).values()
            await end(c, pod, code=1, conditions=["DisruptionTarget"])
            await c.advance(600)
        found = await status(c)
        assert found.get("failed", 0) == 0
        assert reasons(found) == {}
        (pod,) = (await live(c)).values()
        await end(c, pod, code=1)
        assert reasons(await status(c))["Failed"] == "BackoffLimitExceeded"


@pytest.mark.parametrize(
    ("operator", "values", "name", "fails"),
    [
        ("NotIn", [1, 2], "main", False),
        ("NotIn", [2, 3], "main", True),
        ("In", [1], "side", False),
        ("In", [1], None, True),
    ],
)
async def test_exit_codes_match_as_they_are_wanted(
    operator: str, values: list[int], name: str | None, fails: bool
) -> None:
    async with cluster(owners=True) as c:
        codes = {
            "operator": operator,
            "values": values,
            **({"containerName": name} if name else {}),
        }
        rules = [{"action": "FailJob", "onExitCodes": codes}]
        await c.create(JOBS, job(podFailurePolicy={"rules": rules}))
        (pod,) = (await live(c)).values()
        await end(c, pod, code=1)
        assert ("Failed" in reasons(await status(c))) == fails


async def test_each_index_has_a_limit_of_its_own() -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, indexed(backoffLimitPerIndex=1))
        pods = await live(c)
        assert pods["0"]["metadata"]["annotations"][FAILURES] == "0"
        await end(c, pods["0"])
        await end(c, pods["1"], code=1)
        held = await c.read(f"{PODS}/{pods['1']['metadata']['name']}")
        assert held["metadata"]["finalizers"]  # until its successor knows of the failure
        assert "1" not in await live(c)
        await c.advance(10)
        again = (await live(c))["1"]
        assert again["metadata"]["annotations"][FAILURES] == "1"
        gone = await c.read(f"{PODS}/{pods['1']['metadata']['name']}")
        assert "finalizers" not in gone["metadata"]
        await end(c, again, code=1)
        found = await status(c)
        assert (found["failedIndexes"], found["completedIndexes"], found["failed"]) == ("1", "0", 2)
        await c.advance(1200)
        assert set(await live(c)) == {"2"}
        await end(c, pods["2"])
        found = await status(c)
        assert (found["failedIndexes"], found["completedIndexes"]) == ("1", "0,2")
        assert reasons(found)["Failed"] == "FailedIndexes"


async def test_too_many_failed_indexes_end_the_job() -> None:
    async with cluster(owners=True) as c:
        await c.create(
            JOBS, indexed(completions=5, parallelism=5, backoffLimitPerIndex=0, maxFailedIndexes=1)
        )
        pods = await live(c)
        await end(c, pods["4"], code=1)
        assert reasons(await status(c)) == {}
        await end(c, pods["2"], code=1)
        found = await status(c)
        assert reasons(found)["Failed"] == "MaxFailedIndexesExceeded"
        assert found["failedIndexes"] == "2,4"
        assert await live(c) == {}


async def test_a_rule_fails_an_index_and_ignored_failures_are_counted_apart() -> None:
    rules = [
        IGNORE,
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    async with cluster(owners=True) as c:
        policy = {"rules": rules}
        await c.create(JOBS, indexed(backoffLimitPerIndex=3, podFailurePolicy=policy))
        pods = await live(c)
        await end(c, pods["0"], code=42)
        assert (await status(c))["failedIndexes"] == "0"
        await end(c, pods["1"], code=1, conditions=["DisruptionTarget"])
        await c.advance(10)
        notes = (await live(c))["1"]["metadata"]["annotations"]
        assert (notes[FAILURES], notes[IGNORED]) == ("0", "1")
        assert "0" not in await live(c)


@pytest.mark.parametrize(
    ("rule", "ends", "is_met"),
    [
        ({"succeededIndexes": "0,2"}, ("0", "2"), True),
        ({"succeededIndexes": "0-1"}, ("0", "2"), False),
        ({"succeededCount": 2}, ("1", "2"), True),
        ({"succeededIndexes": "1-2", "succeededCount": 1}, ("2",), True),
        ({"succeededIndexes": "0-1", "succeededCount": 1}, ("2",), False),
    ],
)
async def test_a_success_policy_ends_a_job_early(
    rule: Json, ends: tuple[str, ...], is_met: bool
) -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, indexed(successPolicy={"rules": [rule]}))
        pods = await live(c)
        for index in ends:
            await end(c, pods[index])
        found = await status(c)
        if is_met:
            assert reasons(found) == {"SuccessCriteriaMet": "SuccessPolicy",
                                      "Complete": "SuccessPolicy"}  # fmt: skip
            assert found["conditions"][0]["message"] == "Matched rules at index 0"
            assert await live(c) == {}
            assert "failed" not in found
        else:
            assert reasons(found) == {}


async def test_a_suspended_job_has_no_pods_and_its_clock_stands_still() -> None:
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


async def test_a_finished_job_goes_after_its_time() -> None:
    async with cluster(owners=True, garbage_collector=True) as c:
        await c.create(JOBS, job(ttlSecondsAfterFinished=100))
        (pod,) = (await live(c)).values()
        await c.advance(1000)
        await end(c, pod)
        await c.advance(99)
        assert await c.code(f"{JOBS}/j") == 200
        await c.advance(2, step_seconds=1)
        assert await c.code(f"{JOBS}/j") == 404
        assert await c.items(PODS) == []


async def test_failures_are_followed_by_longer_and_longer_pauses() -> None:
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


async def test_pods_of_a_job_that_is_gone_are_not_held() -> None:
    async with cluster(owners=True, garbage_collector=True) as c:
        await c.create(JOBS, job())
        await c.api.delete(f"{JOBS}/j", {"propagationPolicy": "Background"})
        await c.advance(1)
        assert await c.items(PODS) == []


async def test_a_job_that_somebody_else_manages_is_left_alone() -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, job(managedBy="example.com/other"))
        assert await c.items(PODS) == []
        assert await status(c) == {}


async def test_an_indexed_pod_knows_its_index() -> None:
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


async def test_fewer_completions_take_the_highest_indexes_away() -> None:
    async with cluster(owners=True) as c:
        await c.create(JOBS, indexed())
        await c.api.patch(f"{JOBS}/j", {"spec": {"completions": 2, "parallelism": 2}})
        await c.advance(1)
        assert sorted(await live(c)) == ["0", "1"]
