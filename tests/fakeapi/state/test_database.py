"""The database: answered writes are in the file, commits are shared, old rows are deleted."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock, ServerOptions, StateError, StateFiles
from fakeapi.state.database import Database

from ..api_client import ApiClient
from ..custom_resources import DEFINITIONS, WIDGETS, definition, widget
from ..objects import CONFIG_MAPS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, config_map, pod
from ..state_files import PORTS, content_of, cut, everything, serving

LISTS = (PODS, NODES, NAMESPACES, PRIORITY_CLASSES, CONFIG_MAPS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def rows(path: Path) -> list[tuple[int, str, int]]:
    """Return version, resource and deletion of each revision in a file that is not in use."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT version, resource, deleted FROM revisions "
            "JOIN collections ON collection = id ORDER BY version"
        ).fetchall()


@contextlib.asynccontextmanager
async def killed(path: Path, **options: Any) -> AsyncIterator[tuple[FakeApiServer, ApiClient]]:
    """A server that never gets to its end: what it left to do then stays undone."""
    options = {
        "clock": ManualClock(),
        "options": ServerOptions(initial_resource_version=100),
        **options,
    }
    options.setdefault("port", PORTS.get(path, 0))
    server = FakeApiServer(state=StateFiles(data=path), **options)
    async with aiohttp.ClientSession() as session:
        await server.__aenter__()
        try:
            PORTS[path] = server.port
            yield server, ApiClient(session, server.url)
            server.state.abandon()
        finally:
            await server.__aexit__()


async def test_acknowledged_writes_survive_a_kill(path: Path) -> None:
    async with killed(path) as (server, api):
        await api.create(NODES, {"metadata": {"name": "n1"}})
        await api.create(PODS, pod("p"))
        await api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
        await api.create(CONFIG_MAPS, config_map("gone"))
        await api.delete(f"{CONFIG_MAPS}/gone")
        before, version = await everything(api, *LISTS), server.resource_version
    async with serving(data=path) as (server, api):
        assert server.resource_version == version
        assert await everything(api, *LISTS) == before


async def test_watches_go_on_over_a_death(path: Path) -> None:
    async with killed(path) as (_, api):
        first = await api.create(CONFIG_MAPS, config_map("c", labels={"color": "red"}))
        version = first["metadata"]["resourceVersion"]
        await api.patch(f"{CONFIG_MAPS}/c", {"metadata": {"labels": {"color": "blue"}}})
        await api.delete(f"{CONFIG_MAPS}/c")
    async with serving(data=path) as (_, api):
        async with api.watch(CONFIG_MAPS, resourceVersion=version) as stream:
            assert await stream.take(2) == [("MODIFIED", "c"), ("DELETED", "c")]
        async with api.watch(
            CONFIG_MAPS, resourceVersion=version, labelSelector="color=red"
        ) as stream:
            assert await stream.take(1) == [("DELETED", "c")]
        async with api.watch(NODES, resourceVersion=version) as stream:
            await api.create(NODES, {"metadata": {"name": "first-of-its-kind"}})
            assert await stream.take(1) == [("ADDED", "first-of-its-kind")]


async def test_the_counter_outlives_the_row_it_belongs_to(path: Path) -> None:
    async with serving(data=path) as (server, api):
        await api.create(CONFIG_MAPS, config_map("c"))
        await api.delete(f"{CONFIG_MAPS}/c")
        server.compact()
        version = server.resource_version
    assert "configmaps" not in {resource for _, resource, _ in rows(path)}
    async with serving(data=path) as (server, api):
        assert server.resource_version == version
        old = await api.get(CONFIG_MAPS, resourceVersion=version - 1, resourceVersionMatch="Exact")
        assert (old.code, old.reason) == (410, "Expired")


async def test_revisions_that_no_watch_can_ask_for_are_deleted(path: Path) -> None:
    async with serving(data=path, options=ServerOptions(event_log_size=4)) as (_, api):
        await api.create(CONFIG_MAPS, config_map("still"))
        await api.create(CONFIG_MAPS, config_map("gone"))
        await api.delete(f"{CONFIG_MAPS}/gone")
        await api.create(CONFIG_MAPS, config_map("busy"))
        for count in range(600):
            await api.patch(f"{CONFIG_MAPS}/busy", {"data": {"count": str(count)}})
        before = await everything(api, *LISTS)
        latest = before[CONFIG_MAPS]["metadata"]["resourceVersion"]
    stored = [entry for entry in rows(path) if entry[1] == "configmaps"]
    assert len(stored) == 1 + 1 + 4  # "still", "busy" before the log, the log
    assert not any(deleted for _, _, deleted in stored)
    async with serving(data=path, options=ServerOptions(event_log_size=4)) as (_, api):
        assert await everything(api, *LISTS) == before
        for back, code in ((4, 200), (5, 410)):
            version = int(latest) - back
            listed = await api.get(
                CONFIG_MAPS, resourceVersion=version, resourceVersionMatch="Exact"
            )
            assert listed.code == code


async def test_more_may_be_loaded_than_the_log_holds(path: Path) -> None:
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}}
        for number in range(5)
    ]
    for _ in range(2):
        async with killed(path, load=nodes, options=ServerOptions(event_log_size=1)) as (_, api):
            assert (await api.get(NODES)).names == ["n0", "n1", "n2", "n3", "n4"]


async def test_a_port_that_is_taken_leaves_the_file_free(path: Path) -> None:
    async with serving() as (server, _):
        with pytest.raises(OSError, match="address already in use"):
            async with serving(data=path, port=server.port):
                pass
    async with serving(data=path) as (_, api):
        assert (await api.get(NODES)).names == []


async def test_rows_are_deleted_while_it_runs(path: Path) -> None:
    async with killed(path, options=ServerOptions(event_log_size=4)) as (_, api):
        await api.create(CONFIG_MAPS, config_map("busy"))
        for count in range(600):
            await api.patch(f"{CONFIG_MAPS}/busy", {"data": {"count": str(count)}})
    assert len([entry for entry in rows(path) if entry[1] == "configmaps"]) < 200


async def test_writes_of_one_turn_share_a_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(data=path) as (server, _):
        database = server.state._database
        assert database is not None
        sizes = []
        write = database._write

        def counting(pending: list[Any]) -> None:
            sizes.append(len(pending))
            write(pending)

        monkeypatch.setattr(database, "_write", counting)

        async def one(number: int) -> None:
            config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}}
            server.load([config])
            await server.state.settled()

        await asyncio.gather(*(one(number) for number in range(50)))
        assert sum(sizes) == 50
        assert len(sizes) == 1


async def test_writes_without_a_request_are_committed_as_well(path: Path) -> None:
    async with killed(path) as (server, _):
        server.load([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    async with serving(data=path) as (_, api):
        assert (await api.get(NODES)).names == ["n"]


async def test_a_watch_sends_committed_changes_only(path: Path) -> None:
    async with serving(data=path) as (server, api):
        seen = []

        async def write(data: bytes) -> None:
            assert server.state._database is not None
            seen.append((server.state._database.noted, server.state._database.committed, data))

        guarded = server.state.guarded(write)
        server.load([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}])
        await guarded(b"event")
        noted, committed, data = seen[0]
        assert (noted, data) == (committed, b"event")
        assert (await api.get(NODES)).names == ["n"]


async def test_a_write_that_cannot_be_committed_is_not_acknowledged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    failures: list[StateError] = []
    async with serving(data=path) as (server, api):
        server.state.on_failure = failures.append
        await api.create(PODS, pod("before"))
        async with api.watch(PODS) as stream:
            assert await stream.take(1) == [("ADDED", "before")]
            with monkeypatch.context() as patched:
                patched.setattr(server.state._database, "_insert", full)
                refused = await api.post(PODS, pod("lost"))
            assert (refused.code, refused.reason) == (500, "InternalError")
            assert "state.db: database or disk is full" in refused.message
            with pytest.raises(aiohttp.ClientError):
                await stream.next()  # the connection breaks, the event is never told
        assert (await api.get(PODS)).code == 500  # nor are others told of it
        assert len(failures) == 1
    async with serving(data=path) as (_, api):
        assert (await api.get(PODS)).names == ["before"]


async def test_versions_that_a_fault_takes_back_are_taken_back_in_the_file(path: Path) -> None:
    async with killed(path) as (server, api):
        await api.create(CONFIG_MAPS, config_map("kept"))
        await api.create(CONFIG_MAPS, config_map("lost"))
        version = server.resource_version
        server._registry.store.rewind(1)
        await api.create(CONFIG_MAPS, config_map("other"))
        assert server.resource_version == version
    async with serving(data=path) as (server, api):
        assert (await api.get(CONFIG_MAPS)).names == ["kept", "other"]
        assert server.resource_version == version


async def test_a_snapshot_fills_a_new_file_and_no_other(path: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "state.json"
    async with serving(snapshot=snapshot, options=ServerOptions(event_log_size=2)) as (server, api):
        for name in ("a", "b", "c", "d"):
            await api.create(CONFIG_MAPS, config_map(name))
        await api.delete(f"{CONFIG_MAPS}/a")
        before, version = await everything(api, *LISTS), server.resource_version
    async with killed(path) as (server, api):  # not the snapshot's
        assert (await api.get(CONFIG_MAPS)).names == []
    other = tmp_path / "other.db"
    for files in ({"data": other, "restore": snapshot}, {"data": other}):
        async with serving(**files, options=ServerOptions(event_log_size=2)) as (server, api):
            assert await everything(api, *LISTS) == before
            async with api.watch(CONFIG_MAPS, resourceVersion=version - 2) as stream:
                assert await stream.take(2) == [("ADDED", "d"), ("DELETED", "a")]
    with pytest.raises(
        StateError, match=r"state\.json: cannot be restored, .*other\.db holds a st"
    ):
        FakeApiServer(state=StateFiles(data=other, restore=snapshot))


async def test_a_manifest_that_cannot_be_loaded_leaves_a_new_file_new(path: Path) -> None:
    with pytest.raises(Exception, match="no Nonsense in v1 is served"):
        FakeApiServer(
            load=[{"apiVersion": "v1", "kind": "Nonsense", "metadata": {"name": "x"}}],
            state=StateFiles(data=path),
        )
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    async with serving(data=path, load=[node]) as (_, api):
        assert (await api.get(NODES)).names == ["n"]


@pytest.fixture
def held(path: Path) -> Iterator[Path]:
    """A file that another server has open."""
    database = Database(path)
    yield path
    database.abandon()


def refusal(path: Path) -> str:
    with pytest.raises(StateError) as caught:
        FakeApiServer(state=StateFiles(data=path))
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


def test_one_server_at_a_time(held: Path) -> None:
    assert refusal(held) == "database is locked: another process is using it"


def test_a_file_that_is_no_database(path: Path) -> None:
    path.write_text("once upon a time\n" * 100, encoding="utf-8")
    assert refusal(path) == "file is not a database"


def test_a_database_of_another_program(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE accounts (name TEXT)")
    assert refusal(path) == "a SQLite file, but not one of kubesched-fakeapi"


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nope" / "state.db") == "unable to open database file"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("PRAGMA user_version = 9", "format version 9, expected 1"),
        (
            "UPDATE revisions SET object = CAST('{' AS BLOB) WHERE version = 101",
            "damaged: revision 101: Input data was truncated",
        ),
        ("UPDATE revisions SET object = 7", "damaged: revision 101: expected a blob"),
        ("DELETE FROM collections WHERE id = 1", "damaged: revision 101 is of no collection"),
        (
            "UPDATE revisions SET deleted = 1 WHERE version = 101",
            "collections[0].changes[0]: default is deleted before it exists",
        ),
        ("DELETE FROM counter", "damaged: revisions, but no counter of versions"),
    ],
)
async def test_a_damaged_file_is_named_and_so_is_the_place(
    path: Path, statement: str, message: str
) -> None:
    async with serving(data=path):
        pass
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)
    assert refusal(path) == message


async def test_half_a_file_is_damaged(path: Path) -> None:
    async with serving(data=path):
        pass
    cut(path, len(content_of(path)) // 2)
    assert refusal(path).startswith(("damaged: ", "database disk image is malformed"))


async def test_the_log_of_a_resource_that_came_back_is_shortened_in_the_file_too(
    path: Path,
) -> None:
    options = ServerOptions(event_log_size=2)
    async with serving(data=path, options=options) as (_, api):
        for _ in range(2):
            await api.create(DEFINITIONS, definition())
            await api.create(WIDGETS, widget())
            for size in range(2, 40):
                await api.patch(f"{WIDGETS}/w", {"spec": {"size": size}})
            await api.delete(f"{DEFINITIONS}/widgets.example.com")
    assert len([row for row in rows(path) if row[1] == "widgets"]) < 10
