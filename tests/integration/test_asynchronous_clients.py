"""kubernetes_asyncio and kr8s, unmodified, each test against a server of its own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fakeapi import ServerOptions
from fakeapi.faults import DropWatches, Expire, Fault, Match, When
from fakeapi.pytest_plugin import FakeApi

from .clients import PATIENCE_SECONDS

asyncio_client = pytest.importorskip("kubernetes_asyncio")
kr8s = pytest.importorskip("kr8s")
as_sync_func = pytest.importorskip("kr8s._async_utils").as_sync_func
kr8s_asyncio = pytest.importorskip("kr8s.asyncio")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.fake_api(options=ServerOptions(requests_kept=1000)),
    # kr8s opens the kubeconfig without a word on its encoding; the warning is meant for our code.
    pytest.mark.filterwarnings("ignore:'encoding' argument not specified:EncodingWarning"),
    # It knows versions by their numbers, and is older than this one.
    pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning"),
]

WATCHES = Match(verb="watch", resource="pods")


@pytest.fixture(autouse=True)
def authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have kr8s' HTTP client read the machine's authorities: it accepts no file without any."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)


DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "one"}]},
        },
    },
}


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }


# kubernetes_asyncio


@pytest.fixture
async def core(fake_api: FakeApi) -> AsyncIterator[Any]:
    """The core group, as a program with a kubeconfig gets it."""
    settings = asyncio_client.client.Configuration()
    await asyncio_client.config.load_kube_config(
        config_file=str(fake_api.kubeconfig), client_configuration=settings
    )
    async with asyncio_client.client.ApiClient(settings) as opened:
        yield asyncio_client.client.CoreV1Api(opened)


async def take(events: Any, count: int) -> list[tuple[str, str]]:
    """Type and name of the next few events."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        seen = [await anext(events) for _ in range(count)]
    return [(event["type"], event["object"].metadata.name) for event in seen]


async def test_asyncio_objects_are_listed_patched_replaced_and_deleted(
    fake_api: FakeApi, core: Any
) -> None:
    where = fake_api.namespace
    for name in ("a", "b", "c"):
        await core.create_namespaced_pod(where, pod(name, labels={"name": name}))
    page = await core.list_namespaced_pod(where, limit=2)
    rest = await core.list_namespaced_pod(where, limit=2, _continue=page.metadata._continue)
    assert [item.metadata.name for item in page.items + rest.items] == ["a", "b", "c"]
    chosen = await core.list_namespaced_pod(where, label_selector="name in (a, c)")
    assert [item.metadata.name for item in chosen.items] == ["a", "c"]
    patched = await core.patch_namespaced_pod("a", where, {"metadata": {"labels": {"x": "1"}}})
    assert patched.metadata.labels == {"name": "a", "x": "1"}
    patched.metadata.labels = {"y": "2"}
    replaced = await core.replace_namespaced_pod("a", where, patched)
    assert replaced.metadata.labels == {"y": "2"}
    with pytest.raises(asyncio_client.client.ApiException) as caught:
        await core.replace_namespaced_pod("a", where, patched)
    assert caught.value.status == 409
    await core.delete_namespaced_pod("a", where)
    with pytest.raises(asyncio_client.client.ApiException) as caught:
        await core.read_namespaced_pod("a", where)
    assert (caught.value.status, caught.value.reason) == (404, "Not Found")


async def test_asyncio_watches_see_changes_and_come_back(fake_api: FakeApi, core: Any) -> None:
    where = fake_api.namespace
    async with asyncio_client.watch.Watch().stream(core.list_namespaced_pod, where) as events:
        await core.create_namespaced_pod(where, pod("a"))
        assert await take(events, 1) == [("ADDED", "a")]
        fault = Fault(match=WATCHES, drop_watches=DropWatches())
        fake_api.server.call(lambda server: server.faults.add(fault))
        await core.patch_namespaced_pod("a", where, {"metadata": {"labels": {"x": "1"}}})
        await core.delete_namespaced_pod("a", where)
        assert (await take(events, 2))[0] == ("MODIFIED", "a")


async def test_asyncio_watches_try_once_more_after_a_410(fake_api: FakeApi, core: Any) -> None:
    where = fake_api.namespace
    await core.create_namespaced_pod(where, pod("a"))
    fault = Fault(match=WATCHES, when=When(nth=1), expire=Expire())
    fake_api.server.call(lambda server: server.faults.add(fault))
    version = (await core.list_namespaced_pod(where)).metadata.resource_version
    watcher = asyncio_client.watch.Watch()
    await core.create_namespaced_pod(where, pod("b"))
    stream = watcher.stream(core.list_namespaced_pod, where, resource_version=version)
    async with stream as events:
        assert await take(events, 1) == [("ADDED", "b")]
    stream = watcher.stream(core.list_namespaced_pod, where, resource_version="1")
    with pytest.raises(asyncio_client.client.ApiException) as caught:
        await take(stream, 1)
    assert caught.value.status == 410


async def test_asyncio_watches_end_in_time(fake_api: FakeApi, core: Any) -> None:
    where = fake_api.namespace
    await core.create_namespaced_pod(where, pod("a"))
    watcher = asyncio_client.watch.Watch()
    stream = watcher.stream(core.list_namespaced_pod, where, timeout_seconds=1)
    assert [event["object"].metadata.name async for event in stream] == ["a"]


# kr8s


@pytest.fixture
async def api(fake_api: FakeApi) -> AsyncIterator[Any]:
    """A client of kr8s, which has no way of its own to close its connections."""
    opened = await kr8s_asyncio.api(
        kubeconfig=str(fake_api.kubeconfig), namespace=fake_api.namespace
    )
    yield opened
    await opened._session.aclose()


async def test_kr8s_objects_are_created_labelled_scaled_and_deleted(api: Any) -> None:
    deployment = await kr8s_asyncio.objects.Deployment(DEPLOYMENT, api=api)
    assert not await deployment.exists()
    await deployment.create()
    await deployment.label(team="x")
    await deployment.annotate(note="y")
    await deployment.scale(3)
    found = [item async for item in api.get("deployments", label_selector={"team": "x"})]
    assert [(item.name, item.replicas, item.annotations.note) for item in found] == [
        ("web", 3, "y")
    ]
    await deployment.remove_label("team")
    assert "team" not in deployment.labels
    await deployment.delete()
    assert not await deployment.exists()
    with pytest.raises(kr8s.NotFoundError):
        await deployment.refresh()


async def test_kr8s_waits_for_conditions_and_deletion(api: Any) -> None:
    created = await kr8s_asyncio.objects.Pod(pod("p"), api=api)
    await created.create()
    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
        ready = group.create_task(created.wait("condition=Ready"))
        conditions = [{"type": name, "status": "True"} for name in ("Ready", "ContainersReady")]
        status = {"status": {"phase": "Running", "conditions": conditions}}
        other = await kr8s_asyncio.objects.Pod.get("p", api=api)
        await other.patch(status, subresource="status")
        await ready
        assert await created.ready()
        gone = group.create_task(created.wait("delete"))
        await other.delete(grace_period=0)
        await gone
    assert not await created.exists()


async def test_kr8s_watches_and_pages(api: Any) -> None:
    for number in range(3):
        await (await kr8s_asyncio.objects.Pod(pod(f"p{number}"), api=api)).create()
    assert len([item async for item in api.get("pods")]) == 3
    assert [item.name async for item in api.get("pods", "p1")] == ["p1"]
    seen = []
    async with contextlib.aclosing(api.watch("pods")) as events:
        async for kind, found in events:
            seen.append((kind, found.name))
            if len(seen) == 3:
                await found.delete()
            if len(seen) > 3 and kind == "DELETED":
                break
    assert seen[:3] == [("ADDED", "p0"), ("ADDED", "p1"), ("ADDED", "p2")]
    assert seen[-1] == ("DELETED", "p2")


async def test_kr8s_cordons_and_taints(api: Any) -> None:
    node = await kr8s_asyncio.objects.Node({"metadata": {"name": "n1"}}, api=api)
    await node.create()
    await node.cordon()
    await node.taint("dedicated", "x", effect="NoSchedule")
    assert node.unschedulable
    assert {taint.key for taint in node.taints} >= {"dedicated"}
    await node.uncordon()
    assert not node.unschedulable


async def test_kr8s_knows_the_server(api: Any) -> None:
    assert (await api.version())["minor"].startswith("36")
    kinds = {resource["kind"] for resource in await api.api_resources()}
    assert kinds >= {"Pod", "Deployment", "CustomResourceDefinition"}


def test_kr8s_works_without_an_event_loop(fake_api: FakeApi) -> None:
    api = kr8s.api(kubeconfig=str(fake_api.kubeconfig), namespace=fake_api.namespace)
    created = kr8s.objects.Pod(pod("p"), api=api)
    created.create()
    created.label(a="1")
    assert [item.labels.a for item in api.get("pods", label_selector="a=1")] == ["1"]
    created.delete()
    assert not created.exists()
    as_sync_func(api._session.aclose)()
