"""Shadow mode over real HTTP: it compares another scheduler's decisions and writes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from fakeapi import FakeApiServer
from scheduler import Plugin
from scheduler.assembly.app import SchedulerApp
from scheduler.assembly.shadow import ShadowOptions
from scheduler.client import PODS as CLIENT_PODS
from scheduler.client import RestClient, connect, connection_to
from scheduler.client.errors import WriteRefused
from scheduler.clock import SystemClock
from scheduler.config import default_config
from scheduler.plugins import SCHEME
from scheduler.serving.serve import serve_for_tests
from scheduler.testing.in_process import run_in_process
from tests.integration.api_client import PODS, Api
from tests.integration.test_stock_scheduler import BINARY
from tests.integration.test_stock_scheduler import scheduler as stock_scheduler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from scheduler import CycleState, NodeInfo, PodInfo

Json = dict[str, Any]

ROOT = Path(__file__).parent.parent.parent
DEADLINE_SECONDS = 120.0
AGREED = {"same", "pending", "concurrent"}


class ShadowProcess:
    """A scheduler in shadow mode, and its page."""

    def __init__(self, api: Api, url: str, log: Path) -> None:
        self.api = api
        self._url = url
        self._log = log

    async def get(self, path: str) -> str:
        async with aiohttp.ClientSession() as session, session.get(self._url + path) as answer:
            assert answer.status == 200
            return await answer.text()

    async def counts(self) -> dict[str, int]:
        counts = json.loads(await self.get("/debug/shadow"))["decisions"]
        return dict(counts.get("default-scheduler", {}))

    async def compared(self, number: int) -> list[Json]:
        """Return the comparisons in the log, once there are so many."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while sum((await self.counts()).values()) < number:  # noqa: ASYNC110 - a process
                await asyncio.sleep(0.05)
        return [json.loads(line) for line in self._log.read_text(encoding="utf-8").splitlines()]

    async def bind(self, pod: str, node: str) -> None:
        """Bind a pod by hand, as another scheduler would."""
        binding = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
        await self.api.create(f"{PODS}/{pod}/binding", binding)


@contextlib.asynccontextmanager
async def shadow_of(
    server: FakeApiServer, api: Api, path: Path, plugins: Sequence[type[Plugin]] = ()
) -> AsyncIterator[ShadowProcess]:
    """Run a scheduler in shadow mode until the block is left; it has synced."""
    clock, config = SystemClock(), default_config(SCHEME)
    kubeconfig = str(server.write_kubeconfig(path / "shadow-kubeconfig"))
    log = path / "shadow.jsonl"
    with log.open("ab") as file:
        app = SchedulerApp(
            config,
            connect(kubeconfig=kubeconfig, clock=clock),
            clock=clock,
            plugins=plugins,
            shadow=ShadowOptions(file),
        )
        async with serve_for_tests(config, app, clock=clock) as port:
            running = asyncio.ensure_future(app.run())
            try:
                async with asyncio.timeout(DEADLINE_SECONDS):
                    while not app.is_idle:  # noqa: ASYNC110 - no event to wait for
                        await asyncio.sleep(0.01)
                yield ShadowProcess(api, port.url, log)
            finally:
                running.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await running


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as server:
        yield server


@pytest.fixture
async def api(server: FakeApiServer) -> AsyncIterator[Api]:
    async with Api.of(server) as api:
        yield api


@pytest.fixture
async def shadow(server: FakeApiServer, api: Api, tmp_path: Path) -> AsyncIterator[ShadowProcess]:
    await api.node("large", cpu="8")
    await api.node("small", cpu="2")
    async with shadow_of(server, api, tmp_path) as shadow:
        yield shadow


async def test_a_pod_on_the_best_node_is_an_agreement(shadow: ShadowProcess) -> None:
    await shadow.api.pod("web")
    await shadow.bind("web", "large")
    [found] = await shadow.compared(1)
    assert (found["pod"], found["agreement"], found["node"]) == ("default/web", "same", "large")
    assert found["best"] == "large"
    assert found["total"] == found["bestTotal"]
    assert json.loads(await shadow.get("/debug/shadow"))["disagreements"] == []


async def test_a_worse_node_is_explained_by_the_scores_of_plugins(shadow: ShadowProcess) -> None:
    await shadow.api.pod("web")
    await shadow.bind("web", "small")
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


async def test_an_impossible_node_is_explained_by_the_plugin(shadow: ShadowProcess) -> None:
    await shadow.api.pod("web", cpu="4")
    await shadow.bind("web", "small")
    await shadow.api.pod("lost")
    await shadow.bind("lost", "no-such-node")
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
    server: FakeApiServer, api: Api, tmp_path: Path, order: tuple[str, str], agreement: str
) -> None:
    await api.node("large", cpu="8")
    await api.node("small", cpu="7")
    async with shadow_of(server, api, tmp_path) as shadow:
        for name in order:
            await api.pod(name, cpu="4")
        await shadow.bind("second", "small")  # the best node only if `first` is on the other
        await shadow.bind("first", "large")
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
    server: FakeApiServer, api: Api, tmp_path: Path
) -> None:
    await api.node("large", cpu="8")
    async with shadow_of(server, api, tmp_path, [Broken]) as shadow:
        for name in ("one", "two"):
            await api.pod(name)
            await shadow.bind(name, "large")
        found = await shadow.compared(2)
        page = json.loads(await shadow.get("/debug/shadow"))
    assert [item["agreement"] for item in found] == ["error", "error"]
    assert 'running "Broken" filter plugin' in found[0]["answer"]
    assert page["decisions"] == {"default-scheduler": {"error": 2}}
    assert len(page["disagreements"]) == 2


async def test_pods_left_pending_are_decided_at_each_report(shadow: ShadowProcess) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    for name, cpu in (("huge", "64"), ("modest", "1")):
        await shadow.api.pod(name, cpu=cpu)
        conditions = [{**condition, "message": "no"}]
        await shadow.api.patch_status(f"{PODS}/{name}", {"conditions": conditions})
    huge, modest = await shadow.compared(2)
    assert (huge["agreement"], huge["theirMessage"]) == ("pending", "no")
    assert huge["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert (modest["agreement"], modest["best"]) == ("would_place", "large")
    conditions = [{**condition, "message": "still no"}]
    await shadow.api.patch_status(f"{PODS}/modest", {"conditions": conditions})
    assert (await shadow.compared(3))[2]["theirMessage"] == "still no"


async def test_a_nominated_node_is_taken_without_looking_at_the_others(
    shadow: ShadowProcess,
) -> None:
    await shadow.api.pod("web")
    await shadow.api.patch_status(f"{PODS}/web", {"nominatedNodeName": "small"})
    await shadow.bind("web", "small")
    [found] = await shadow.compared(1)
    assert (found["agreement"], found["best"]) == ("same", "small")


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
    server: FakeApiServer, api: Api, tmp_path: Path
) -> None:
    for number in range(5):
        await api.node(f"n{number}", cpu="4")
    kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
    async with shadow_of(server, api, tmp_path) as shadow:
        for number in range(3):
            await api.pod(f"p{number}")
        await asyncio.sleep(0.3)
        pods = (await api.get(PODS))["items"]
        assert not any(
            pod["spec"].get("nodeName") or pod["status"].get("conditions") for pod in pods
        )
        assert not (await api.get("/apis/coordination.k8s.io/v1/leases"))["items"]
        async with run_in_process(kubeconfig=kubeconfig, clock=SystemClock()):
            for number in range(3, 22):
                await api.pod(f"p{number}")
            found = await shadow.compared(22)
    assert {item["agreement"] for item in found} <= AGREED
    assert {"same", "pending"} <= {item["agreement"] for item in found}


async def test_the_process_writes_lines_to_stdout(
    server: FakeApiServer, api: Api, tmp_path: Path
) -> None:
    await api.node("a")
    await api.pod("web", cpu="64")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    await api.patch_status(f"{PODS}/web", {"conditions": [condition]})
    kubeconfig = str(server.write_kubeconfig(tmp_path / "kubeconfig"))
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


def _mixed_spec(rng: random.Random, number: int) -> Json:
    """Return a pod's spec: sizes, spreading, affinity, selectors, priorities."""
    labels = {"app": f"app{number % 12}"}
    selector = {"labelSelector": {"matchLabels": labels}}
    spec: Json = {}
    match rng.randrange(6):
        case 0:
            spread = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **selector}
            spec["topologySpreadConstraints"] = [{**spread, "topologyKey": "zone"}]
        case 1:
            term = {"topologyKey": "kubernetes.io/hostname", **selector}
            rule = {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 50, "podAffinityTerm": term}
            ]}  # fmt: skip
            spec["affinity"] = {"podAntiAffinity": rule}
        case 2:
            spec["nodeSelector"] = {"zone": rng.choice(["z0", "z1", "z2"])}
        case 3:
            term = {"topologyKey": "zone", **selector}
            rule = {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 20, "podAffinityTerm": term}
            ]}  # fmt: skip
            spec["affinity"] = {"podAffinity": rule}
    requests = {
        "cpu": f"{rng.choice([100, 250, 500, 1000])}m",
        "memory": f"{rng.choice([64, 256, 512])}Mi",
    }
    container = {"name": "c", "image": "app:v1", "resources": {"requests": requests}}
    metadata = {"name": f"p{number}", "labels": labels}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


@pytest.mark.skipif(not BINARY, reason="no kube-scheduler: set KUBE_SCHEDULER")
async def test_the_stock_scheduler_agrees_on_500_mixed_pods(
    server: FakeApiServer, api: Api, tmp_path: Path
) -> None:
    rng = random.Random(7)
    for number in range(50):
        labels = {"zone": f"z{number % 3}", "kubernetes.io/hostname": f"n{number}"}
        allocatable = {"cpu": str(rng.choice([4, 8, 16])), "memory": "32Gi", "pods": "110"}
        node = {
            "metadata": {"name": f"n{number}", "labels": labels},
            "status": {"allocatable": allocatable},
        }
        await api.create("/api/v1/nodes", node)
    async with shadow_of(server, api, tmp_path) as shadow, stock_scheduler(server, tmp_path):
        # Once it has bound a pod it takes all others in the order of their creation.
        await api.pod("first")
        await api.node_of("first")
        for number in range(499):
            await api.create(PODS, _mixed_spec(rng, number))
        found = await shadow.compared(500)
        counts = await shadow.counts()
    agreed = sum(counts.get(agreement, 0) for agreement in AGREED)
    different = [item for item in found if item["agreement"] not in AGREED]
    print("comparisons by agreement:", counts)
    for item in different:
        print(item["pod"], item["answer"])
    assert agreed >= 0.98 * sum(counts.values())
    for item in different:
        assert item["differences"] or item["rejectedBy"], item
