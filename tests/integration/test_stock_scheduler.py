"""The stock kube-scheduler v1.36.3 against the fake API server, as it comes: its own defaults.

It needs the binary, in $KUBE_SCHEDULER or in PATH.
By default it writes protobuf, watches with initial events and elects a leader.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakeapi import Actors, FakeApiServer, ServerOptions
from tests.fakeapi.api_client import ApiClient, Stream
from tests.fakeapi.objects import EVENTS, NODES, PODS, PRIORITY_CLASSES, pod, with_resources

Json = dict[str, Any]

DEVICES = "/apis/resource.k8s.io/v1"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
FOUND = os.environ.get("KUBE_SCHEDULER") or shutil.which("kube-scheduler")
BINARY = FOUND or ""
PATIENCE_SECONDS = 60.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BINARY, reason="no kube-scheduler: set KUBE_SCHEDULER"),
]


def node(name: str, cpu: str = "1") -> Json:
    resources = {"cpu": cpu, "memory": "4Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": resources, "allocatable": resources},
    }


def asking(name: str, cpu: str, **spec: Any) -> Json:
    return pod(name, spec={**with_resources(requests={"cpu": cpu}), **spec})


def condition(obj: Json) -> Json:
    found = obj.get("status", {}).get("conditions", [])
    return next((item for item in found if item["type"] == "PodScheduled"), {})


async def until(stream: Stream, wanted: Callable[[Json], bool]) -> Json:
    """Return the first object of the watch that meets the condition."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            event = await stream.next(patience_seconds=PATIENCE_SECONDS)
            assert event is not None, "the watch has ended"
            if wanted(event["object"]):
                obj: Json = event["object"]
                return obj


@contextlib.asynccontextmanager
async def scheduler(server: FakeApiServer, directory: Path) -> AsyncIterator[Path]:
    """Run a kube-scheduler with the flags for its kubeconfig and its port only."""
    log = directory / "kube-scheduler.log"
    kubeconfig = server.write_kubeconfig(directory / "kubeconfig")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            BINARY, f"--kubeconfig={kubeconfig}", "--secure-port=0", "-v=2", stderr=output
        )
        try:
            yield log
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiClient]:
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        FakeApiServer() as server,
        aiohttp.ClientSession(timeout=timeout) as session,
        scheduler(server, tmp_path),
    ):
        client = ApiClient(session, server.url)
        yield client


async def test_it_leads_binds_and_explains_failures(api: ApiClient) -> None:
    await api.create(NODES, node("n1"))
    await api.create(PODS, asking("fits", "500m"))
    await api.create(PODS, asking("too-big", "2"))
    async with api.watch(PODS) as pods, api.watch(LEASE.rpartition("/")[0]) as leases:
        bound = await until(pods, lambda obj: bool(obj["spec"].get("nodeName")))
        assert (bound["metadata"]["name"], bound["spec"]["nodeName"]) == ("fits", "n1")
        assert condition(bound)["status"] == "True"
        lease = await until(leases, lambda obj: bool(obj["spec"].get("holderIdentity")))
        assert lease["spec"]["leaseDurationSeconds"] == 15
    async with api.watch(PODS) as pods:
        waits = await until(pods, lambda obj: condition(obj).get("status") == "False")
        assert waits["metadata"]["name"] == "too-big"
        assert condition(waits)["reason"] == "Unschedulable"
        await api.create(NODES, node("n2", cpu="4"))
        late = await until(pods, lambda obj: obj["spec"].get("nodeName") == "n2")
        assert late["metadata"]["name"] == "too-big"
    async with api.watch(EVENTS) as events:
        said = await until(events, lambda obj: obj["reason"] == "Scheduled")
        assert said["reportingController"] == "default-scheduler"


async def test_it_preempts(api: ApiClient) -> None:
    await api.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    await api.create(NODES, node("n1"))
    async with api.watch(PODS) as pods:
        await api.create(PODS, asking("victim", "1"))
        await until(pods, lambda obj: obj["spec"].get("nodeName") == "n1")
        await api.create(PODS, asking("important", "1", priorityClassName="high"))
        marked = await until(pods, lambda obj: "deletionTimestamp" in obj["metadata"])
        assert marked["metadata"]["name"] == "victim"
        reasons = {item["type"]: item["reason"] for item in marked["status"]["conditions"][1:]}
        assert reasons == {"DisruptionTarget": "PreemptionByScheduler"}
        nominated = (await api.get(f"{PODS}/important")).body
        assert nominated["status"].get("nominatedNodeName") == "n1"
        await api.delete(f"{PODS}/victim", gracePeriodSeconds=0)  # what a kubelet does
        won = await until(
            pods,
            lambda obj: obj["metadata"]["name"] == "important" and "nodeName" in obj["spec"],
        )
        assert won["spec"]["nodeName"] == "n1"
        assert "nominatedNodeName" not in won["status"]


async def test_another_one_waits_and_takes_over(tmp_path_factory: pytest.TempPathFactory) -> None:
    def lease_reads() -> int:
        return sum(r.method == "GET" and r.path.startswith(LEASE) for r in server.requests)

    async with (
        FakeApiServer(options=ServerOptions(requests_kept=10_000)) as server,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session,
        contextlib.AsyncExitStack() as first,
    ):
        api = ApiClient(session, server.url)
        await api.create(NODES, node("n1"))
        async with api.watch(LEASE.rpartition("/")[0]) as leases, api.watch(PODS) as pods:
            await first.enter_async_context(scheduler(server, tmp_path_factory.mktemp("first")))
            lease = await until(leases, lambda obj: bool(obj["spec"].get("holderIdentity")))
            leader, reads = lease["spec"]["holderIdentity"], lease_reads()
            async with scheduler(server, tmp_path_factory.mktemp("second")):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    # Who leads writes without reading.
                    while lease_reads() == reads:  # noqa: ASYNC110 - another process
                        await asyncio.sleep(0.05)
                assert (await api.get(LEASE)).body["spec"]["holderIdentity"] == leader
                await first.aclose()
                lease = await until(
                    leases, lambda obj: obj["spec"].get("holderIdentity", "") not in ("", leader)
                )
                assert lease["spec"]["leaseTransitions"] == 1
                await api.create(PODS, asking("p", "500m"))
                bound = await until(pods, lambda obj: bool(obj["spec"].get("nodeName")))
                assert bound["spec"]["nodeName"] == "n1"


async def test_it_allocates_the_claim_of_a_template(tmp_path: Path) -> None:
    async with (
        FakeApiServer() as server,
        Actors(server, devices=True, garbage_collector=True),
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session,
    ):
        api = ApiClient(session, server.url)
        claims = f"{DEVICES}/namespaces/default/resourceclaims"
        expression = 'device.driver == "gpu.example.com"'
        selectors = [{"cel": {"expression": expression}}]
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        device_slice = {
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d0"}],
        }
        await api.create(NODES, node("n1"))
        gpu = {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}
        await api.create(f"{DEVICES}/deviceclasses", gpu)
        published = {"metadata": {"name": "s"}, "spec": device_slice}
        await api.create(f"{DEVICES}/resourceslices", published)
        template = {
            "metadata": {"name": "t"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        await api.create(f"{DEVICES}/namespaces/default/resourceclaimtemplates", template)
        used = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
        made = await api.create(PODS, asking("p", "500m", resourceClaims=used))
        async with scheduler(server, tmp_path), api.watch(PODS) as pods:
            bound = await until(pods, lambda obj: bool(obj["spec"].get("nodeName")))
            (claim,) = (await api.get(claims)).body["items"]
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            assert (result["request"], result["pool"], result["device"]) == ("r", "n1", "d0")
            assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
            (user,) = claim["status"]["reservedFor"]
            assert user["uid"] == made["metadata"]["uid"] == bound["metadata"]["uid"]
            await api.delete(f"{PODS}/p", gracePeriodSeconds=0)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await api.get(claims)).body["items"]:  # noqa: ASYNC110 - no event of its own
                    await asyncio.sleep(0.05)
