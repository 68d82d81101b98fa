"""Snapshots: the restored state equals the saved one to the byte; errors name the file."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakeapi import FakeApiServer, ManualClock, ServerOptions, StateError, StateFiles
from fakeapi.background import BackgroundServer

from ..custom_resources import DEFINITIONS, WIDGETS, definition
from ..objects import CONFIG_MAPS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, config_map, pod
from ..state_files import FIRST_VERSION, content_of, cut, everything, names_beside, serving

LISTS = (PODS, NODES, NAMESPACES, PRIORITY_CLASSES, CONFIG_MAPS)


def sabotaged(path: Path, change: Callable[[Any], None]) -> Path:
    """The snapshot with something changed in it."""
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
async def saved(tmp_path: Path) -> Path:
    """The snapshot of a server with a node, and a pod that was changed twice."""
    path = tmp_path / "state.json"
    async with serving(snapshot=path) as (_, api):
        await api.create(NODES, {"metadata": {"name": "n1"}})
        await api.create(PODS, pod("p"))
        for color in ("red", "blue"):
            await api.patch(f"{PODS}/p", {"metadata": {"labels": {"color": color}}})
    return path


async def test_the_restored_state_equals_the_saved_one(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    async with serving(snapshot=path) as (server, api):
        await api.create(NODES, {"metadata": {"name": "n1"}})
        await api.create(PODS, pod("p"))
        await api.create(PODS, pod("gone"))
        await api.delete(f"{PODS}/gone", {"gracePeriodSeconds": 0})
        before, version = await everything(api, *LISTS), server.resource_version
    async with serving(snapshot=path) as (server, api):
        assert server.resource_version == version
        assert await everything(api, *LISTS) == before
        created = await api.create(CONFIG_MAPS, config_map("new"))
        assert created["metadata"]["resourceVersion"] == str(version + 1)


async def test_watches_and_old_lists_go_on_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    async with serving(snapshot=path) as (_, api):
        first = await api.create(CONFIG_MAPS, config_map("c", labels={"color": "red"}))
        version = first["metadata"]["resourceVersion"]
        await api.patch(f"{CONFIG_MAPS}/c", {"metadata": {"labels": {"color": "blue"}}})
        await api.delete(f"{CONFIG_MAPS}/c")
    async with serving(snapshot=path) as (_, api):
        async with api.watch(CONFIG_MAPS, resourceVersion=version) as stream:
            assert await stream.take(2) == [("MODIFIED", "c"), ("DELETED", "c")]
        red = {"labelSelector": "color=red"}
        async with api.watch(CONFIG_MAPS, resourceVersion=version, **red) as stream:
            assert await stream.take(1) == [("DELETED", "c")]  # it left the selection
        old = await api.get(CONFIG_MAPS, resourceVersion=version, resourceVersionMatch="Exact")
        assert old.body["items"][0]["metadata"] == first["metadata"]
        async with api.watch(PODS, resourceVersion=version) as stream:
            await api.create(PODS, pod("first-of-its-kind"))
            assert await stream.take(1) == [("ADDED", "first-of-its-kind")]


async def test_versions_older_than_the_log_have_expired_as_before(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    async with serving(snapshot=path) as (server, api):
        created = await api.create(PODS, pod("p"))
        server.compact()
        await api.create(PODS, pod("q"))
    async with serving(snapshot=path) as (_, api):
        version = int(created["metadata"]["resourceVersion"])
        old = await api.get(PODS, resourceVersion=version - 1, resourceVersionMatch="Exact")
        assert (old.code, old.reason) == (410, "Expired")
        async with api.watch(PODS, resourceVersion=version) as stream:
            assert await stream.take(1) == [("ADDED", "q")]


async def test_a_shorter_log_forgets_the_oldest(saved: Path) -> None:
    async with serving(restore=saved, options=ServerOptions(event_log_size=1)) as (server, api):
        version = server.resource_version
        for back, code in ((1, 200), (2, 410)):
            listed = await api.get(
                PODS, resourceVersion=version - back, resourceVersionMatch="Exact"
            )
            assert listed.code == code


async def test_restore_reads_and_snapshot_writes(saved: Path, tmp_path: Path) -> None:
    content, other = content_of(saved), tmp_path / "other.json"
    other.write_text("never read", encoding="utf-8")
    async with serving(restore=saved, snapshot=other) as (server, api):
        await api.create(PODS, pod("later"))
        assert server.save_snapshot() == other
    assert content_of(saved) == content
    async with serving(restore=other) as (_, api):
        assert (await api.get(PODS)).names == ["later", "p"]


async def test_a_restored_state_replaces_loaded_objects(saved: Path) -> None:
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "loaded"}}
    async with serving(snapshot=saved, load=[manifest]) as (_, api):
        assert (await api.get(NODES)).names == ["n1"]


async def test_custom_resources_are_served_again(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    async with serving(snapshot=path) as (_, api):
        await api.create(DEFINITIONS, definition())
        await api.create(
            WIDGETS,
            {
                "apiVersion": "example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "w"},
                "spec": {"size": 1},
            },
        )
        before = await everything(api, DEFINITIONS, WIDGETS)
    async with serving(snapshot=path) as (_, api):
        assert await everything(api, DEFINITIONS, WIDGETS) == before


async def test_a_seed_invents_no_uid_twice_over_a_restart(tmp_path: Path) -> None:
    path, uids = tmp_path / "state.json", []
    for name in ("a", "b", "c"):
        async with serving(snapshot=path, seed=1) as (_, api):
            uids.append((await api.create(PODS, pod(name)))["metadata"]["uid"])
    assert len(set(uids)) == 3


async def test_the_version_goes_on_from_the_later_of_option_and_snapshot(saved: Path) -> None:
    later = FIRST_VERSION + 1000
    async with serving(restore=saved, options=ServerOptions(initial_resource_version=later)) as (
        server,
        api,
    ):
        assert server.resource_version == later
        assert len((await api.get(PODS)).body["items"]) == 1


async def test_a_new_snapshot_takes_the_place_of_the_old_one_in_one_step(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = content_of(saved)

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    async with serving(restore=saved) as (server, api):
        await api.create(PODS, pod("new"))
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fail)
            with pytest.raises(StateError, match=r"state\.json: No space left on device"):
                server.save_snapshot(saved)
        assert content_of(saved) == content
        assert names_beside(saved) == ["state.json"]
        server.save_snapshot(saved)
    assert content_of(saved) != content


async def test_without_a_file_there_is_nowhere_to_save(server: FakeApiServer) -> None:
    with pytest.raises(StateError, match="no file for the snapshot"):
        server.save_snapshot()


def set_in(*path: str | int, to: Any) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        for part in path[:-1]:
            content = content[part]
        content[path[-1]] = to

    return change


#: The order is that of first use; objects that the server creates come first.
PODS_AT = "contents", "collections", 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            set_in("format", to="tarball"),
            "format: expected 'kubesched-fakeapi snapshot', found 'ta",
        ),
        (set_in("formatVersion", to=2), "formatVersion: expected 1, found 2"),
        (set_in("contents", "start", to="x"), "Expected `int`, got `str` - at `$.contents.start`"),
        (
            set_in("contents", "resourceVersion", to=1),
            "collections[0].start: 100 is newer than the whole",
        ),
        (
            set_in(*PODS_AT, "changes", 0, "object", "metadata", "name", to=7),
            "collections[6].changes[0].object.metadata.name: expected a string",
        ),
        (
            set_in(*PODS_AT, "changes", 1, "object", "metadata", "resourceVersion", to="x"),
            "collections[6].changes[1].object.metadata.resourceVersion: expected digits",
        ),
        (
            set_in(*PODS_AT, "changes", 1, "object", "metadata", "resourceVersion", to="1"),
            "collections[6].changes[1].object.metadata.resourceVersion: 1 is out of order",
        ),
        (
            set_in(*PODS_AT, "changes", 0, "deleted", to=True),
            "collections[6].changes[0]: default/p is deleted before it exists",
        ),
        (
            set_in(*PODS_AT, "resource", to="nodes"),
            "collections[6]: nodes of group '' are there tw",
        ),
        (
            set_in(*PODS_AT, "objects", to=[{"metadata": {"name": "x", "resourceVersion": "999"}}]),
            "collections[6].objects[0].metadata.resourceVersion: 999 is newer than the start of",
        ),
    ],
)
async def test_a_damaged_snapshot_is_named_and_so_is_the_place(
    saved: Path, change: Callable[[Any], None], message: str
) -> None:
    sabotaged(saved, change)
    with pytest.raises(StateError) as caught:
        FakeApiServer(clock=ManualClock(), state=StateFiles(restore=saved))
    assert str(caught.value).startswith(f"{saved}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kept", [0, 1, 100, -2])
async def test_half_a_snapshot_is_none(saved: Path, kept: int) -> None:
    cut(saved, kept)
    with pytest.raises(StateError, match=r"state\.json: no snapshot, or a damaged one: "):
        FakeApiServer(clock=ManualClock(), state=StateFiles(snapshot=saved))


def test_a_snapshot_must_have_a_place(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"nope/x\.json: .*nope is no directory"):
        FakeApiServer(state=StateFiles(snapshot=tmp_path / "nope" / "x.json"))


def test_a_server_in_the_background_saves_and_reports_errors(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    with BackgroundServer(state=StateFiles(snapshot=path)) as server:
        server.load([node])
        server.call(lambda running: running.save_snapshot(tmp_path / "before.json"))
    assert names_beside(path) == ["before.json", "state.json"]
    path.unlink()
    with (
        pytest.raises(StateError, match=r"state\.json: Is a directory"),
        BackgroundServer(state=StateFiles(snapshot=path)),
    ):
        path.mkdir()


def test_a_snapshot_to_restore_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"nope\.json: No such file or directory"):
        FakeApiServer(state=StateFiles(restore=tmp_path / "nope.json"))


def modes_in(directory: Path) -> set[int]:
    return {file.stat().st_mode & 0o777 for file in directory.iterdir()}


async def test_files_of_the_state_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Even if they were there before."""
    files = {name: tmp_path / name for name in ("data", "snapshot", "record")}
    files["record"].touch(mode=0o644)
    async with serving(**files) as (_, api):
        await api.create(CONFIG_MAPS, config_map("c"))
        (tmp_path / "snapshot").touch(mode=0o644)
    assert modes_in(tmp_path) == {0o600}
    files["data"].chmod(0o644)
    async with serving(data=files["data"]) as (_, api):
        await api.create(CONFIG_MAPS, config_map("d"))
        assert modes_in(tmp_path) == {0o600}
