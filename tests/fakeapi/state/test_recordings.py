"""Recordings: every change with its time; a replay makes them again, on the server's clock."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakeapi import FakeApiServer, ManualClock, StateError, StateFiles
from fakeapi.state.recording import read_recording
from fakeapi.types.objects import name_of

from ..api_client import eventually
from ..custom_resources import DEFINITIONS, WIDGETS, definition
from ..objects import CONFIG_MAPS, NAMESPACES, NODES, PODS, config_map, pod
from ..state_files import content_of, cut, everything, serving


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recording.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rewrite(path: Path, entries: list[Any]) -> None:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")


def brief(line: dict[str, Any]) -> tuple[float, str, str, str]:
    return line["seconds"], line["type"], line["resource"], line["object"]["metadata"]["name"]


def versionless(lists: dict[str, Any]) -> dict[str, Any]:
    """Lists without what a replay cannot have in common with what was recorded."""
    copied: dict[str, Any] = json.loads(json.dumps(lists))
    for listed in copied.values():
        for obj in (listed, *listed["items"]):
            del obj["metadata"]["resourceVersion"]
    return copied


async def recorded(path: Path, clock: ManualClock) -> dict[str, Any]:
    """Record a life of some seconds; what there is at its end."""
    async with serving(clock, record=path) as (_, api):
        await api.create(CONFIG_MAPS, config_map("c"))
        clock.advance(10)
        await api.create(PODS, pod("p"))
        await api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
        clock.advance(2.5)
        await api.delete(f"{CONFIG_MAPS}/c")
        return await everything(api, PODS, CONFIG_MAPS, NAMESPACES)


async def test_every_change_is_recorded_with_its_time(path: Path, clock: ManualClock) -> None:
    await recorded(path, clock)
    header, *changes = lines(path)
    assert header["startedSeconds"] == clock.now() - 12.5
    assert [change["resource"] for change in changes[:9]] == [
        *["namespaces"] * 4,
        *["priorityclasses"] * 2,
        "services",
        "endpoints",
        "endpointslices",
    ]
    assert [brief(change) for change in changes[9:]] == [
        (0.0, "ADDED", "configmaps", "c"),
        (10.0, "ADDED", "pods", "p"),
        (10.0, "MODIFIED", "pods", "p"),
        (12.5, "DELETED", "configmaps", "c"),
    ]


async def test_each_line_is_in_the_file_before_the_answer(path: Path) -> None:
    async with serving(record=path) as (_, api):
        created = await api.create(CONFIG_MAPS, config_map("c"))
        assert lines(path)[-1]["object"]["metadata"]["uid"] == created["metadata"]["uid"]


async def test_objects_that_existed_before_come_first(path: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "state.json"
    async with serving(snapshot=snapshot) as (_, api):
        await api.create(NODES, {"metadata": {"name": "n"}})
    async with serving(restore=snapshot, record=path):
        pass
    assert brief(lines(path)[-1]) == (0.0, "ADDED", "nodes", "n")


async def test_definitions_come_before_their_objects(
    path: Path, tmp_path: Path, clock: ManualClock
) -> None:
    snapshot = tmp_path / "state.json"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    async with serving(snapshot=snapshot) as (_, api):
        created = await api.create(DEFINITIONS, definition())
        await api.create(WIDGETS, widget)
        name = created["metadata"]["name"]
        await api.patch(f"{DEFINITIONS}/{name}", {"metadata": {"labels": {"newer": "yes"}}})
    async with serving(restore=snapshot, record=path):
        pass
    async with serving(clock) as (server, api):
        await server.replay(path, speed=0)
        assert (await api.get(WIDGETS)).names == ["w"]


async def test_a_replay_ends_where_the_recording_ended(path: Path, clock: ManualClock) -> None:
    before = await recorded(path, clock)
    async with serving(clock) as (server, api):
        assert await server.replay(path, speed=0) == len(lines(path)) - 1
        after = await everything(api, PODS, CONFIG_MAPS, NAMESPACES)
        assert versionless(after) == versionless(before)
        version = server.resource_version
        await server.replay(path, speed=0)  # the ConfigMap comes and goes once more, no more
        assert (await api.get(PODS)).names == ["p"]
        assert server.resource_version > version


@pytest.mark.parametrize("speed", [1.0, 4.0, 0.5])
async def test_gaps_are_as_they_were_divided_by_the_speed(
    path: Path, clock: ManualClock, speed: float
) -> None:
    await recorded(path, clock)
    async with serving(clock) as (server, _):
        told: list[tuple[float, str, str]] = []
        started = clock.now()
        with server.listening(
            on_change=lambda change: told.append(
                (change.seconds - started, change.type, change.name)
            )
        ):
            replaying = asyncio.create_task(server.replay(path, speed=speed))
            await eventually(lambda: "c" in [name for _, _, name in told])
            clock.advance(100)  # in one go: each change finds its own time all the same
            await replaying
    assert [entry for entry in told if entry[2] in ("c", "p")] == [
        (0.0, "ADDED", "c"),
        (10 / speed, "ADDED", "p"),
        (10 / speed, "MODIFIED", "p"),
        (12.5 / speed, "DELETED", "c"),
    ]


async def test_a_replay_that_is_cancelled_stops(path: Path, clock: ManualClock) -> None:
    await recorded(path, clock)
    async with serving(clock) as (server, api):
        replaying = asyncio.create_task(server.replay(path))
        while (await api.get(CONFIG_MAPS)).names != ["c"]:
            pass  # each request lets it go on
        replaying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await replaying
        clock.advance(100)
        assert (await api.get(PODS)).names == []


async def test_an_object_in_the_way_is_replaced_as_watchers_know_it(
    path: Path, clock: ManualClock
) -> None:
    async with serving(clock, record=path, seed=1) as (_, api):
        created = await api.create(CONFIG_MAPS, config_map("c"))
    async with serving(clock, seed=2) as (server, api):
        mine = await api.create(CONFIG_MAPS, config_map("c"))
        version = mine["metadata"]["resourceVersion"]
        await server.replay(path, speed=0)
        async with api.watch(CONFIG_MAPS, resourceVersion=version) as stream:
            assert await stream.take(2) == [("DELETED", "c"), ("ADDED", "c")]
        found = (await api.get(f"{CONFIG_MAPS}/c")).body
        assert found["metadata"]["uid"] == created["metadata"]["uid"]


async def test_custom_resources_come_and_go_again(path: Path, clock: ManualClock) -> None:
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 1},
    }
    async with serving(clock, record=path) as (_, api):
        created = await api.create(DEFINITIONS, definition())
        await api.create(WIDGETS, widget)
        name = created["metadata"]["name"]
    half = content_of(path)
    async with serving(clock) as (server, api):
        await server.replay(path, speed=0)
        assert (await api.get(WIDGETS)).names == ["w"]
    async with serving(clock, record=path) as (server, api):
        await api.create(DEFINITIONS, definition())
        await api.create(WIDGETS, widget)
        await api.delete(f"{DEFINITIONS}/{name}")
        assert (await api.get(DEFINITIONS)).names == []
    assert len(half) < len(content_of(path))
    async with serving(clock) as (server, api):
        await server.replay(path, speed=0)
        assert (await api.get(DEFINITIONS)).names == []
        assert (await api.get(WIDGETS)).code == 404


async def test_the_line_a_crash_has_cut_is_overlooked(path: Path, clock: ManualClock) -> None:
    await recorded(path, clock)
    count = len(lines(path)) - 1
    cut(path, -5)
    async with serving(clock) as (server, _):
        assert await server.replay(path, speed=0) == count - 1


async def test_a_disk_that_is_full_ends_the_recording_only(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Full:
        def write(self, _: object) -> int:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    async with serving(record=path) as (server, api):
        recording = server.state._recording
        assert recording is not None
        recording._file.close()
        recording._file = Full()  # type: ignore[assignment]
        await api.create(CONFIG_MAPS, config_map("a"))
        await api.create(CONFIG_MAPS, config_map("b"))
        assert (await api.get(CONFIG_MAPS)).names == ["a", "b"]
    assert [record.message for record in caplog.records] == [
        f"{path}: No space left on device: the recording ends here"
    ]


def replacing(number: int, **fields: Any) -> Callable[[list[Any]], None]:
    def change(entries: list[Any]) -> None:
        entries[number].update(fields)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replacing(0, format="tarball"), "line 1: expected 'kubesched-fakeapi recording' of vers"),
        (
            replacing(0, formatVersion=2),
            "line 1: expected 'kubesched-fakeapi recording' of version ",
        ),
        (list.clear, "line 1: no recording, or a damaged one: "),
        (replacing(1, type="CHANGED"), "line 2: Expected `str` matching regex"),
        (replacing(2, object=3), "line 3: Expected `object`, got `int` - at `$.object`"),
        (replacing(2, object={}), "line 3: object.metadata.name: expected a string"),
        (replacing(1, seconds=5), "line 3: seconds: earlier than the line above"),
        (replacing(8, resource="gadgets", group="x.io"), "line 9: no gadgets.x.io are served"),
    ],
)
async def test_a_damaged_recording_is_named_and_so_is_the_line(
    path: Path, clock: ManualClock, change: Callable[[list[Any]], None], message: str
) -> None:
    await recorded(path, clock)
    entries = lines(path)
    change(entries)
    rewrite(path, entries)
    async with serving(clock) as (server, _):
        with pytest.raises(StateError) as caught:
            await server.replay(path, speed=0)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


async def test_nothing_of_a_damaged_recording_is_replayed(path: Path, clock: ManualClock) -> None:
    await recorded(path, clock)
    with path.open("a", encoding="utf-8") as file:
        file.write("{}\n")
    async with serving(clock) as (server, api):
        with pytest.raises(StateError, match="line 15: "):
            await server.replay(path, speed=0)
        assert (await api.get(PODS)).names == []


@pytest.mark.parametrize("speed", [-1.0, float("inf"), float("nan")])
async def test_a_speed_is_a_number(path: Path, server: FakeApiServer, speed: float) -> None:
    with pytest.raises(StateError, match="speed: expected a number of at least 0"):
        await server.replay(path, speed=speed)


async def test_a_recording_that_is_not_there(path: Path, server: FakeApiServer) -> None:
    with pytest.raises(StateError, match=r"recording\.jsonl: No such file or directory"):
        await server.replay(path)


def test_a_recording_that_cannot_be_written(path: Path) -> None:
    with pytest.raises(StateError, match=r"nope/x: No such file or directory"):
        FakeApiServer(state=StateFiles(record=path.parent / "nope" / "x"))


async def test_two_servers_do_not_record_to_one_file(tmp_path: Path) -> None:
    files = StateFiles(record=tmp_path / "r.jsonl")
    async with FakeApiServer(state=files) as first:
        first.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}}])
        with pytest.raises(StateError, match=r"r\.jsonl: another server is recording to it"):
            FakeApiServer(state=files)
    *_, (_, last) = read_recording(tmp_path / "r.jsonl")
    assert name_of(last.object) == "kept"
