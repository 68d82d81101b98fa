"""A pod's story and the scheduler's metrics, read from its port after a pod was scheduled."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from fakeapi import FakeApiServer
from scheduler.clock import SystemClock
from scheduler.explain.cli import main
from scheduler.framework import Plugin, PodInfo, Status
from scheduler.testing import VirtualClock
from scheduler.testing.in_process import RunningScheduler, run_in_process
from tests.integration.api_client import Api

DEADLINE_SECONDS = 20.0


class Life:
    """A scheduler that has bound a pod after the pod waited for a node."""

    def __init__(self, api: Api, scheduler: RunningScheduler, clock: VirtualClock) -> None:
        self.api = api
        self.clock = clock
        self._scheduler = scheduler

    async def get(self, path: str) -> tuple[int, str]:
        """The status and text that the scheduler answers."""
        url = self._scheduler.url + path
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.text()

    async def entries(self, pod: str) -> list[dict[str, Any]]:
        """The entries of a pod's story."""
        status, text = await self.get(f"/debug/pods/default/{pod}")
        assert status == 200
        entries: list[dict[str, Any]] = json.loads(text)["entries"]
        return entries

    async def number(self, name: str, **labels: str) -> float:
        """Return one of the scheduler's metrics; 0 if it is absent."""
        _, text = await self.get("/metrics")
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return float(sample.value)
        return 0.0

    def check(self) -> None:
        """Check the invariants of cache and queue."""
        self._scheduler.check()

    async def at_rest(self) -> None:
        """Return once the scheduler has nothing left to do."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not self._scheduler.is_idle:  # noqa: ASYNC110 - no event to wait for
                await asyncio.sleep(0.002)


@pytest.fixture
async def life(tmp_path: Path) -> AsyncIterator[Life]:
    clock = VirtualClock()
    async with FakeApiServer() as server, Api.of(server) as api:
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
        await api.node("small", cpu="1")
        await api.pod("web", cpu="8")
        async with run_in_process(kubeconfig=kubeconfig, clock=clock, serve=True) as scheduler:
            life = Life(api, scheduler, clock)
            await api.message_of("web")
            await life.at_rest()
            await api.node("tiny", cpu="1")
            await api.node("large", cpu="8")
            async with asyncio.timeout(DEADLINE_SECONDS):
                while not await life.number(  # noqa: ASYNC110 - no event to wait for
                    "scheduler_queue_incoming_pods_total", queue="backoff", event="NodeAdd"
                ):
                    await asyncio.sleep(0.002)
            for _ in range(12):
                await clock.advance(1.0)
            assert await api.node_of("web") == "large"
            await life.at_rest()
            yield life


async def test_a_story_has_all_that_happened_to_the_pod(life: Life) -> None:
    entries = await life.entries("web")
    texts = [entry["text"] for entry in entries]
    assert texts[:3] == [
        "outside -> active by UnschedulablePodAdd",
        "active -> in-flight",
        "attempt 1: unschedulable: 0/1 nodes are available: 1 Insufficient cpu. no new claims to "
        "deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for "
        "scheduling.",
    ]
    assert texts[-1] == "bound to large"
    [failed, placed] = [entry for entry in entries if entry["kind"] == "attempt"]
    assert failed["verdicts"] == [
        {
            "plugin": "NodeResourcesFit",
            "code": "UnschedulableAndUnresolvable",
            "reasons": ["Insufficient cpu"],
            "nodes": 1,
        }
    ]
    assert (placed["node"], placed["feasible_nodes"], placed["evaluated_nodes"]) == ("large", 1, 3)


async def test_each_move_names_its_event_and_the_hint_that_allowed_it(life: Life) -> None:
    entries = await life.entries("web")
    asked = [entry for entry in entries if entry["kind"] == "asked" and entry["hints"]]
    moved = [entry for entry in entries if entry["kind"] == "moved" and entry["hints"]]
    assert [entry["text"] for entry in asked] == [
        "UnschedulablePodUpdate, NodeAdd do not help (NodeResourcesFit): stays unschedulable"
    ]
    assert [entry["hints"] for entry in asked] == [
        [{"plugin": "NodeResourcesFit", "event": "NodeAdd", "answer": "QueueSkip"}]
    ]
    assert [entry["text"] for entry in moved] == ["unschedulable -> backoff by NodeAdd"]
    assert [entry["hints"] for entry in moved] == [
        [{"plugin": "NodeResourcesFit", "event": "NodeAdd", "answer": "Queue"}]
    ]


async def test_the_preemptor_and_its_victim_name_each_other(life: Life) -> None:
    await life.api.pod("urgent", cpu="8", priorityClassName="system-cluster-critical")
    await life.api.message_of("urgent")
    await life.at_rest()
    [nominated] = [e for e in await life.entries("urgent") if e["kind"] == "nominated"]
    assert nominated["text"] == "nominated to large: preempts default/web"
    assert nominated["victims"] == ["default/web"]
    [preempted] = [e for e in await life.entries("web") if e["kind"] == "preempted"]
    assert preempted["text"] == "preempted by default/urgent on large"
    assert preempted["preemptor"] == "default/urgent"


async def test_an_unknown_pod_has_no_story(life: Life) -> None:
    status, text = await life.get("/debug/pods/default/nobody")
    assert status == 404
    assert "NotFound" in text


async def test_the_page_decides_a_bound_pod_over_the_cluster_without_it(life: Life) -> None:
    for _ in range(2):  # the first request has changed nothing
        status, text = await life.get("/debug/ui/pods/default/web")
        pod, names = json.loads(text)["pod"], json.loads(text)["names"]
        assert status == 200
        assert pod["answer"].startswith("is on large, and would be scheduled there again: the best")
        assert pod["current"]["name"] == pod["choice"]["node"] == "large"
        assert [names[index] for index in pod["table"]["nodes"]] == ["large", "small", "tiny"]
        assert (pod["feasibleNodes"], pod["rejections"][0]["nodes"]) == (1, 2)
    life.check()
    await life.api.pod("second", cpu="8")
    assert "3 Insufficient cpu" in await life.api.message_of("second")
    _, text = await life.get("/debug/ui/pods/default/second")
    assert json.loads(text)["pod"]["feasibleNodes"] == 0, "the bound pod is back on its node"


async def test_the_metrics_agree_with_the_stories(life: Life) -> None:
    profile = "default-scheduler"
    attempts = "scheduler_schedule_attempts_total"
    assert await life.number(attempts, result="unschedulable", profile=profile) == 1
    assert await life.number(attempts, result="scheduled", profile=profile) == 1
    hints = "scheduler_queueing_hint_execution_duration_seconds_count"
    fit = {"plugin": "NodeResourcesFit", "event": "NodeAdd"}
    assert await life.number(hints, hint="QueueSkip", **fit) == 1
    assert await life.number(hints, hint="Queue", **fit) == 1
    assert await life.number("scheduler_pending_pods", queue="unschedulable") == 0
    assert await life.number("scheduler_cache_size", type="nodes") == 3
    assert await life.number("scheduler_goroutines", operation="binding") == 0
    assert await life.number("scheduler_preemption_attempts_total") == 1
    evaluated = {"plugin": "NodeResourcesFit", "extension_point": "Filter", "profile": profile}
    assert await life.number("scheduler_plugin_evaluation_total", **evaluated) == 4
    point = {"extension_point": "Filter", "status": "Success", "profile": profile}
    name = "scheduler_framework_extension_point_duration_seconds_count"
    assert await life.number(name, **point) == 2


async def test_the_page_has_the_cluster_and_the_pods(life: Life) -> None:
    state = json.loads((await life.get("/debug/ui/state"))[1])
    assert state["pods"] == [{"pod": "default/web", "result": "bound", "answer": "bound to large"}]
    cluster = state["cluster"]
    assert cluster["names"] == ["large", "small", "tiny"]
    assert (cluster["podCounts"], cluster["shares"]["cpu"]) == ([1, 0, 0], [1.0, 0.0, 0.0])
    assert cluster["pods"][0] == [["default/web", 1.0, False]]


async def test_the_page_has_the_story_of_a_bound_pod(life: Life) -> None:
    page = json.loads((await life.get("/debug/ui/pods/default/web"))[1])
    assert page["story"]["entries"] == await life.entries("web")


async def test_the_page_decides_a_waiting_pod_over_the_nodes_as_they_are(life: Life) -> None:
    await life.api.pod("late", cpu="9")
    await life.api.message_of("late")
    await life.at_rest()
    before = await life.entries("late")
    page = json.loads((await life.get("/debug/ui/pods/default/late"))[1])
    pod = page["pod"]
    assert pod["answer"].startswith("unschedulable: 0/3 nodes are available: 3 Insufficient cpu.")
    assert sorted(page["names"][node] for node in pod["table"]["nodes"]) == [
        *("large", "small", "tiny")
    ]
    assert pod["nearest"][0]["name"] == "small"
    assert await life.entries("late") == before, "the scheduler has not noticed"


class RaisesInPreEnqueue(Plugin):
    """Fails before a pod may become active."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        raise LookupError("no such team")


async def test_an_exception_in_pre_enqueue_is_in_the_story(tmp_path: Path) -> None:
    async with FakeApiServer() as server, Api.of(server) as api:
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
        await api.node("large", cpu="8")
        await api.pod("web", cpu="1")
        async with run_in_process(
            kubeconfig=kubeconfig, clock=SystemClock(), serve=True, plugins=[RaisesInPreEnqueue]
        ) as scheduler:
            life = Life(api, scheduler, VirtualClock())
            await life.at_rest()
            gated, *_ = await life.entries("web")
            command = ["--story", "web", "--server", scheduler.url]
            shown = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert gated["text"] == "outside -> gated by UnschedulablePodAdd"
    failure = gated["failure"]
    assert (failure["plugin"], failure["point"]) == ("RaisesInPreEnqueue", "PreEnqueue")
    assert failure["traceback"].endswith("LookupError: no such team\n")
    assert "RaisesInPreEnqueue failed at PreEnqueue:" in shown.stdout
    assert 'raise LookupError("no such team")' in shown.stdout
