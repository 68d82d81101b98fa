"""Lists: by resourceVersion, in pages, in order.

Modelled on RunTestList in apiserver pkg/storage/testing/store_tests.go.
"""

import asyncio
import base64
from typing import Any

import msgspec
import pytest

from fakeapi import FakeApiServer, ManualClock

from ..api_client import ApiClient, eventually
from ..objects import CONFIG_MAPS, NODES, PODS, config_map, pod

ALL = ["c1", "c2", "c3", "c4", "c5"]


@pytest.fixture
async def five(api: ApiClient) -> list[int]:
    """Five ConfigMaps and the versions they were created at."""
    made = [await api.create(CONFIG_MAPS, config_map(name)) for name in ALL]
    return [int(item["metadata"]["resourceVersion"]) for item in made]


def token(version: int, start: str, api_version: str = "meta.k8s.io/v1") -> str:
    raw = msgspec.json.encode({"v": api_version, "rv": version, "start": start})
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


async def test_a_list_names_its_kind_and_items_do_not(api: ApiClient, five: list[int]) -> None:
    reply = await api.get(CONFIG_MAPS)
    assert (reply.body["kind"], reply.body["apiVersion"]) == ("ConfigMapList", "v1")
    assert all("kind" not in item and "apiVersion" not in item for item in reply.body["items"])


async def test_an_empty_list_has_a_version_and_no_items(
    api: ApiClient, server: FakeApiServer
) -> None:
    reply = await api.get(NODES)
    assert reply.body["items"] == []
    assert reply.version == server.resource_version


async def test_items_are_in_the_order_of_their_keys(api: ApiClient) -> None:
    for namespace in ("b", "a", "a-b"):
        await api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        await api.create(f"/api/v1/namespaces/{namespace}/pods", pod("p"))
    items = (await api.get("/api/v1/pods")).body["items"]
    # The key is namespace/name, and '-' sorts before '/'.
    assert [item["metadata"]["namespace"] for item in items] == ["a-b", "a", "b"]


async def test_pages_are_one_snapshot(api: ApiClient, five: list[int]) -> None:
    first = await api.get(CONFIG_MAPS, limit=2)
    assert first.names == ["c1", "c2"]
    assert first.body["metadata"]["remainingItemCount"] == 3
    await api.create(CONFIG_MAPS, config_map("c2b"))
    await api.delete(f"{CONFIG_MAPS}/c3")
    await api.patch(f"{CONFIG_MAPS}/c4", {"data": {"a": "changed"}})
    rest = []
    metadata = first.body["metadata"]
    while "continue" in metadata:
        page = await api.get(CONFIG_MAPS, limit=2, **{"continue": metadata["continue"]})
        assert page.version == first.version
        rest += page.body["items"]
        metadata = page.body["metadata"]
    assert [item["metadata"]["name"] for item in rest] == ["c3", "c4", "c5"]
    assert all("data" not in item for item in rest)


async def test_a_selector_hides_how_many_remain(api: ApiClient) -> None:
    for name in ALL:
        await api.create(CONFIG_MAPS, config_map(name, labels={"odd": str(name in "c1c3c5")}))
    page = await api.get(CONFIG_MAPS, limit=2, labelSelector="odd=True")
    assert page.names == ["c1", "c3"]
    assert "remainingItemCount" not in page.body["metadata"]
    query = {"continue": page.body["metadata"]["continue"]}
    last = await api.get(CONFIG_MAPS, limit=2, labelSelector="odd=True", **query)
    assert last.names == ["c5"]
    assert "continue" not in last.body["metadata"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ALL),
        ({"limit": "2"}, ALL[:2]),
        ({"limit": "-1"}, ALL),
        ({"limit": "5"}, ALL),
        ({"resourceVersion": "0"}, ALL),
        ({"resourceVersion": "0", "limit": "2"}, ALL),
        ({"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan", "limit": "2"}, ALL),
        ({"resourceVersion": "third"}, ALL),
        ({"resourceVersion": "third", "resourceVersionMatch": "NotOlderThan"}, ALL),
        (
            {"resourceVersion": "third", "resourceVersionMatch": "NotOlderThan", "limit": "4"},
            ALL[:4],
        ),
        ({"resourceVersion": "third", "resourceVersionMatch": "Exact"}, ALL[:3]),
        ({"resourceVersion": "third", "resourceVersionMatch": "Exact", "limit": "2"}, ALL[:2]),
        ({"resourceVersion": "third", "limit": "9"}, ALL[:3]),
        ({"resourceVersion": "before", "resourceVersionMatch": "Exact"}, []),
    ],
)
async def test_the_state_that_is_listed(
    api: ApiClient, five: list[int], query: dict[str, str], names: list[str]
) -> None:
    versions = {"third": str(five[2]), "before": str(five[0] - 1)}
    if "resourceVersion" in query:
        version = query["resourceVersion"]
        query = {**query, "resourceVersion": versions.get(version, version)}
    reply = await api.get(CONFIG_MAPS, **query)
    assert reply.names == names
    exact = query.get("resourceVersionMatch") == "Exact" or (
        "limit" in query
        and query.get("resourceVersion", "0") != "0"
        and "resourceVersionMatch" not in query
    )
    assert reply.version == (int(query["resourceVersion"]) if exact else five[-1])


async def test_an_exact_list_shows_objects_as_they_were(api: ApiClient) -> None:
    created = await api.create(CONFIG_MAPS, config_map("c", {"a": "old"}))
    await api.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "new"}})
    await api.delete(f"{CONFIG_MAPS}/c")
    query = {"resourceVersion": created["metadata"]["resourceVersion"]}
    reply = await api.get(CONFIG_MAPS, resourceVersionMatch="Exact", **query)
    assert [item["data"] for item in reply.body["items"]] == [{"a": "old"}]


FORBIDDEN, UNSUPPORTED = "FieldValueForbidden", "FieldValueNotSupported"
MATCH = "resourceVersionMatch"


@pytest.mark.parametrize(
    ("query", "cause"),
    [
        ({MATCH: "Exact"}, (FORBIDDEN, MATCH)),
        ({"resourceVersion": "0", MATCH: "Exact"}, (FORBIDDEN, MATCH)),
        ({"resourceVersion": "5", MATCH: "Foo"}, (UNSUPPORTED, MATCH)),
        ({"sendInitialEvents": "true"}, (FORBIDDEN, "sendInitialEvents")),
    ],
)
async def test_options_that_contradict_each_other_are_refused(
    api: ApiClient, query: dict[str, str], cause: tuple[str, str]
) -> None:
    reply = await api.get(CONFIG_MAPS, **query)
    assert (reply.code, reply.reason, reply.causes) == (422, "Invalid", [cause])
    assert (reply.body["details"]["kind"], reply.body["details"]["group"]) == (
        "ListOptions",
        "meta.k8s.io",
    )


@pytest.mark.parametrize(
    ("query", "start"),
    [
        ({"resourceVersion": "abc"}, "invalid resource version: "),
        ({"resourceVersion": "-1"}, "invalid resource version: "),
        ({"limit": "abc"}, 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ({"continue": "xxx"}, "invalid continue token: continue key is not valid"),
        ({"continue": token(7, "c2\0", "v2")}, "invalid continue token: "),
        ({"continue": token(0, "c2\0")}, "invalid continue token: "),
        ({"continue": token(7, "")}, "invalid continue token: "),
        ({"continue": token(7, "../secrets/x")}, "invalid continue token: "),
        (
            {"continue": token(7, "c2\0"), "resourceVersion": "9"},
            "specifying resource version is not allowed when using continue",
        ),
    ],
)
async def test_nonsense_is_a_bad_request(api: ApiClient, query: dict[str, str], start: str) -> None:
    reply = await api.get(CONFIG_MAPS, **query)
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert reply.message.startswith(start)


@pytest.mark.parametrize("match", [{}, {MATCH: "NotOlderThan"}, {MATCH: "Exact"}])
async def test_a_version_in_the_future_is_waited_for_three_seconds(
    api: ApiClient, clock: ManualClock, match: dict[str, str]
) -> None:
    task = asyncio.create_task(api.get(CONFIG_MAPS, resourceVersion=10**9, **match))
    while not task.done():
        clock.advance(1)
        await asyncio.sleep(0.001)
    reply = await task
    assert (reply.code, reply.reason) == (504, "Timeout")
    assert reply.causes == [("ResourceVersionTooLarge", "")]
    assert reply.headers["Retry-After"] == "1"


async def test_a_version_that_comes_meanwhile_is_listed(
    api: ApiClient, server: FakeApiServer
) -> None:
    future = server.resource_version + 1
    task = asyncio.create_task(api.get(CONFIG_MAPS, resourceVersion=future))
    await eventually(lambda: server.statistics().requests_in_flight == 1)
    await api.create(CONFIG_MAPS, config_map("c"))
    assert (await task).names == ["c"]


async def test_a_version_older_than_the_log_is_gone(
    api: ApiClient, server: FakeApiServer, five: list[int]
) -> None:
    server.compact()
    reply = await api.get(CONFIG_MAPS, resourceVersion=five[0], resourceVersionMatch="Exact")
    assert (reply.code, reply.reason) == (410, "Expired")
    assert reply.message == "The resourceVersion for the provided list is too old."


async def test_a_page_that_has_expired_offers_to_go_on_inconsistently(
    api: ApiClient, server: FakeApiServer, five: list[int]
) -> None:
    first = await api.get(CONFIG_MAPS, limit=2)
    await api.create(CONFIG_MAPS, config_map("c2b"))
    server.compact()
    query: dict[str, Any] = {"continue": first.body["metadata"]["continue"]}
    expired = await api.get(CONFIG_MAPS, limit=2, **query)
    assert (expired.code, expired.reason) == (410, "Expired")
    query = {"continue": expired.body["metadata"]["continue"]}
    rest = await api.get(CONFIG_MAPS, **query)
    assert rest.names == ["c2b", "c3", "c4", "c5"]


async def test_a_list_of_pods_in_one_namespace_leaves_the_others_out(api: ApiClient) -> None:
    await api.create("/api/v1/namespaces", {"metadata": {"name": "default-2"}})
    await api.create("/api/v1/namespaces/default-2/pods", pod("other"))
    await api.create(PODS, pod("mine"))
    assert (await api.get(PODS)).names == ["mine"]
