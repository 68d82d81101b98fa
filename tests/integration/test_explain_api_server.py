"""kubesched-explain reads a cluster from an API server, and leaves it as it was."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fakeapi import FakeApiServer, Security
from fakeapi.faults import AnswerWith, Fault, Match
from scheduler.clock import SystemClock
from scheduler.explain.cli import main
from scheduler.testing.in_process import run_in_process
from tests.integration.api_client import PODS, Api

WAITING = {"metadata": {"name": "waits"}, "spec": {"containers": [{"name": "c", "image": "c"}]}}


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as server:
        yield server


async def _explain(server: FakeApiServer, *arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, ["--master", server.url, *arguments])


async def test_pods_that_run_take_room_and_those_that_are_over_do_not(
    server: FakeApiServer,
) -> None:
    async with Api.of(server) as api:
        await api.node("a", cpu="4")
        await api.node("b", cpu="2")
        await api.pod("runs", cpu="3", nodeName="a")
        await api.pod("over", cpu="2", nodeName="b")
        await api.patch_status(f"{PODS}/over", {"phase": "Succeeded"})
        await api.pod("waits", cpu="2")
        before = await api.get(f"{PODS}/waits")
        result = await _explain(server)
        assert result.exit_code == 0, result.output
        lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
        assert "default/waits scheduled on b, 1 of 2 nodes feasible" in lines
        assert "1 NodeResourcesFit Insufficient cpu may help a" in lines
        assert not any(line.startswith(("default/runs", "default/over")) for line in lines)
        assert await api.get(f"{PODS}/waits") == before
        events = await api.get("/apis/events.k8s.io/v1/events")
        assert events["items"] == []


async def test_kinds_that_a_plugin_reads_come_from_the_server(server: FakeApiServer) -> None:
    config = {"kind": "ConfigMap", "metadata": {"name": "limits"}, "data": {"pods": "3"}}
    server.load([{"apiVersion": "v1", **config}])
    async with Api.of(server) as api:
        await api.node("a")
        await api.pod("waits")
        result = await _explain(server, "--plugin", "tests.explain.reads_quota:ReadsQuota")
    assert "limit 3, quotas []" in result.stdout  # the server has no quotas


async def test_an_account_that_may_not_list_pod_groups_gets_answers(tmp_path: Path) -> None:
    security = Security(tls=True, authorization_mode="RBAC")
    async with FakeApiServer(security=security) as server:
        server.load([{"apiVersion": "v1", "kind": "Pod", **WAITING}])
        path = tmp_path / "kubeconfig"
        path.write_text(server.kubeconfig_for("system:kube-scheduler"), encoding="utf-8")
        arguments = ["--kubeconfig", str(path)]
        result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "no nodes available to schedule pods" in result.stdout


async def test_a_kind_that_the_account_may_not_list_makes_the_answers_of_its_plugins_unsure(
    server: FakeApiServer,
) -> None:
    for resource in ("poddisruptionbudgets", "configmaps"):
        refused = Match(verb="list", resource=resource)
        server.faults.add(Fault(match=refused, answer=AnswerWith(code=403, message="not yours")))
    server.load([{"apiVersion": "v1", "kind": "Pod", **WAITING}])
    result = await _explain(server, "--plugin", "tests.explain.reads_quota:ReadsQuota")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "kubesched-explain: what DefaultPreemption decides is unsure: not yours",
        "kubesched-explain: what ReadsQuota decides is unsure: not yours",
    ]
    server.faults.add(Fault(match=Match(verb="list", resource="pods"), answer=AnswerWith(code=403)))
    assert (await _explain(server)).exit_code == 1


async def test_decisions_come_with_the_stories_of_a_running_scheduler(
    server: FakeApiServer, tmp_path: Path
) -> None:
    kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
    async with Api.of(server) as api:
        await api.node("a", cpu="2")
        await api.pod("waits", cpu="4")
        await api.pod("other", cpu="1", schedulerName="another")
        async with run_in_process(
            kubeconfig=kubeconfig, clock=SystemClock(), serve=True
        ) as scheduler:
            await api.message_of("waits")
            result = await _explain(server, "--server", scheduler.url, "-o", "json")
            text = (await _explain(server, "--server", scheduler.url, "--pod", "waits")).stdout
    pods = {pod["pod"]: pod for pod in json.loads(result.stdout)["pods"]}
    kinds = [entry["kind"] for entry in pods["default/waits"]["story"]["entries"]]
    assert kinds[:3] == ["moved", "moved", "attempt"]
    assert pods["default/other"]["story"] is None, "the scheduler has not seen it"
    assert text.index("Insufficient cpu") < text.index("attempt 1: unschedulable")


async def test_an_api_server_that_is_not_there_is_one_line() -> None:
    result = await asyncio.to_thread(CliRunner().invoke, main, ["--master", "http://127.0.0.1:1"])
    assert result.exit_code == 1
    assert result.stderr.startswith('kubesched-explain: GET "http://127.0.0.1:1/')
    assert result.stderr.count("\n") == 1
