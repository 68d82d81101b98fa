"""Plugins that read ConfigMaps and custom objects, in process and as a process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from fakeapi import FakeApiServer, Security, ServerOptions, User
from scheduler import Plugin
from scheduler.testing import RunningScheduler, VirtualClock, run_in_process
from tests.integration.api_client import PODS, Api, eventually
from tests.integration.quota_plugins import ConfigMapQuota, CustomQuota, RequiredQuota

ROOT = Path(__file__).parent.parent.parent
DEADLINE_SECONDS = 20.0
#: Longer than the longest pause between two looks for a kind.
PAUSE_SECONDS = 61.0

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
QUOTAS = "/apis/example.com/v1/namespaces/default/quotas"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION: dict[str, object] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "quotas.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "quotas", "kind": "Quota", "listKind": "ListOfQuotas"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer(options=ServerOptions(requests_kept=1000)) as server:
        yield server


@pytest.fixture
async def api(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[Api]:
    async with Api.of(server) as api:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        await api.node("a")
        yield api


async def _define_quotas(api: Api) -> None:
    await api.create(DEFINITIONS, DEFINITION)


async def _quota(api: Api, limit: int) -> None:
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Quota",
        "metadata": {"name": "pods"},
        "spec": {"limit": limit},
    }
    await api.create(QUOTAS, body)


class Running:
    """A scheduler in process with one plugin, whose clock the test moves."""

    def __init__(self, scheduler: RunningScheduler, clock: VirtualClock) -> None:
        self.scheduler = scheduler
        self.clock = clock

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, tmp_path: Path, plugin: type[Plugin]) -> AsyncIterator[Running]:
        clock, kubeconfig = VirtualClock(), tmp_path / "kubeconfig"
        running = run_in_process(kubeconfig=kubeconfig, clock=clock, plugins=[plugin])
        async with running as scheduler:
            yield cls(scheduler, clock)

    async def rest(self) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self.scheduler.is_idle:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.002)

    async def has_seen_all(self, server: FakeApiServer) -> None:
        """Return once every watch of the scheduler has got what the server has had until now."""
        version = server.send_bookmarks()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self._version_seen() < version:
            assert time.monotonic() < deadline
            server.send_bookmarks()  # a watch may have begun since
            await asyncio.sleep(0.002)

    def _version_seen(self) -> int:
        versions = self.scheduler.resource_versions.values()
        return min((int(version or 0) for version in versions), default=0)

    async def looks_for_quotas_again(self, server: FakeApiServer) -> None:
        """Let so much time pass that the scheduler asks for the kind; wait for the answer."""

        def answers() -> int:
            return sum(request.path == "/apis/example.com/v1" for request in server.requests)

        before, deadline = answers(), time.monotonic() + DEADLINE_SECONDS
        while answers() == before:
            assert time.monotonic() < deadline
            await self.clock.advance(PAUSE_SECONDS)
            await asyncio.sleep(0.002)

    async def until_seen(self, kind: str) -> None:
        """Let time pass until the scheduler follows a kind."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while kind not in self.scheduler.resource_versions or not self.scheduler.is_idle:
            assert time.monotonic() < deadline
            await self.clock.advance(PAUSE_SECONDS)
            await asyncio.sleep(0.01)


async def test_a_config_map_limits_the_pods_of_its_namespace(
    server: FakeApiServer, api: Api, tmp_path: Path
) -> None:
    await api.create(CONFIG_MAPS, {"metadata": {"name": "quota"}, "data": {"pods": "1"}})
    async with Running.of(tmp_path, ConfigMapQuota) as running:
        await api.pod("first")
        assert await api.node_of("first") == "a"
        await api.pod("second")
        message = await api.message_of("second")
        assert message.startswith("0/1 nodes are available: only 1 pods are allowed.")
        await running.rest()
        await api.patch(f"{CONFIG_MAPS}/quota", {"data": {"pods": "2"}})
        await running.has_seen_all(server)
        await running.clock.advance(10.0)
        assert await api.node_of("second") == "a"


async def test_a_kind_may_come_after_the_start(
    server: FakeApiServer, api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Running.of(tmp_path, CustomQuota) as running:
        await api.pod("first")
        assert await api.node_of("first") == "a"  # the missing kind holds nothing back
        await running.rest()
        for _ in range(5):
            await running.looks_for_quotas_again(server)
        lines = [r.getMessage() for r in caplog.records if "quotas" in r.getMessage()]
        assert lines == [
            "quotas.example.com: the API server has no kind quotas.v1.example.com; "
            "trying again until it exists"
        ]
        assert "quotas.v1.example.com" not in running.scheduler.resource_versions
        await _define_quotas(api)
        await _quota(api, 1)
        await running.until_seen("quotas.v1.example.com")
        await api.pod("second")
        message = await api.message_of("second")
        assert message.startswith("0/1 nodes are available: only 1 pods are allowed.")
        await running.rest()
        await api.patch(f"{QUOTAS}/pods", {"spec": {"limit": 2}})
        await running.has_seen_all(server)
        await running.clock.advance(10.0)
        assert await api.node_of("second") == "a"


async def test_a_required_kind_holds_scheduling_back_until_it_exists(
    server: FakeApiServer, api: Api, tmp_path: Path
) -> None:
    async with Running.of(tmp_path, RequiredQuota) as running:
        await api.pod("first")
        await running.has_seen_all(server)
        for _ in range(2):
            await running.looks_for_quotas_again(server)
        assert not running.scheduler.is_idle
        assert "nodeName" not in (await api.get(f"{PODS}/first"))["spec"]
        await _define_quotas(api)
        await _quota(api, 1)
        await running.until_seen("quotas.v1.example.com")
        assert await api.node_of("first") == "a"


async def test_a_kind_that_is_deleted_and_defined_again_is_followed(
    server: FakeApiServer, api: Api, tmp_path: Path
) -> None:
    await _define_quotas(api)
    await _quota(api, 0)
    async with Running.of(tmp_path, CustomQuota) as running:
        await api.pod("first")
        assert "only 0 pods" in await api.message_of("first")
        await api.delete(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/quotas.example.com"
        )
        await running.looks_for_quotas_again(server)
        assert await api.node_of("first") == "a"  # the quota was deleted with its kind
        await _define_quotas(api)
        await _quota(api, 1)
        await running.until_seen("quotas.v1.example.com")
        await api.pod("second")
        assert "only 1 pods" in await api.message_of("second")


async def test_a_kind_that_is_forbidden_is_named_with_the_rule_to_grant(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    users = {"root": User("root", ("system:masters",)), "ours": User("system:kube-scheduler")}
    security = Security(tokens=users, authorization_mode="RBAC")
    async with FakeApiServer(security=security) as server:
        kubeconfig = tmp_path / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        document["users"][0]["user"] = {"token": "ours"}
        kubeconfig.write_text(yaml.safe_dump(document), encoding="utf-8")
        async with Running.of(tmp_path, ConfigMapQuota) as running, Api.of(server, "root") as api:
            await api.node("a")
            await api.pod("first")
            assert await api.node_of("first") == "a"
            await running.clock.advance(PAUSE_SECONDS)
    lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert lines == [
        'configmaps: configmaps is forbidden: User "system:kube-scheduler" cannot list resource '
        '"configmaps" in API group "" at the cluster scope; grant the scheduler a role with the '
        'rule {apiGroups: [""], resources: ["configmaps"], verbs: ["list", "watch"]}'
    ]


async def test_a_process_reads_custom_objects_that_come_after_its_start(
    server: FakeApiServer, api: Api, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": {"kubeconfig": str(tmp_path / "kubeconfig")},
            }
        ),
        encoding="utf-8",
    )
    plugins = ("ConfigMapQuota", "CustomQuota")
    flags = [f"--plugin=tests.integration.quota_plugins:{name}" for name in plugins]
    command = ("-m", "scheduler", "--secure-port=0", f"--config={config}", *flags)
    await api.create(CONFIG_MAPS, {"metadata": {"name": "quota"}, "data": {"pods": "2"}})
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        await api.pod("first")
        assert await api.node_of("first") == "a"
        watchers = server.statistics().watchers
        await _define_quotas(api)
        await _quota(api, 1)

        async def followed() -> str:
            return "yes" if server.statistics().watchers > watchers else ""

        await eventually(followed)
        await api.pod("second")
        assert "only 1 pods are allowed" in await api.message_of("second")
        await api.patch(f"{QUOTAS}/pods", {"spec": {"limit": 5}})
        assert await api.node_of("second") == "a"
        await api.pod("third")
        assert "only 2 pods are allowed" in await api.message_of("third")
    finally:
        process.terminate()
        await process.wait()
