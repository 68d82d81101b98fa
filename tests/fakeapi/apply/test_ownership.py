"""managedFields beyond the recorded exchanges: times, the cap, turning them off."""

from typing import Any

import aiohttp

from fakeapi import FakeApiServer, ManualClock, ServerOptions
from fakeapi.apply import manager_of

from ..api_client import ApiClient, Reply
from ..objects import CONFIG_MAPS, config_map

APPLY = "application/apply-patch+yaml"


def managers(body: Any) -> list[str]:
    return [entry["manager"] for entry in body["metadata"].get("managedFields", [])]


async def write(api: ApiClient, manager: str, data: Any) -> Reply:
    return await api.patch(f"{CONFIG_MAPS}/c", {"data": data}, fieldManager=manager)


async def apply(api: ApiClient, manager: str, data: Any, **query: Any) -> Reply:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
    return await api.patch(f"{CONFIG_MAPS}/c", body, APPLY, fieldManager=manager, **query)


async def test_the_time_is_that_of_the_last_change(api: ApiClient, clock: ManualClock) -> None:
    await api.create(CONFIG_MAPS, config_map("c", {"a": "1"}))
    clock.advance(60)
    same = await write(api, "other", {"a": "1"})
    assert managers(same.body) == ["Python"]
    changed = await write(api, "other", {"a": "2"})
    first, second = changed.body["metadata"]["managedFields"]
    assert (first["manager"], second["manager"]) == ("Python", "other")
    assert first["time"] < second["time"]


async def test_a_write_that_changes_nothing_moves_no_time(
    api: ApiClient, clock: ManualClock
) -> None:
    before = (await apply(api, "one", {"a": "1"})).body
    clock.advance(60)
    assert (await apply(api, "one", {"a": "1"})).body == before


async def test_entries_are_ordered_by_operation_and_time(
    api: ApiClient, clock: ManualClock
) -> None:
    await api.post(CONFIG_MAPS, config_map("c", {"z": "1"}), fieldManager="z")
    for manager in ("y", "x"):
        clock.advance(1)
        await write(api, manager, {manager: "1"})
    await apply(api, "w", {"w": "1"})
    assert managers((await api.get(f"{CONFIG_MAPS}/c")).body) == ["w", "z", "y", "x"]


async def test_more_than_ten_updaters_become_ancient(api: ApiClient, clock: ManualClock) -> None:
    await api.create(CONFIG_MAPS, config_map("c", {"start": "1"}))
    for number in range(12):
        clock.advance(1)
        reply = await write(api, f"m{number:02}", {f"k{number:02}": "1"})
    found = managers(reply.body)
    assert found == ["ancient-changes", *(f"m{number:02}" for number in range(3, 12))]
    ancient = reply.body["metadata"]["managedFields"][0]
    assert set(ancient["fieldsV1"]["f:data"]) == {".", "f:start", "f:k00", "f:k01", "f:k02"}


async def test_appliers_do_not_count_towards_the_ten(api: ApiClient, clock: ManualClock) -> None:
    for number in range(12):
        clock.advance(1)
        reply = await apply(api, f"m{number:02}", {f"k{number:02}": "1"})
    assert len(managers(reply.body)) == 12


async def test_watches_and_lists_show_them(api: ApiClient) -> None:
    created = await api.create(CONFIG_MAPS, config_map("c", {"a": "1"}))
    listed = (await api.get(CONFIG_MAPS)).body["items"][0]
    async with api.watch(CONFIG_MAPS) as stream:
        event = await stream.next()
    assert event is not None
    for seen in (listed, event["object"]):
        assert seen["metadata"]["managedFields"] == created["metadata"]["managedFields"]


async def test_managed_fields_can_be_off_until_the_first_apply(
    session: aiohttp.ClientSession, clock: ManualClock
) -> None:
    async with FakeApiServer(clock=clock, options=ServerOptions(managed_fields=False)) as server:
        api = ApiClient(session, server.url)
        created = await api.create(CONFIG_MAPS, config_map("c", {"a": "1"}))
        assert managers(created) == []
        assert managers((await write(api, "m", {"a": "2"})).body) == []
        applied = await apply(api, "one", {"b": "1"})
        assert managers(applied.body) == ["one", "before-first-apply"]
        assert managers((await write(api, "m", {"a": "3"})).body)[-1] == "m"


def test_only_printable_characters_are_part_of_a_managers_name() -> None:
    assert manager_of("a\x01\u00adb/c") == "ab"
    assert manager_of("\u00e9" * 100) == "\u00e9" * 64
