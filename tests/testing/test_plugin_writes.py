"""Plugins write labels, annotations and objects of any kind; the fakes record it."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fakeapi import FakeApiServer
from scheduler.api.core import Pod
from scheduler.assembly.build import Outside
from scheduler.assembly.core import SchedulerOptions
from scheduler.assembly.in_memory_api import InMemoryApi
from scheduler.assembly.shadow import ShadowOptions
from scheduler.client import connection_to
from scheduler.client.errors import WriteRefused
from scheduler.config import default_config
from scheduler.framework import CycleState, Plugin, PodInfo
from scheduler.framework.handle import ApiWriter, ObjectNotFoundError, WriteConflictError
from scheduler.plugins import SCHEME
from scheduler.reports.decision import result_of
from scheduler.testing import FakeHandle, Simulation, VirtualClock, make_node, make_plugin, make_pod

CONFIG_MAPS = "configmaps.v1"


def config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class Indexes(Plugin):
    """Writes the index of a GPU into the pod, and a ConfigMap for each pod."""

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        api = self.handle.api
        await api.patch_pod(pod.pod, labels={"old": None}, annotations={"gpu-index": "3"})
        await api.client(CONFIG_MAPS).create(config_map(pod.name, node=node_name))


class Meddles(Plugin):
    """Tries every request of a client, and notes what comes back."""

    answers: list[object]

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        client, answers = self.handle.api.client(CONFIG_MAPS), type(self).answers
        created = await client.create(config_map("m", a="1", b="2"))
        changed = await client.patch("m", {"data": {"a": None}}, namespace="default")
        answers.append(changed["data"])
        stale = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}}
        for patch, name in ((stale, "m"), ({}, "none")):
            try:
                await client.patch(name, patch, namespace="default")
            except (WriteConflictError, ObjectNotFoundError) as error:
                answers.append(type(error))
        answers.append((await client.get("m", namespace="default"))["data"])
        answers.extend([await client.delete("m", namespace="default") for _ in range(2)])
        try:
            await client.get("m", namespace="default")
        except ObjectNotFoundError as error:
            answers.append(str(error))


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer(clock=VirtualClock(), seed=1) as running:
        yield running


async def test_a_plugin_writes_pods_and_objects(server: FakeApiServer) -> None:
    async with Simulation(server, plugins=[Indexes]) as simulation:
        await simulation.create(make_node("a"), make_pod("p", labels={"old": "x", "app": "web"}))
        await simulation.idle()
        pod = await simulation.pod("p")
        assert (pod.spec.node_name, pod.metadata.labels) == ("a", {"app": "web"})
        assert pod.metadata.annotations == {"gpu-index": "3"}
        writes = [each for each in simulation.writes if not each.path.endswith("/status")]
        assert [(each.method, each.path, each.status) for each in writes] == [
            ("PATCH", "/api/v1/namespaces/default/pods/p", 200),
            ("POST", "/api/v1/namespaces/default/configmaps", 201),
            ("POST", "/api/v1/namespaces/default/pods/p/binding", 201),
        ]
        assert json.loads(writes[1].body)["data"] == {"node": "a"}


async def test_a_client_reads_changes_and_deletes(server: FakeApiServer) -> None:
    Meddles.answers = []
    async with Simulation(server, plugins=[Meddles]) as simulation:
        await simulation.create(make_node("a"), make_pod("p"))
        await simulation.idle()
    assert Meddles.answers == [
        {"b": "2"},
        WriteConflictError,
        ObjectNotFoundError,
        {"b": "2"},
        True,
        False,
        'configmaps "m" not found',
    ]


async def test_a_fake_handle_records_writes() -> None:
    handle = FakeHandle()
    plugin = make_plugin(Indexes, handle=handle)
    await plugin.pre_bind(CycleState(), PodInfo(make_pod("p", labels={"old": "x"})), "a")
    patch, created = handle.api.written
    changes = {"labels": {"old": None}, "annotations": {"gpu-index": "3"}}
    assert patch == ("patch", "pods", "default/p", {"metadata": changes})
    assert created == ("create", CONFIG_MAPS, "default/p", config_map("p", node="a"))
    client = handle.api.client(CONFIG_MAPS)
    await client.patch("p", {"data": {"node": None, "gpu": "3"}}, namespace="default")
    assert (await client.get("p", namespace="default"))["data"] == {"gpu": "3"}
    handle.api.failure = WriteRefused("no")
    with pytest.raises(WriteRefused):
        await client.delete("p", namespace="default")


async def test_a_fake_pod_is_changed_or_gone() -> None:
    handle, pod = FakeHandle(), make_pod("p", labels={"old": "x"})
    changed: Pod = await handle.api.patch_pod(pod, labels={"old": None, "new": "y"})
    assert changed.metadata.labels == {"new": "y"}
    handle.api.gone.add("default/p")
    with pytest.raises(ObjectNotFoundError):
        await handle.api.patch_pod(pod)


async def test_shadow_mode_sends_no_write_of_a_plugin(server: FakeApiServer) -> None:
    clock, sent = VirtualClock(), [0]
    connection = connection_to(server.url)
    options = SchedulerOptions(shadow=ShadowOptions())
    outside = Outside(default_config(SCHEME), connection, options, clock=clock)
    api: ApiWriter = outside.dispatcher
    with server.listening(on_request=lambda request: sent.append(request.method != "GET")):
        async with outside.client:
            for write in (
                api.patch_pod(make_pod("p"), labels={"a": "b"}),
                api.client(CONFIG_MAPS).create(config_map("m")),
                api.client(CONFIG_MAPS).patch("m", {}, namespace="default"),
                api.client(CONFIG_MAPS).delete("m", namespace="default"),
            ):
                with pytest.raises(WriteRefused, match="this process only reads"):
                    await write
    assert sum(sent) == 0


def test_explain_refuses_what_a_plugin_writes() -> None:
    api = InMemoryApi(VirtualClock())
    client, pod = api.client(CONFIG_MAPS), make_pod("p")
    api.put("pods", pod)
    for write in (
        api.patch_pod(pod, labels={"a": "b"}),
        client.create(config_map("m")),
        client.patch("m", {}, namespace="default"),
        client.delete("m", namespace="default"),
    ):
        with pytest.raises(WriteRefused, match="not sent, this process only reads"):
            result_of(write)
    assert result_of(api.client(Pod).get("p", namespace="default"))["metadata"]["name"] == "p"
    with pytest.raises(ObjectNotFoundError):
        result_of(client.get("m", namespace="default"))
    with pytest.raises(ValueError, match="did you mean"):
        api.client("configmaps")
