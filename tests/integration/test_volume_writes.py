"""Writes of volumes and claims over real HTTP. Decisions are in the conformance suite's cases."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fakeapi import FakeApiServer
from scheduler.api.volumes import bound_to_claim, with_selected_node
from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.client import Conflict, RestClient, connect
from scheduler.client.kinds import KINDS
from scheduler.testing import VirtualClock
from tests.integration.storage_and_devices import CLAIMS, NOTE, VOLUMES, Storage


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    async with FakeApiServer() as server, Storage.of(server) as storage:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        assert isinstance(storage, Storage)
        await storage.local_volume("disk-a", "a")
        await storage.claim("data", "made")
        yield storage


@pytest.fixture
async def client(storage: Storage, tmp_path: Path) -> AsyncIterator[RestClient]:
    clock = VirtualClock()
    connection = connect(kubeconfig=str(tmp_path / "kubeconfig"), clock=clock)
    async with RestClient(connection, user_agent="kubesched/test", clock=clock) as client:
        yield client


async def test_a_concurrent_change_is_not_overwritten(storage: Storage, client: RestClient) -> None:
    dispatcher = ApiDispatcher(client, VirtualClock())
    volume = await client.get(KINDS["persistentvolumes"], "disk-a")
    claim = await client.get(KINDS["persistentvolumeclaims"], "data", namespace="default")
    for path in (f"{VOLUMES}/disk-a", f"{CLAIMS}/data"):
        await storage.patch(path, {"metadata": {"labels": {"changed": "yes"}}})
    with pytest.raises(Conflict) as refused:
        await dispatcher.update_persistent_volume(bound_to_claim(volume, claim)[0])
    assert str(refused.value) == (
        'Operation cannot be fulfilled on persistentvolumes "disk-a": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )
    with pytest.raises(Conflict):
        await dispatcher.update_persistent_volume_claim(with_selected_node(claim, "a"))
    assert "claimRef" not in (await storage.get(f"{VOLUMES}/disk-a"))["spec"]


async def test_fields_that_the_scheduler_does_not_read_survive_its_writes(
    storage: Storage, client: RestClient
) -> None:
    dispatcher = ApiDispatcher(client, VirtualClock())
    volume = await client.get(KINDS["persistentvolumes"], "disk-a")
    claim = await client.get(KINDS["persistentvolumeclaims"], "data", namespace="default")
    await dispatcher.update_persistent_volume(bound_to_claim(volume, claim)[0])
    written = await storage.get(f"{VOLUMES}/disk-a")
    assert written["spec"]["mountOptions"] == ["noatime"]
    assert written["spec"]["local"] == {"path": "/mnt/disk"}
    assert written["metadata"]["annotations"] == {
        **NOTE,
        "pv.kubernetes.io/bound-by-controller": "yes",
    }
    uid = (await storage.get(f"{CLAIMS}/data"))["metadata"]["uid"]
    kept_for = await storage.kept_for("disk-a")
    assert (kept_for["kind"], kept_for["name"], kept_for["uid"]) == (
        "PersistentVolumeClaim",
        "data",
        uid,
    )
