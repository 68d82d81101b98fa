"""A scheduler in the test's own process: real HTTP, and a clock that the test holds."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from fakeapi import FakeApiServer
from scheduler import CycleState, NodeInfo, Plugin, PodInfo, Status, unschedulable
from scheduler.client import ClientError, KubeconfigError
from scheduler.config import ConfigError
from scheduler.runtime import FrameworkError
from scheduler.testing import VirtualClock
from scheduler.testing.in_process import RunningScheduler, run_in_process
from tests.integration.api_client import Api

DEADLINE_SECONDS = 20.0


class Never(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("never")


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with FakeApiServer() as server, Api.of(server) as api:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        yield api


async def _at_rest(scheduler: RunningScheduler) -> None:
    """Wait until it has nothing left to do; with real HTTP that takes real milliseconds."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not scheduler.is_idle:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.002)


async def test_it_schedules_and_comes_to_rest(api: Api, tmp_path: Path) -> None:
    await api.node("a")
    await api.pod("web")
    running = run_in_process(kubeconfig=tmp_path / "kubeconfig", clock=VirtualClock())
    async with running as scheduler:
        assert await api.node_of("web") == "a"
        await _at_rest(scheduler)
        scheduler.check()
        assert set(scheduler.resource_versions) >= {"nodes", "pods"}


async def test_backoff_passes_when_the_clock_is_advanced(api: Api, tmp_path: Path) -> None:
    clock = VirtualClock()
    await api.pod("web", cpu="8")
    async with run_in_process(kubeconfig=tmp_path / "kubeconfig", clock=clock) as scheduler:
        assert await api.message_of("web") == "no nodes available to schedule pods"
        await api.node("small", cpu="4")
        await api.node("large", cpu="8")
        while clock.next_wake_up is None:  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.002)
        for _ in range(60):
            await clock.advance(1.0)
        assert await api.node_of("web") == "large"
        await _at_rest(scheduler)
        scheduler.check()


async def test_it_takes_plugins(api: Api, tmp_path: Path) -> None:
    await api.node("a")
    await api.pod("web")
    running = run_in_process(
        kubeconfig=tmp_path / "kubeconfig", clock=VirtualClock(), plugins=[Never]
    )
    async with running as scheduler:
        assert (await api.message_of("web")).startswith("0/1 nodes are available: 1 never.")
        await _at_rest(scheduler)


async def test_what_kubesched_would_complain_about_is_raised(api: Api, tmp_path: Path) -> None:
    kubeconfig, clock = tmp_path / "kubeconfig", VirtualClock()
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "parallelism: -1\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError, match="parallelism"):
        async with run_in_process(kubeconfig=kubeconfig, clock=clock, config=bad):
            pass
    with pytest.raises(ClientError, match="nowhere"):
        async with run_in_process(kubeconfig=tmp_path / "nowhere", clock=clock):
            pass
    with pytest.raises(FrameworkError, match='plugin "Nobody" does not exist'):
        async with run_in_process(kubeconfig=kubeconfig, clock=clock, plugins=["Nobody"]):
            pass


async def test_its_failure_is_raised_by_is_idle(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with FakeApiServer() as server:
        server.write_kubeconfig(kubeconfig)
    # Credentials that cannot be read do not heal; a server that is not up is waited for.
    document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    document["users"][0]["user"] = {"tokenFile": "/nowhere/token"}
    kubeconfig.write_text(yaml.safe_dump(document), encoding="utf-8")
    with pytest.raises(KubeconfigError, match="/nowhere/token"):
        async with run_in_process(kubeconfig=kubeconfig, clock=VirtualClock()) as scheduler:
            await _at_rest(scheduler)


async def test_feature_gates_are_set_or_refused(api: Api, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    gates = {"SchedulerAsyncPreemption": False}
    running = run_in_process(kubeconfig=kubeconfig, clock=VirtualClock(), feature_gates=gates)
    async with running as scheduler:
        await _at_rest(scheduler)
    gates = {"GangScheduling": True}
    with pytest.raises(ConfigError, match=r"features that are disabled: \[GenericWorkload\]"):
        async with run_in_process(kubeconfig=kubeconfig, clock=VirtualClock(), feature_gates=gates):
            pass
