"""The client and the fake API server over real HTTP."""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fakeapi import FakeApiServer, ManualClock, ServerOptions
from scheduler.api.core import Container, Node, ObjectMeta, Pod, PodSpec
from scheduler.client import (
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    EventBroadcaster,
    Expired,
    Informer,
    InformerFactory,
    Invalid,
    ListOptions,
    NotFound,
    RestClient,
    connect,
    connection_to,
)
from scheduler.client.decoding import ObjectDecoder
from scheduler.client.rest import list_in_pages
from scheduler.testing import VirtualClock

#: Real seconds after which something that should happen is taken not to.
PATIENCE_SECONDS = 5.0


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as running:
        yield running


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def client(server: FakeApiServer, clock: VirtualClock) -> AsyncIterator[RestClient]:
    async with RestClient(
        connection_to(server.url), user_agent="kubesched/test", clock=clock, qps=-1
    ) as opened:
        yield opened


def pod(name: str, **labels: str) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", labels=labels),
        spec=PodSpec(containers=(Container(name="c", image="i"),)),
    )


def node(name: str) -> Node:
    return Node(metadata=ObjectMeta(name=name))


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - the condition has no event to wait for
            await asyncio.sleep(0.001)


async def advance_until(
    condition: Callable[[], bool], clock: VirtualClock, server_clock: ManualClock | None = None
) -> None:
    """Let virtual time pass, and real sockets work in between."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await clock.advance(0.5)
            if server_clock is not None:
                server_clock.advance(0.5)
            await asyncio.sleep(0.001)


def names(informer: Informer[Pod]) -> list[str]:
    return sorted(obj.metadata.name for obj in informer.lister.list())


class Listener:
    """The changes that an informer's handler gets, in a few words."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self.changes: list[str] = []
        informer.add_event_handler(
            on_add=lambda obj, *, is_initial: self._record("add", obj),
            on_update=lambda _, obj: self._record("update", obj),
            on_delete=lambda obj, *, final_state_unknown: self._record(
                "lose" if final_state_unknown else "delete", obj
            ),
        )

    def _record(self, verb: str, obj: Pod) -> None:
        where = f" on {obj.spec.node_name}" if obj.spec.node_name else ""
        self.changes.append(f"{verb} {obj.metadata.name}{where}")


@contextlib.asynccontextmanager
async def informed(
    client: RestClient, clock: VirtualClock, *, watch_list: bool = True, field_selector: str = ""
) -> AsyncIterator[tuple[Informer[Pod], Listener]]:
    """A running, synced informer of pods."""
    if not watch_list:
        refuse_watch_lists(client)
    factory = InformerFactory(client, clock=clock, rng=random.Random(1))
    informer = factory.informer(PODS, field_selector=field_selector)
    listener = Listener(informer)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            factory.start(group)

    running = asyncio.create_task(run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await factory.wait_for_sync()
    yield informer, listener
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def refuse_watch_lists(client: RestClient) -> None:
    """Refuse watch-lists, as a server without them does."""
    watch = client.watch

    def refusing(resource: Any, options: ListOptions) -> Any:
        if options.send_initial_events:
            raise Invalid(422, "Invalid", "sendInitialEvents is forbidden")
        return watch(resource, options)

    client.watch = refusing  # type: ignore[method-assign]


def counted_requests(client: RestClient) -> tuple[list[ListOptions], list[ListOptions]]:
    """Return the options of all later watches and lists; the lists are filled as requests come."""
    watch, list_page = client.watch, client.list_page
    watches: list[ListOptions] = []
    lists: list[ListOptions] = []

    def noted_watch(resource: Any, options: ListOptions) -> Any:
        watches.append(options)
        return watch(resource, options)

    def noted_list(resource: Any, options: ListOptions) -> Any:
        lists.append(options)
        return list_page(resource, options)

    client.watch, client.list_page = noted_watch, noted_list  # type: ignore[method-assign]
    return watches, lists


async def create(client: RestClient, resource: Any, obj: Any) -> Any:
    """Create an object; returns it as the server has it."""
    return ObjectDecoder(resource).object(await client.create(resource, obj), url="")


# --- requests ---


async def test_a_created_object_can_be_fetched_listed_and_deleted(client: RestClient) -> None:
    created = await create(client, PODS, pod("p", app="web"))
    fetched = await client.get(PODS, "p", namespace="default")
    listed = await client.list_page(PODS, ListOptions(label_selector="app=web"))
    others = await client.list_page(PODS, ListOptions(label_selector="app!=web"))
    await client.delete(PODS, "p", namespace="default")

    assert created == fetched
    assert created.metadata.uid
    assert (listed.items, others.items) == ([fetched], [])
    with pytest.raises(NotFound, match=r'^pods "p" not found$'):
        await client.get(PODS, "p", namespace="default")


async def test_a_long_list_comes_in_pages_of_one_moment(client: RestClient) -> None:
    for number in range(7):
        await client.create(NODES, node(f"n{number}"))
    first = await client.list_page(NODES, ListOptions(limit=3))
    await client.create(NODES, node("n99"))
    token = first.metadata.continue_token
    second = await client.list_page(NODES, ListOptions(limit=9, continue_token=token))
    listing = await list_in_pages(
        lambda options: client.list_page(NODES, options), ListOptions(), page_size=2
    )

    assert [n.metadata.name for n in first.items + second.items] == [f"n{i}" for i in range(7)]
    assert len(listing.items) == 8
    assert listing.paginated


async def test_a_status_patch_merges_conditions_and_leaves_the_rest(client: RestClient) -> None:
    await client.create(PODS, pod("p"))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    for patch in (
        {"status": {"conditions": [condition]}},
        {"status": {"conditions": [{"type": "PodScheduled", "message": "no"}]}},
        {"status": {"nominatedNodeName": "n1"}},
    ):
        patched = await client.patch(PODS, "p", patch, namespace="default", subresource="status")

    (found,) = patched.status.conditions
    assert (found.status, found.reason, found.message) == ("False", "Unschedulable", "no")
    assert patched.status.nominated_node_name == "n1"
    assert patched.spec.containers[0].name == "c"


# --- binding ---


# --- informers ---


@pytest.mark.parametrize("watch_list", [True, False])
async def test_an_informer_follows_a_pods_life(
    client: RestClient, clock: VirtualClock, watch_list: bool
) -> None:
    await client.create(PODS, pod("a"))
    async with informed(client, clock, watch_list=watch_list) as (informer, listener):
        assert names(informer) == ["a"]
        created = await create(client, PODS, pod("b"))
        await client.bind(created, "n1")
        await client.delete(PODS, "a", namespace="default")
        await eventually(lambda: listener.changes[-1] == "delete a")

    # An unbound pod is marked as deleted, and gone, in one go.
    assert listener.changes == ["add a", "add b", "update b on n1", "update a", "delete a"]


async def test_a_pod_that_leaves_the_selection_is_deleted_from_it(
    client: RestClient, clock: VirtualClock
) -> None:
    created = await create(client, PODS, pod("a"))
    selection = informed(client, clock, field_selector="spec.nodeName=")
    async with selection as (informer, listener):
        await client.bind(created, "n1")
        await eventually(lambda: not informer.lister.list())

    # The object is the last one inside the selection: not bound yet.
    assert listener.changes == ["add a", "delete a"]


async def test_a_watch_that_ran_out_of_time_is_resumed_where_it_was(clock: VirtualClock) -> None:
    server_clock = ManualClock()
    async with (
        FakeApiServer(clock=server_clock) as server,
        RestClient(
            connection_to(server.url), user_agent="kubesched/test", clock=clock, qps=-1
        ) as client,
        informed(client, clock) as (_, listener),
    ):
        watches, lists = counted_requests(client)
        for number in range(3):
            await client.create(PODS, pod(f"p{number}"))
            await eventually(lambda n=number: len(listener.changes) == n + 1)  # type: ignore[misc]
            # Longer than a watch lasts. By the client's own clock it was no short watch.
            clock.advance_nowait(600)
            server_clock.advance(600)
            await eventually(lambda n=number: len(watches) == n + 1)  # type: ignore[misc]

    assert listener.changes == ["add p0", "add p1", "add p2"]
    assert lists == []


async def test_bookmarks_keep_a_quiet_informer_up_to_date(
    client: RestClient, clock: VirtualClock, server: FakeApiServer
) -> None:
    async with informed(client, clock) as (informer, listener):
        for number in range(5):
            await client.create(NODES, node(f"n{number}"))
        version = str(server.send_bookmarks())
        await eventually(lambda: informer.last_resource_version == version)

    assert listener.changes == []


@pytest.mark.slow  # the server gives a watch a second to end
@pytest.mark.parametrize("watch_list", [True, False])
async def test_a_server_with_another_history_is_listed_again(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture, watch_list: bool
) -> None:
    """Versions go on, but the new server does not have the old ones: 410, and a list."""
    caplog.set_level(logging.INFO)
    before = await FakeApiServer().__aenter__()
    async with (
        RestClient(
            connection_to(before.url), user_agent="kubesched/test", clock=clock, qps=-1
        ) as client,
        informed(client, clock, watch_list=watch_list) as (informer, listener),
    ):
        for name in ("a", "b"):
            await client.create(PODS, pod(name))
        await eventually(lambda: len(listener.changes) == 2)
        await before.__aexit__()
        # Refused while the server is away: the client pauses, and does not list.
        await advance_until(lambda: "pods: pausing" in caplog.text, clock)
        async with FakeApiServer(port=before.port) as after:
            await client.create(PODS, pod("b"))
            await client.create(PODS, pod("c"))
            after.compact()
            # The handlers are called after the store was replaced.
            await advance_until(lambda: listener.changes[-1] == "add c", clock)
            assert names(informer) == ["b", "c"]

    assert listener.changes == ["add a", "add b", "lose a", "update b", "add c"]
    assert "began anew" not in caplog.text


@pytest.mark.slow  # the server gives a watch a second to end
@pytest.mark.parametrize("watch_list", [True, False])
async def test_a_server_whose_versions_went_back_is_listed_again(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture, watch_list: bool
) -> None:
    before = await FakeApiServer(
        options=ServerOptions(initial_resource_version=1_000_000)
    ).__aenter__()
    server_clock = ManualClock()
    async with (
        RestClient(
            connection_to(before.url), user_agent="kubesched/test", clock=clock, qps=-1
        ) as client,
        informed(client, clock, watch_list=watch_list) as (informer, _),
    ):
        await client.create(PODS, pod("a"))
        await client.create(NODES, node("n"))  # only a bookmark has this version
        version = str(before.send_bookmarks())
        await eventually(lambda: informer.last_resource_version == version)
        await before.__aexit__()
        restored = FakeApiServer(
            port=before.port, options=ServerOptions(initial_resource_version=10), clock=server_clock
        )
        async with restored:
            await advance_until(lambda: restored.statistics().watchers == 1, clock)
            await client.create(PODS, pod("b"))
            # A watch from the future is taken, and silent for all of its time.
            clock.advance_nowait(600)
            server_clock.advance(600)
            await advance_until(
                lambda: int(informer.last_resource_version) <= restored.resource_version,
                clock,
                server_clock,
            )
            assert names(informer) == ["b"]

    assert caplog.text.count("began anew") == 1


async def test_an_expired_list_is_an_error_of_its_own(
    client: RestClient, server: FakeApiServer
) -> None:
    created = await create(client, NODES, node("n"))
    await client.create(NODES, node("m"))
    server.compact()
    options = ListOptions(
        resource_version=created.metadata.resource_version, resource_version_match="Exact"
    )
    with pytest.raises(Expired):
        await client.list_page(NODES, options)
    with pytest.raises(Expired, match="too old resource version"):
        async for _ in client.watch(NODES, ListOptions(resource_version="1")):
            pass


# --- events ---


async def test_repeated_events_become_a_series_on_the_server(
    client: RestClient, clock: VirtualClock
) -> None:
    created = await create(client, PODS, pod("p"))
    broadcaster = EventBroadcaster(client, clock=clock, rng=random.Random(1))
    recorder = broadcaster.recorder("default-scheduler")
    sending = asyncio.create_task(broadcaster.run())
    for _ in range(2):
        recorder.event(
            created,
            type="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note="0/1 nodes are available",
        )
        await broadcaster.drain()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)

    (event,) = (await client.list_all(EVENTS)).items
    assert event.series is not None
    assert event.series.count == 2
    assert event.note == "0/1 nodes are available"
    assert event.regarding == PODS.reference(created)


async def test_an_event_deleted_meanwhile_is_written_again(
    client: RestClient, clock: VirtualClock
) -> None:
    created = await create(client, PODS, pod("p"))
    broadcaster = EventBroadcaster(client, clock=clock, rng=random.Random(1))
    recorder = broadcaster.recorder("default-scheduler")
    sending = asyncio.create_task(broadcaster.run())
    recorder.event(created, type="Normal", reason="R", action="A", note="n")
    await broadcaster.drain()
    (event,) = (await client.list_all(EVENTS)).items
    await client.delete(EVENTS, event.metadata.name, namespace="default")
    recorder.event(created, type="Normal", reason="R", action="A", note="n")
    await broadcaster.drain()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)

    (again,) = (await client.list_all(EVENTS)).items
    assert again.metadata.name == event.metadata.name
    assert again.series is not None
    assert again.series.count == 2


@pytest.mark.slow  # imports the official client
async def test_a_servers_own_kubeconfig_connects(server: FakeApiServer, tmp_path: Path) -> None:
    path = server.write_kubeconfig(tmp_path / "config")
    clock = VirtualClock()
    connection = connect(clock=clock, kubeconfig=str(path), environ={})
    async with RestClient(connection, user_agent="kubesched/test", clock=clock) as client:
        listing = await client.list_all(NAMESPACES)

    assert "kube-system" in {item.metadata.name for item in listing.items}
