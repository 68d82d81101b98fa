"""Shadow mode over real HTTP: it compares another scheduler's decisions and writes nothing."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fakeapi import FakeApiServer
from scheduler import CycleState, NodeInfo, Plugin, PodInfo
from scheduler.client import PODS as CLIENT_PODS
from scheduler.client import RestClient, connection_to
from scheduler.client.errors import WriteRefused
from scheduler.clock import SystemClock
from scheduler.testing.in_process import run_in_process
from tests.integration.api_client import PODS, Api
from tests.integration.shadow_process import (
    AGREED,
    DEADLINE_SECONDS,
    ShadowProcess,
    judge_500_mixed_pods,
    shadow_of,
)
from tests.integration.test_stock_scheduler import BINARY
from tests.integration.test_stock_scheduler import scheduler as stock_scheduler

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as server:
        yield server


@pytest.fixture
def kubeconfig(server: FakeApiServer, tmp_path: Path) -> Path:
    return server.write_kubeconfig(tmp_path / "kubeconfig-of-tests")


@pytest.fixture
async def api(server: FakeApiServer) -> AsyncIterator[Api]:
    async with Api.of(server) as api:
        yield api


@pytest.fixture
async def shadow(kubeconfig: Path, api: Api, tmp_path: Path) -> AsyncIterator[ShadowProcess]:
    await api.node("large", cpu="8")
    await api.node("small", cpu="2")
    async with shadow_of(kubeconfig, tmp_path) as shadow:
        yield shadow


async def bind(api: Api, pod: str, node: str) -> None:
    """Bind a pod by hand, as another scheduler would."""
    binding = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    await api.create(f"{PODS}/{pod}/binding", binding)


async def test_a_pod_on_the_best_node_is_an_agreement(api: Api, shadow: ShadowProcess) -> None:
    await api.pod("web")
    await bind(api, "web", "large")
    [found] = await shadow.compared(1)
    assert (found["pod"], found["agreement"], found["node"]) == ("default/web", "same", "large")
    assert found["best"] == "large"
    assert found["total"] == found["bestTotal"]
    assert json.loads(await shadow.get("/debug/shadow"))["disagreements"] == []


async def test_a_worse_node_is_explained_by_the_scores_of_plugins(
    api: Api, shadow: ShadowProcess
) -> None:
    await api.pod("web")
    await bind(api, "web", "small")
    [found] = await shadow.compared(1)
    assert (found["agreement"], found["best"]) == ("lower_score", "large")
    lower = found["bestTotal"] - found["total"]
    assert lower == sum(item["ours"] - item["theirs"] for item in found["differences"]) > 0
    assert found["differences"][0]["plugin"] == "NodeResourcesFit"
    assert found["answer"].startswith(f"small has {found['total']}, {lower} less than large: ")
    page = json.loads(await shadow.get("/debug/shadow"))
    assert page["disagreements"] == page["latest"] == [found]
    metrics = await shadow.get("/metrics")
    labels = 'agreement="lower_score",profile="default-scheduler"'
    assert f"kubesched_shadow_decisions_total{{{labels}}} 1.0" in metrics


async def test_an_impossible_node_is_explained_by_the_plugin(
    api: Api, shadow: ShadowProcess
) -> None:
    await api.pod("web", cpu="4")
    await bind(api, "web", "small")
    await api.pod("lost")
    await bind(api, "lost", "no-such-node")
    found, lost = await shadow.compared(2)
    assert (found["agreement"], found["rejectedBy"]) == ("rejected", "NodeResourcesFit")
    assert found["reasons"] == ["Insufficient cpu"]
    assert found["answer"].startswith("small is rejected by NodeResourcesFit: Insufficient cpu; ")
    assert lost["agreement"] == "unknown_node"


@pytest.mark.parametrize(
    ("order", "agreement"),
    [(("first", "second"), "concurrent"), (("second", "first"), "lower_score")],
)
async def test_bindings_that_arrive_in_another_order_than_that_of_the_queue_are_concurrent(
    kubeconfig: Path, api: Api, tmp_path: Path, order: tuple[str, str], agreement: str
) -> None:
    await api.node("large", cpu="8")
    await api.node("small", cpu="7")
    async with shadow_of(kubeconfig, tmp_path) as shadow:
        for name in order:
            await api.pod(name, cpu="4")
        await bind(api, "second", "small")  # the best node only if `first` is on the other
        await bind(api, "first", "large")
        found = {item["pod"]: item for item in await shadow.compared(2)}
    assert found["default/first"]["agreement"] == "same"
    second = found["default/second"]
    assert second["agreement"] == agreement
    if agreement == "concurrent":
        words = "with concurrent bindings in the order of the queue"
        assert second["answer"] == f"small is the best with {second['total']}, {words}"


class Broken(Plugin):
    """A filter with a defect."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
        raise RuntimeError("a defect")


async def test_a_decision_that_fails_is_an_error_and_the_next_is_compared(
    kubeconfig: Path, api: Api, tmp_path: Path
) -> None:
    await api.node("large", cpu="8")
    async with shadow_of(kubeconfig, tmp_path, [Broken]) as shadow:
        for name in ("one", "two"):
            await api.pod(name)
            await bind(api, name, "large")
        found = await shadow.compared(2)
        page = json.loads(await shadow.get("/debug/shadow"))
    assert [item["agreement"] for item in found] == ["error", "error"]
    assert 'running "Broken" filter plugin' in found[0]["answer"]
    assert page["decisions"] == {"default-scheduler": {"error": 2}}
    assert len(page["disagreements"]) == 2


async def test_pods_left_pending_are_decided_at_each_report(
    api: Api, shadow: ShadowProcess
) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    for name, cpu in (("huge", "64"), ("modest", "1")):
        await api.pod(name, cpu=cpu)
        conditions = [{**condition, "message": "no"}]
        await api.patch_status(f"{PODS}/{name}", {"conditions": conditions})
    huge, modest = await shadow.compared(2)
    assert (huge["agreement"], huge["theirMessage"]) == ("pending", "no")
    assert huge["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert (modest["agreement"], modest["best"]) == ("would_place", "large")
    conditions = [{**condition, "message": "still no"}]
    await api.patch_status(f"{PODS}/modest", {"conditions": conditions})
    assert (await shadow.compared(3))[2]["theirMessage"] == "still no"


async def test_a_nominated_node_is_taken_without_looking_at_the_others(
    api: Api, shadow: ShadowProcess
) -> None:
    await api.pod("web")
    await api.patch_status(f"{PODS}/web", {"nominatedNodeName": "small"})
    await bind(api, "web", "small")
    [found] = await shadow.compared(1)
    assert (found["agreement"], found["best"]) == ("same", "small")


async def test_a_pod_that_waits_in_pre_bind_counts_as_on_its_nominated_node(
    kubeconfig: Path, api: Api, tmp_path: Path
) -> None:
    await api.node("large", cpu="8")
    await api.node("small", cpu="7")
    async with shadow_of(kubeconfig, tmp_path) as shadow:
        await api.pod("waits", cpu="4")
        await api.patch_status(f"{PODS}/waits", {"nominatedNodeName": "large"})
        await api.pod("next", cpu="2")
        await bind(api, "next", "small")
        [found] = await shadow.compared(1)
        assert (found["agreement"], found["best"]) == ("same", "small")
        # PreBind has failed: the pod no longer counts.
        conditions = [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}]
        status = {"nominatedNodeName": None, "conditions": conditions}
        await api.patch_status(f"{PODS}/waits", status)
        await api.pod("after", cpu="1")
        await bind(api, "after", "large")
        await api.patch_status(f"{PODS}/waits", {"nominatedNodeName": "small"})
        await bind(api, "waits", "small")
        found = {item["pod"]: item for item in await shadow.compared(3)}
    assert [found[f"default/{name}"]["agreement"] for name in ("after", "waits")] == ["same"] * 2


async def test_a_pod_that_waits_for_its_victims_does_not_count_in_scores(
    kubeconfig: Path, api: Api, tmp_path: Path
) -> None:
    await api.node("large", cpu="8")
    await api.node("small", cpu="7")
    async with shadow_of(kubeconfig, tmp_path) as shadow:
        await api.pod("waits", cpu="4")
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"nominatedNodeName": "large", "conditions": [condition]}
        await api.patch_status(f"{PODS}/waits", status)
        await api.pod("next", cpu="2")
        await bind(api, "next", "large")
        found = {item["pod"]: item for item in await shadow.compared(2)}
    assert found["default/next"]["agreement"] == "same"


async def test_a_client_that_may_not_write_sends_no_write(server: FakeApiServer, api: Api) -> None:
    await api.node("a")
    await api.pod("web")
    client = RestClient(
        connection_to(server.url),
        clock=SystemClock(),
        user_agent="test",
        write_refusal=lambda: "this process only reads",
    )
    async with client:
        web = await client.get(CLIENT_PODS, "web", namespace="default")
        writes = (
            client.bind(web, "a"),
            client.create(CLIENT_PODS, web),
            client.delete(CLIENT_PODS, "web", namespace="default"),
            client.patch(CLIENT_PODS, "web", {}, namespace="default", subresource="status"),
            client.request("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"),
        )
        for write in writes:
            with pytest.raises(WriteRefused, match="this process only reads"):
                await write
        assert await client.get(CLIENT_PODS, "web", namespace="default") == web


async def test_two_of_our_schedulers_agree_and_the_shadow_writes_nothing(
    kubeconfig: Path, api: Api, tmp_path: Path
) -> None:
    for number in range(5):
        await api.node(f"n{number}", cpu="4")
    async with shadow_of(kubeconfig, tmp_path) as shadow:
        for number in range(3):
            await api.pod(f"p{number}")
        await api.pod("last")
        await bind(api, "last", "n0")
        await shadow.compared(1)  # it has seen the other three
        pods = (await api.get(PODS))["items"]
        assert [pod["spec"].get("nodeName") for pod in pods] == ["n0", None, None, None]
        assert not any(pod["status"].get("conditions") for pod in pods[1:])
        assert not (await api.get("/apis/coordination.k8s.io/v1/leases"))["items"]
        async with run_in_process(kubeconfig=kubeconfig, clock=SystemClock()):
            for number in range(3, 22):
                await api.pod(f"p{number}")
            found = await shadow.compared(23)
    assert {item["agreement"] for item in found} <= AGREED
    assert {"same", "pending"} <= {item["agreement"] for item in found}


async def test_the_process_writes_lines_to_stdout(kubeconfig: Path, api: Api) -> None:
    await api.node("a")
    await api.pod("web", cpu="64")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    await api.patch_status(f"{PODS}/web", {"conditions": [condition]})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", "--shadow", "--shadow-log=-", "--secure-port=0"),
        f"--kubeconfig={kubeconfig}",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE_SECONDS):
            found = json.loads(await process.stdout.readline())
        assert (found["pod"], found["agreement"]) == ("default/web", "pending")
        process.terminate()
        assert await process.wait() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


@pytest.mark.skipif(not BINARY, reason="no kube-scheduler: set KUBE_SCHEDULER")
async def test_the_stock_scheduler_agrees_on_500_mixed_pods(
    server: FakeApiServer, api: Api, kubeconfig: Path, tmp_path: Path
) -> None:
    async with shadow_of(kubeconfig, tmp_path) as shadow, stock_scheduler(server, tmp_path):
        await judge_500_mixed_pods(api.create, api.node_of, shadow)
