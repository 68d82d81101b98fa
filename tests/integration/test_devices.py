"""Devices over real HTTP: claims are written, shared, waited for and given back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fakeapi import FakeApiServer
from scheduler.testing import VirtualClock
from scheduler.testing.in_process import RunningScheduler, run_in_process
from tests.integration.api_client import PODS, Api, eventually

DEADLINE_SECONDS = 20.0
GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
FINALIZER = "resource.kubernetes.io/delete-protection"
READY = "example.com/ready"


class Devices(Api):
    """An API server with a class of devices, and the actions of a driver."""

    async def device_class(self, name: str = "gpu", **spec: object) -> None:
        await self.create(f"{GROUP}/deviceclasses", {"metadata": {"name": name}, "spec": spec})

    async def slice(self, node: str, *names: str, **device: object) -> None:
        spec = {
            "driver": "gpu.example.com",
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": [{"name": name, **device} for name in names],
        }
        await self.create(f"{GROUP}/resourceslices", {"metadata": {"name": node}, "spec": spec})

    async def claim(self, name: str, count: int = 1, **exactly: object) -> None:
        exactly = {
            "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **exactly
        }  # fmt: skip
        parameters = {"driver": "gpu.example.com", "parameters": {"mode": "fast", "x": {"y": 1}}}
        devices = {
            "requests": [{"name": "r", "exactly": exactly}],
            "config": [{"opaque": parameters}],
        }
        await self.create(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": devices}})

    async def pod_with(self, name: str, claim: str, **spec: object) -> None:
        entry = {"name": "devices", "resourceClaimName": claim}
        await self.pod(name, cpu="100m", resourceClaims=[entry], **spec)

    async def status_of(self, claim: str) -> dict[str, Any]:
        return (await self.get(f"{CLAIMS}/{claim}")).get("status", {})


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Devices]:
    async with FakeApiServer() as server, Devices.of(server) as api:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        assert isinstance(api, Devices)
        for name in ("a", "b"):
            await api.node(name)
        yield api


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def scheduler(
    api: Devices, tmp_path: Path, clock: VirtualClock
) -> AsyncIterator[RunningScheduler]:
    async with run_in_process(kubeconfig=tmp_path / "kubeconfig", clock=clock) as scheduler:
        yield scheduler
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not scheduler.is_idle:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.002)
        scheduler.check()


async def while_time_passes(clock: VirtualClock, api: Devices, pod: str) -> str:
    """Advance the clock until a pod has a node; return it."""
    for _ in range(200):
        if node := (await api.get(f"{PODS}/{pod}"))["spec"].get("nodeName"):
            return str(node)
        await clock.advance(1.0)
        await asyncio.sleep(0.01)
    raise AssertionError(f"{pod} has no node")


async def test_a_claim_is_written_before_its_pod_is_bound(
    api: Devices, scheduler: RunningScheduler
) -> None:
    await api.device_class(config=[{"opaque": {"driver": "gpu.example.com", "parameters": {}}}])
    await api.slice("b", "gpu-0", "gpu-1", attributes={"model": {"string": "a100"}})
    expression = 'device.attributes["gpu.example.com"].model == "a100"'
    await api.claim("mine", 2, selectors=[{"cel": {"expression": expression}}])
    await api.pod_with("one", "mine")
    assert await api.node_of("one") == "b"
    claim = await api.get(f"{CLAIMS}/mine")
    pod = await api.get(f"{PODS}/one")
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    status = claim["status"]
    assert status["reservedFor"] == [
        {"resource": "pods", "name": "one", "uid": pod["metadata"]["uid"]}
    ]
    allocation = status["allocation"]
    assert [r["device"] for r in allocation["devices"]["results"]] == ["gpu-0", "gpu-1"]
    sources = [config["source"] for config in allocation["devices"]["config"]]
    assert sources == ["FromClass", "FromClaim"]
    parameters = allocation["devices"]["config"][1]["opaque"]["parameters"]
    assert parameters == {"mode": "fast", "x": {"y": 1}}
    assert allocation["allocationTimestamp"]
    terms = allocation["nodeSelector"]["nodeSelectorTerms"]
    assert terms == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]


async def test_a_shared_claim_keeps_pods_together_and_a_device_is_given_once(
    api: Devices, scheduler: RunningScheduler
) -> None:
    await api.device_class()
    await api.slice("a", "gpu-0")
    await api.claim("shared")
    await api.claim("late")
    await api.pod_with("first", "shared")
    await api.pod_with("second", "shared")
    assert await api.node_of("first") == await api.node_of("second") == "a"
    users = {user["name"] for user in (await api.status_of("shared"))["reservedFor"]}
    assert users == {"first", "second"}
    await api.pod_with("third", "late")
    assert "cannot allocate all claims" in await api.message_of("third")
    await api.slice("b", "gpu-0")
    assert await api.node_of("third") == "b"


async def test_devices_that_were_given_back_help_waiting_pods(
    api: Devices, scheduler: RunningScheduler, clock: VirtualClock
) -> None:
    await api.device_class()
    await api.slice("a", "gpu-0")
    await api.claim("first")
    await api.claim("second")
    await api.pod_with("one", "first")
    assert await api.node_of("one") == "a"
    await api.pod_with("two", "second")
    await api.message_of("two")
    await api.patch_status(f"{CLAIMS}/first", {"allocation": None, "reservedFor": None})
    assert await while_time_passes(clock, api, "two") == "a"


async def test_a_pod_waits_until_its_devices_are_ready(
    api: Devices, scheduler: RunningScheduler, clock: VirtualClock
) -> None:
    await api.device_class()
    await api.slice("a", "gpu-0", bindingConditions=[READY], bindingFailureConditions=["failed"])
    await api.claim("mine")
    await api.pod_with("one", "mine")

    async def reserved() -> str:
        return "yes" if (await api.status_of("mine")).get("reservedFor") else ""

    await eventually(reserved)
    await asyncio.sleep(0.1)
    assert "nodeName" not in (await api.get(f"{PODS}/one"))["spec"]
    condition = {
        "type": READY, "status": "True", "reason": "Done", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    device = {"driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
    await api.patch_status(f"{CLAIMS}/mine", {"devices": [{**device, "conditions": [condition]}]})
    assert await while_time_passes(clock, api, "one") == "a"
    assert (await api.status_of("mine"))["devices"][0]["conditions"][0]["reason"] == "Done"


async def test_devices_provide_an_extended_resource(
    api: Devices, scheduler: RunningScheduler, clock: VirtualClock
) -> None:
    await api.device_class(extendedResourceName="example.com/gpu")
    await api.slice("b", "gpu-0", "gpu-1")
    resources = {"requests": {"example.com/gpu": "2"}, "limits": {"example.com/gpu": "2"}}
    container = {"name": "c", "image": "app:v1", "resources": resources}
    await api.create(PODS, {"metadata": {"name": "one"}, "spec": {"containers": [container]}})
    assert await while_time_passes(clock, api, "one") == "b"
    pod = await api.get(f"{PODS}/one")
    found = pod["status"]["extendedResourceClaimStatus"]
    assert found["requestMappings"] == [
        {
            "containerName": "c",
            "resourceName": "example.com/gpu",
            "requestName": "container-0-request-0",
        }
    ]
    claim = await api.get(f"{CLAIMS}/{found['resourceClaimName']}")
    assert claim["metadata"]["name"].startswith("one-extended-resources-")
    assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    results = claim["status"]["allocation"]["devices"]["results"]
    assert [result["device"] for result in results] == ["gpu-0", "gpu-1"]
