"""Preemption over real HTTP: a pod that fits nowhere takes the place of a less important one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fakeapi import FakeApiServer
from scheduler.testing import VirtualClock
from scheduler.testing.in_process import RunningScheduler, run_in_process
from tests.integration.api_client import PODS, Api, eventually

DEADLINE_SECONDS = 20.0
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GONE_AT_ONCE = {"terminationGracePeriodSeconds": 0}


class Cluster(Api):
    """An API server with a high and a low priority, and pods that may be preempted."""

    async def with_classes(self) -> Cluster:
        for name, value, policy in (
            ("high", 1000, "PreemptLowerPriority"),
            ("low", 10, "PreemptLowerPriority"),
            ("polite", 1000, "Never"),
        ):
            body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            await self.create(CLASSES, body)
        return self

    async def running(self, name: str, node: str, cpu: str = "3", **labels: str) -> None:
        """Create a pod of low priority that runs on a node, without a grace period."""
        resources = {"requests": {"cpu": cpu}}
        spec = {
            "containers": [{"name": "c", "image": "app:v1", "resources": resources}],
            "priorityClassName": "low",
            "nodeName": node,
            **GONE_AT_ONCE,
        }
        await self.create(PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec})

    async def nominated(self, name: str) -> str:
        """Return the nominated node of a pod, once it has one."""

        async def promised() -> str:
            return (await self.get(f"{PODS}/{name}"))["status"].get("nominatedNodeName", "")

        return await eventually(promised)

    async def gone(self, name: str) -> None:
        """Return once a pod is no longer there."""

        async def missing() -> str:
            return "gone" if (await self.get(f"{PODS}/{name}")).get("code") == 404 else ""

        await eventually(missing)

    async def events(self, reason: str) -> list[dict]:
        return [e for e in (await self.get(EVENTS))["items"] if e["reason"] == reason]


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with FakeApiServer() as server, Cluster.of(server) as api:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        assert isinstance(api, Cluster)
        yield await api.with_classes()


@pytest.fixture
async def scheduler(
    api: Cluster, tmp_path: Path, clock: VirtualClock
) -> AsyncIterator[RunningScheduler]:
    async with run_in_process(kubeconfig=tmp_path / "kubeconfig", clock=clock) as scheduler:
        yield scheduler
        await _at_rest(scheduler)
        scheduler.check()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


async def _at_rest(scheduler: RunningScheduler) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not scheduler.is_idle:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.002)


async def _backoff(clock: VirtualClock) -> None:
    """Let the first backoff of a pod pass."""
    while clock.next_wake_up is None:  # noqa: ASYNC110 - real HTTP takes real milliseconds
        await asyncio.sleep(0.002)
    for _ in range(20):
        await clock.advance(1.0)
        await asyncio.sleep(0.005)


async def test_a_pod_of_high_priority_gets_the_place_of_its_victim(
    api: Cluster, scheduler: RunningScheduler
) -> None:
    await api.node("a")
    await api.running("victim", "a")
    await _at_rest(scheduler)
    await api.pod("important", cpu="2", priorityClassName="high")
    await api.gone("victim")
    assert await api.node_of("important") == "a"
    (event,) = await api.events("Preempted")
    important = await api.get(f"{PODS}/important")
    assert event["note"] == f"Preempted by pod {important['metadata']['uid']} on node a"
    assert (event["type"], event["action"]) == ("Normal", "Preempting")
    assert (event["regarding"]["name"], event["related"]["name"]) == ("victim", "important")
    assert event["reportingController"] == "default-scheduler"


async def test_a_victim_has_a_condition_before_it_goes_and_the_place_is_kept(
    api: Cluster, scheduler: RunningScheduler
) -> None:
    await api.node("a")
    await api.pod("slow", cpu="3", priorityClassName="low")  # takes its 30 seconds to go
    assert await api.node_of("slow") == "a"
    await api.pod("important", cpu="3", priorityClassName="high")
    assert await api.nominated("important") == "a"
    await _at_rest(scheduler)
    slow = await api.get(f"{PODS}/slow")
    assert slow["metadata"]["deletionTimestamp"]
    (target,) = (c for c in slow["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
    assert target["message"] == (
        "default-scheduler: preempting to accommodate a higher priority pod"
    )
    await api.pod("late", cpu="3", priorityClassName="low")
    assert (await api.message_of("late")).startswith("0/1 nodes are available: 1 Insufficient cpu.")
    important = await api.get(f"{PODS}/important")
    (condition,) = important["status"]["conditions"]
    assert condition["message"] == "0/1 nodes are available: 1 Insufficient cpu."


async def test_a_pod_does_not_preempt_again_while_its_victim_takes_its_time(
    api: Cluster, scheduler: RunningScheduler, clock: VirtualClock
) -> None:
    for node in ("a", "b"):
        await api.node(node)
        await api.pod(f"slow-{node}", cpu="3", priorityClassName="low")
        await api.node_of(f"slow-{node}")
    await api.pod("important", cpu="3", priorityClassName="high")
    node = await api.nominated("important")
    await _at_rest(scheduler)
    taint = {"key": "k", "effect": "NoSchedule"}
    await api.create(  # room for the pod, were it not for the taint: a reason to look again
        "/api/v1/nodes",
        {
            "metadata": {"name": "c"},
            "spec": {"taints": [taint]},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        },
    )
    await _backoff(clock)
    message = await eventually(lambda: _message_with(api, "important", "terminating"))
    assert message == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
        "no new claims to deallocate, preemption: "
        "not eligible due to a terminating pod on the nominated node."
    )
    assert await api.nominated("important") == node
    spared = "slow-b" if node == "a" else "slow-a"
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/{spared}"))["metadata"]


async def _message_with(api: Cluster, pod: str, part: str) -> str:
    message = await api.message_of(pod)
    return message if part in message else ""


async def test_a_budget_is_respected_where_there_is_another_way(
    api: Cluster, scheduler: RunningScheduler
) -> None:
    await api.create(
        BUDGETS,
        {
            "metadata": {"name": "db"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
            "status": {"disruptionsAllowed": 0},
        },
    )
    for node, app in (("a", "db"), ("b", "web")):
        await api.node(node)
        await api.running(f"on-{node}", node, app=app)
    await _at_rest(scheduler)
    await api.pod("important", cpu="3", priorityClassName="high")
    await api.gone("on-b")
    assert await api.node_of("important") == "b"
    assert "code" not in await api.get(f"{PODS}/on-a")


async def test_a_pod_may_be_too_polite_to_preempt(
    api: Cluster, scheduler: RunningScheduler
) -> None:
    await api.node("a")
    await api.running("other", "a")
    await _at_rest(scheduler)
    await api.pod("polite", cpu="3", priorityClassName="polite")
    assert await api.message_of("polite") == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "not eligible due to preemptionPolicy=Never."
    )
    await _at_rest(scheduler)
    assert "code" not in await api.get(f"{PODS}/other")


async def test_a_pod_that_cannot_preempt_has_preemptions_result_in_its_message(
    api: Cluster, scheduler: RunningScheduler
) -> None:
    await api.node("a")
    await api.running("other", "a")
    await _at_rest(scheduler)
    await api.pod("low", cpu="3", priorityClassName="low")
    assert await api.message_of("low") == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
