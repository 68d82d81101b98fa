"""Volumes bound over real HTTP; the test plays the volume controller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from fakeapi import FakeApiServer
from scheduler.api.volumes import bound_to_claim, with_selected_node
from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.client import Conflict, RestClient, connect
from scheduler.client.kinds import KINDS
from scheduler.testing import VirtualClock
from scheduler.testing.in_process import RunningScheduler, run_in_process
from tests.integration.api_client import PODS, Api, eventually

DEADLINE_SECONDS = 20.0
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
BOUND_BY = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NOTE = {"note": "of no concern to a scheduler"}


class Storage(Api):
    """An API server with two classes, and the actions of a volume controller."""

    async def with_classes(self) -> Storage:
        for name, provisioner in (
            ("local", "kubernetes.io/no-provisioner"),
            ("made", "disks.example.com"),
        ):
            body = {
                "metadata": {"name": name},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            }
            await self.create(CLASSES, body)
        return self

    async def local_volume(self, name: str, node: str, size: str = "1Gi") -> None:
        """A disk of a node, available to any claim."""
        hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/mnt/disk"},
            "persistentVolumeReclaimPolicy": "Retain",
            "mountOptions": ["noatime"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        }
        await self.create(VOLUMES, {"metadata": {"name": name, "annotations": NOTE}, "spec": spec})
        await self.patch_status(f"{VOLUMES}/{name}", {"phase": "Available"})

    async def claim(self, name: str, storage_class: str, size: str = "1Gi") -> None:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        }
        await self.create(CLAIMS, {"metadata": {"name": name, "annotations": NOTE}, "spec": spec})

    async def pod_with(self, name: str, claim: str, **spec: object) -> None:
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
        await self.pod(name, volumes=[volume], **spec)

    async def finish_binding(self, claim: str, volume: str) -> None:
        """As the volume controller, complete the binding once a volume is reserved for a claim."""
        patch = {
            "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": volume},
        }
        await self.patch(f"{CLAIMS}/{claim}", patch)

    async def patch(self, path: str, patch: dict[str, object]) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        url = self._server.url + path
        async with self._session.patch(url, json=patch, headers=headers) as answer:
            assert answer.status == 200, await answer.text()

    async def kept_for(self, volume: str) -> dict[str, object]:
        """Return the claim that a volume is reserved for, once it is."""

        async def kept() -> str:
            return (await self.get(f"{VOLUMES}/{volume}"))["spec"].get("claimRef", "")

        return await eventually(kept)  # type: ignore[return-value]

    async def events(self, reason: str) -> list[dict]:
        return [e for e in (await self.get(EVENTS))["items"] if e["reason"] == reason]


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Storage]:
    async with FakeApiServer() as server, Storage.of(server) as api:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        assert isinstance(api, Storage)
        for name in ("a", "b"):
            await api.node(name, **{"kubernetes.io/hostname": name})
        yield await api.with_classes()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def scheduler(
    api: Storage, tmp_path: Path, clock: VirtualClock
) -> AsyncIterator[RunningScheduler]:
    async with run_in_process(kubeconfig=tmp_path / "kubeconfig", clock=clock) as scheduler:
        yield scheduler
        await at_rest(scheduler)
        scheduler.check()


async def at_rest(scheduler: RunningScheduler) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not scheduler.is_idle:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.002)


async def while_time_passes(
    clock: VirtualClock, done: Callable[[], Awaitable[object]], *, at_most_seconds: int
) -> int:
    """Advance the clock until a condition holds; return the seconds."""
    for seconds in range(at_most_seconds + 1):
        if await done():
            return seconds
        await clock.advance(1.0)
        await asyncio.sleep(0.005)
    raise AssertionError(f"not within {at_most_seconds} seconds")


def is_bound(api: Storage, name: str) -> Callable[[], Awaitable[object]]:
    async def bound() -> object:
        return (await api.get(f"{PODS}/{name}"))["spec"].get("nodeName")

    return bound


async def test_a_pod_is_bound_once_the_controller_has_bound_its_volume(
    api: Storage, scheduler: RunningScheduler, clock: VirtualClock
) -> None:
    await api.local_volume("disk-b", "b")
    await api.claim("data", "local")
    await api.pod_with("db", "data")
    reference = await api.kept_for("disk-b")
    claim = await api.get(f"{CLAIMS}/data")
    assert reference["uid"] == claim["metadata"]["uid"]
    assert (reference["kind"], reference["name"]) == ("PersistentVolumeClaim", "data")
    assert reference["apiVersion"] == "v1"
    volume = await api.get(f"{VOLUMES}/disk-b")
    assert volume["metadata"]["annotations"] == {**NOTE, BOUND_BY: "yes"}
    assert volume["spec"]["mountOptions"] == ["noatime"]
    assert volume["spec"]["local"] == {"path": "/mnt/disk"}
    for _ in range(30):
        await clock.advance(1.0)
    assert not await is_bound(api, "db")()
    assert (await api.get(f"{PODS}/db"))["status"]["nominatedNodeName"] == "b"
    await api.finish_binding("data", "disk-b")
    await while_time_passes(clock, is_bound(api, "db"), at_most_seconds=5)
    assert await api.node_of("db") == "b"


async def test_a_volume_is_made_where_the_pod_goes(
    api: Storage, scheduler: RunningScheduler, clock: VirtualClock
) -> None:
    await api.claim("data", "made")
    await api.pod_with("db", "data", nodeSelector={"kubernetes.io/hostname": "b"})

    async def selected() -> str:
        notes = (await api.get(f"{CLAIMS}/data"))["metadata"]["annotations"]
        return notes.get(SELECTED_NODE, "")

    assert await eventually(selected) == "b"
    claim = await api.get(f"{CLAIMS}/data")
    assert claim["metadata"]["annotations"]["note"] == NOTE["note"]
    await api.local_volume("made-b", "b")
    await api.finish_binding("data", "made-b")
    await while_time_passes(clock, is_bound(api, "db"), at_most_seconds=5)
    assert await api.node_of("db") == "b"


async def test_two_pods_do_not_get_one_volume(
    api: Storage, scheduler: RunningScheduler, clock: VirtualClock
) -> None:
    await api.local_volume("disk-a", "a")
    for name in ("one", "two"):
        await api.claim(name, "local")
        await api.pod_with(name, name)
    first = str((await api.kept_for("disk-a"))["name"])
    second = "two" if first == "one" else "one"
    assert await api.message_of(second) == (
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. "
        "no new claims to deallocate, preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling."
    )
    await api.local_volume("disk-b", "b")
    await while_time_passes(clock, lambda: kept(api, "disk-b"), at_most_seconds=20)
    assert (await api.kept_for("disk-b"))["name"] == second


async def kept(api: Storage, volume: str) -> object:
    return (await api.get(f"{VOLUMES}/{volume}"))["spec"].get("claimRef")


async def test_a_binding_that_takes_too_long_is_given_up_and_tried_again(
    api: Storage, scheduler: RunningScheduler, clock: VirtualClock
) -> None:
    await api.local_volume("disk-a", "a")
    await api.claim("data", "local")
    await api.pod_with("db", "data")
    await api.kept_for("disk-a")

    async def failed() -> object:
        return await api.events("FailedScheduling")

    seconds = await while_time_passes(clock, failed, at_most_seconds=620)
    assert 598 <= seconds <= 605
    (event,) = await api.events("FailedScheduling")
    assert event["note"] == (
        'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    )
    await api.finish_binding("data", "disk-a")
    await while_time_passes(clock, is_bound(api, "db"), at_most_seconds=30)
    assert await api.node_of("db") == "a"


async def test_a_claim_to_be_bound_at_once_is_waited_for(
    api: Storage, scheduler: RunningScheduler, clock: VirtualClock
) -> None:
    immediate = {"provisioner": "disks.example.com", "volumeBindingMode": "Immediate"}
    await api.create(CLASSES, {"metadata": {"name": "now"}, **immediate})
    await api.claim("data", "now")
    await api.pod_with("db", "data")
    message = await api.message_of("db")
    assert message.startswith(
        "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    )
    await api.local_volume("made-a", "a")
    await api.finish_binding("data", "made-a")
    await while_time_passes(clock, is_bound(api, "db"), at_most_seconds=30)
    assert await api.node_of("db") == "a"


async def test_a_concurrent_change_is_not_overwritten(
    api: Storage, tmp_path: Path, clock: VirtualClock
) -> None:
    await api.local_volume("disk-a", "a")
    await api.claim("data", "made")
    connection = connect(kubeconfig=str(tmp_path / "kubeconfig"), clock=clock)
    async with RestClient(connection, user_agent="kubesched/test", clock=clock) as client:
        dispatcher = ApiDispatcher(client, clock)
        volume = await client.get(KINDS["persistentvolumes"], "disk-a")
        claim = await client.get(KINDS["persistentvolumeclaims"], "data", namespace="default")
        for path in (f"{VOLUMES}/disk-a", f"{CLAIMS}/data"):
            await api.patch(path, {"metadata": {"labels": {"changed": "yes"}}})
        with pytest.raises(Conflict) as refused:
            await dispatcher.update_persistent_volume(bound_to_claim(volume, claim)[0])
        assert str(refused.value) == (
            'Operation cannot be fulfilled on persistentvolumes "disk-a": the object has been '
            "modified; please apply your changes to the latest version and try again"
        )
        with pytest.raises(Conflict):
            await dispatcher.update_persistent_volume_claim(with_selected_node(claim, "a"))
        assert not await kept(api, "disk-a")
