"""The state that a list shows: upstream's table of versions, matches, limits, continue tokens.

Source: apiserver pkg/storage/testing/store_tests.go of v0.36.3, RunTestList, over HTTP. The rows
carry upstream's names where it has one. The eight writes are upstream's:

    1 create first/bar    2 create second/bar     3 create second/foo   4 create third/barfoo
    5 create third/foo    6 create second/baz     7 update first/bar    8 delete second/baz
"""

import asyncio
import base64
import dataclasses
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock, ServerOptions
from tests.fakeapi.api_client import ApiClient
from tests.fakeapi.objects import NAMESPACES, config_map

ALL = "/api/v1/configmaps"
BAR1, BAR2, FOO2, BAZ2, BARFOO3, FOO3 = (
    "first/bar", "second/bar", "second/foo", "second/baz", "third/barfoo", "third/foo",
)  # fmt: skip
NOW = [BAR1, BAR2, FOO2, BARFOO3, FOO3]
EXACT, NEWER = "Exact", "NotOlderThan"
BAR, FOO, BARFOO = (f"metadata.name={name}" for name in ("bar", "foo", "barfoo"))
NOTHING: list[str] = []
#: A selector hides how many remain.
HIDDEN = -1


@dataclasses.dataclass(frozen=True)
class World:
    """A server after the eight writes; `versions[n]` is that after write n, [9] one no pod made."""

    api: ApiClient
    versions: list[int]

    def version(self, name: str) -> str:
        """A version by its name in the tables: `w3` is that of the third write."""
        if name.startswith("w"):
            return str(self.versions[int(name[1:])])
        return str(self.versions[9] + 5) if name == "future" else name

    def token(self, write: str, start: str) -> str:
        version = int(self.version(write))
        content = {"v": "meta.k8s.io/v1", "rv": version, "start": start}
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


@pytest.fixture
async def world(clock: ManualClock, session: aiohttp.ClientSession) -> AsyncIterator[World]:
    async with FakeApiServer(
        clock=clock, seed=1, options=ServerOptions(initial_resource_version=100)
    ) as server:
        api = ApiClient(session, server.url)
        for namespace in ("first", "second", "third"):
            await api.create(NAMESPACES, {"metadata": {"name": namespace}})
        server.compact()
        versions = [server.resource_version]
        for key in (BAR1, BAR2, FOO2, BARFOO3, FOO3, BAZ2):
            namespace, name = key.split("/")
            await api.create(f"/api/v1/namespaces/{namespace}/configmaps", config_map(name))
            versions.append(server.resource_version)
        path = "/api/v1/namespaces/first/configmaps/bar"
        await api.patch(path, {"data": {"updated": "yes"}})
        versions.append(server.resource_version)
        await api.delete("/api/v1/namespaces/second/configmaps/baz")
        versions.append(server.resource_version)
        await api.create(NAMESPACES, {"metadata": {"name": "later"}})
        versions.append(server.resource_version)
        yield World(api, versions)


def said(token: str) -> tuple[int, str]:
    """Version and start of a continue token."""
    content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert content["v"] == "meta.k8s.io/v1"
    return content["rv"], content["start"]


def keys(items: list[dict[str, Any]]) -> list[str]:
    return [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in items]


#: Name: version, match, limit, selector; then the names listed, the version, the number remaining
#: (None: no further page).
ROWS: dict[str, tuple[str, str, int, str, list[str], str, int | None]] = {
    "consistent": ("", "", 0, "", NOW, "w9", None),
    "resource version set to 0": ("0", "", 0, "", NOW, "w9", None),
    "set to 0, match=NotOlderThan": ("0", NEWER, 0, "", NOW, "w9", None),
    "set before first write, match=NotOlderThan": ("w1", NEWER, 0, "", NOW, "w9", None),
    "set to current": ("w9", "", 0, "", NOW, "w9", None),
    "set to current, match=Exact": ("w9", EXACT, 0, "", NOW, "w9", None),
    "set to current, match=NotOlderThan": ("w9", NEWER, 0, "", NOW, "w9", None),
    "of first write, match=Exact": ("w1", EXACT, 0, "", [BAR1], "w1", None),
    "of second write, match=Exact": ("w2", EXACT, 0, "", [BAR1, BAR2], "w2", None),
    "of third write, match=Exact": ("w3", EXACT, 0, "", [BAR1, BAR2, FOO2], "w3", None),
    "of fourth write, match=Exact": ("w4", EXACT, 0, "", NOW[:4], "w4", None),
    "of fifth write, match=Exact": ("w5", EXACT, 0, "", NOW, "w5", None),
    "of sixth write, match=Exact": (
        "w6", EXACT, 0, "", [BAR1, BAR2, BAZ2, FOO2, BARFOO3, FOO3], "w6", None,
    ),
    "of seventh write, match=Exact": (
        "w7", EXACT, 0, "", [BAR1, BAR2, BAZ2, FOO2, BARFOO3, FOO3], "w7", None,
    ),
    "of eighth write, match=Exact": ("w8", EXACT, 0, "", NOW, "w8", None),
    "after writes, match=Exact": ("w9", EXACT, 0, "", NOW, "w9", None),
    "limit": ("", "", 1, "", [BAR1], "w9", 4),
    "limit at current": ("w9", "", 1, "", [BAR1], "w9", 4),
    "limit at current, match=Exact": ("w9", EXACT, 1, "", [BAR1], "w9", 4),
    "limit at current, match=NotOlderThan": ("w9", NEWER, 1, "", [BAR1], "w9", 4),
    "limit at resource version 0": ("0", "", 1, "", NOW, "w9", None),
    "limit at resource version 0, match=NotOlderThan": ("0", NEWER, 1, "", NOW, "w9", None),
    "limit of everything": ("", "", 5, "", NOW, "w9", None),
    "limit of more than everything": ("", "", 9, "", NOW, "w9", None),
    "negative limit": ("", "", -1, "", NOW, "w9", None),
    "limit, of second write, match=Exact": ("w2", EXACT, 1, "", [BAR1], "w2", 1),
    "limit, of second write, legacy exact": ("w2", "", 1, "", [BAR1], "w2", 1),
    "limit, of third write, match=Exact": ("w3", EXACT, 2, "", [BAR1, BAR2], "w3", 1),
    "limit, of fourth write, match=Exact": ("w4", EXACT, 4, "", NOW[:4], "w4", None),
    "limit, of fifth write, match=Exact": ("w5", EXACT, 1, "", [BAR1], "w5", 4),
    "limit, of sixth write, match=Exact": ("w6", EXACT, 2, "", [BAR1, BAR2], "w6", 4),
    "limit, of seventh write, match=Exact": ("w7", EXACT, 4, "", [BAR1, BAR2, BAZ2, FOO2], "w7", 2),
    "limit, of eighth write, match=Exact": ("w8", EXACT, 5, "", NOW, "w8", None),
    "filter returning only one item, ensure only a single page returned": (
        "", "", 1, BARFOO, [BARFOO3], "w9", HIDDEN,
    ),
    "filter returning only one item, covers the entire list": (
        "", "", 2, BARFOO, [BARFOO3], "w9", None,
    ),
    "filter returning only one item, with resource version 0": (
        "0", "", 2, BARFOO, [BARFOO3], "w9", None,
    ),
    "filter returning two items, more pages possible": ("", "", 2, BAR, [BAR1, BAR2], "w9", HIDDEN),
    "filter returns two items split across multiple pages": (
        "", "", 2, FOO, [FOO2, FOO3], "w9", None,
    ),
    "filter returns two items, page size equal to total list size": (
        "", "", 5, FOO, [FOO2, FOO3], "w9", None,
    ),
    "filter returns two items, match=NotOlderThan": ("w9", NEWER, 2, FOO, [FOO2, FOO3], "w9", None),
    "filter for a deleted object": ("", "", 5, "metadata.name=baz", NOTHING, "w9", None),
    "filter for it before it was deleted": (
        "w7", EXACT, 0, "metadata.name=baz", [BAZ2], "w7", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
async def test_a_list_has_the_version_it_asked_for(
    world: World, row: tuple[str, str, int, str, list[str], str, int | None]
) -> None:
    version, match, limit, selector, expected, at, remaining = row
    query: dict[str, Any] = {"fieldSelector": selector}
    query |= {"resourceVersion": world.version(version)} if version else {}
    query |= {"resourceVersionMatch": match} if match else {}
    query |= {"limit": limit} if limit else {}
    reply = await world.api.get(ALL, **query)
    assert reply.code == 200, reply.body
    assert keys(reply.body["items"]) == expected
    metadata = reply.body["metadata"]
    assert metadata["resourceVersion"] == world.version(at)
    assert ("continue" in metadata) is (remaining is not None)
    assert metadata.get("remainingItemCount", HIDDEN) == (
        HIDDEN if remaining is None else remaining
    )
    if remaining is not None:
        assert said(metadata["continue"]) == (int(world.version(at)), f"{expected[-1]}\0")


async def test_list_shows_the_updated_object(world: World) -> None:
    now = await world.api.get(ALL)
    assert now.body["items"][0]["data"] == {"updated": "yes"}
    query = {"resourceVersion": world.version("w6"), "resourceVersionMatch": EXACT}
    before = await world.api.get(ALL, **query)
    assert "data" not in before.body["items"][0]


#: Name: version in the token, where it begins, limit, selector; the names listed, the version
#: and the number remaining.
TOKENS: dict[str, tuple[str, str, int, str, list[str], str, int | None]] = {
    "pregenerated continue token": ("w8", f"{FOO2}", 1, "", [FOO2], "w8", 2),
    "of first write": ("w1", f"{BAR1}\0", 1, "", NOTHING, "w1", None),
    "of second write": ("w2", f"{BAR1}\0", 1, "", [BAR2], "w2", None),
    "of third write": ("w3", f"{BAR1}\0", 2, "", [BAR2, FOO2], "w3", None),
    "of fifth write": ("w5", f"{BAR1}\0", 1, "", [BAR2], "w5", 3),
    "of sixth write": ("w6", f"{BAR1}\0", 2, "", [BAR2, BAZ2], "w6", 3),
    "of seventh write": ("w7", f"{BAR2}\0", 9, "", [BAZ2, FOO2, BARFOO3, FOO3], "w7", None),
    "after writes": ("w9", f"{BAR1}\0", 3, "", [BAR2, FOO2, BARFOO3], "w9", 1),
    "without a limit": ("w8", f"{BAR2}\0", 0, "", [FOO2, BARFOO3, FOO3], "w8", None),
    "filter returns one item for last page, ends on last item, not full": (
        "w8", BARFOO3, 2, FOO, [FOO3], "w8", None,
    ),
    "filter returns one item for last page, starts on last item, full": (
        "w8", BARFOO3, 1, FOO, [FOO3], "w8", None,
    ),
    "from second, negative resource version gives consistent read": (
        "-1", f"{BAR1}\0", 0, "", NOW[1:], "w9", None,
    ),
    "from second and limit, negative resource version gives consistent read": (
        "-1", f"{BAR1}\0", 2, "", [BAR2, FOO2], "w9", 2,
    ),
    "from third, negative resource version gives consistent read": (
        "-1", f"{FOO2}\0", 0, "", [BARFOO3, FOO3], "w9", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", TOKENS.values(), ids=TOKENS.keys())
async def test_a_continued_list_keeps_its_version(
    world: World, row: tuple[str, str, int, str, list[str], str, int | None]
) -> None:
    write, start, limit, selector, expected, at, remaining = row
    query: dict[str, Any] = {"continue": world.token(write, start), "fieldSelector": selector}
    query |= {"limit": limit} if limit else {}
    reply = await world.api.get(ALL, **query)
    assert reply.code == 200, reply.body
    assert keys(reply.body["items"]) == expected
    metadata = reply.body["metadata"]
    assert metadata["resourceVersion"] == world.version(at)
    assert ("continue" in metadata) is (remaining is not None)
    assert metadata.get("remainingItemCount") == remaining


async def test_resource_version_0_is_ignored_with_a_token_but_for_the_limit(world: World) -> None:
    query = {"continue": world.token("w7", f"{BAR2}\0"), "resourceVersion": "0"}
    reply = await world.api.get(ALL, limit=1, **query)
    assert keys(reply.body["items"]) == [BAZ2, FOO2, BARFOO3, FOO3]
    assert reply.version == world.versions[7]


#: Name: the query, then code, reason and causes.
REFUSALS: dict[str, tuple[dict[str, str], int, str, list[tuple[str, str]]]] = {
    "rejects invalid resource version": ({"resourceVersion": "abc"}, 400, "BadRequest", []),
    "negative resource version fails": ({"resourceVersion": "-1"}, 400, "BadRequest", []),
    "rejects resource version and continue token": (
        {"resourceVersion": "w8", "continue": f"w8:{BAR1}\0"}, 400, "BadRequest", [],
    ),
    "rejects resource version set too high": (
        {"resourceVersion": "future"}, 504, "Timeout", [("ResourceVersionTooLarge", "")],
    ),
    "future resource version, match=Exact": (
        {"resourceVersion": "future", "resourceVersionMatch": EXACT}, 504, "Timeout",
        [("ResourceVersionTooLarge", "")],
    ),
    "future resource version, match=NotOlderThan": (
        {"resourceVersion": "future", "resourceVersionMatch": NEWER}, 504, "Timeout",
        [("ResourceVersionTooLarge", "")],
    ),
    "before first write, match=Exact": (
        {"resourceVersion": "1", "resourceVersionMatch": EXACT}, 410, "Expired", [],
    ),
    "before first write, limit": ({"resourceVersion": "1", "limit": "1"}, 410, "Expired", []),
    "resource version 0, match=Exact": (
        {"resourceVersion": "0", "resourceVersionMatch": EXACT}, 422, "Invalid",
        [("FieldValueForbidden", "resourceVersionMatch")],
    ),
    "match=Invalid": (
        {"resourceVersion": "w8", "resourceVersionMatch": "Invalid"}, 422, "Invalid",
        [("FieldValueNotSupported", "resourceVersionMatch")],
    ),
    "match without resource version": (
        {"resourceVersionMatch": NEWER}, 422, "Invalid",
        [("FieldValueForbidden", "resourceVersionMatch")],
    ),
    "match with continue": (
        {"resourceVersion": "w8", "resourceVersionMatch": EXACT, "continue": f"w8:{BAR1}\0"},
        422, "Invalid", [("FieldValueForbidden", "resourceVersionMatch")],
    ),
    "sendInitialEvents on a list": (
        {"sendInitialEvents": "true"}, 422, "Invalid",
        [("FieldValueForbidden", "sendInitialEvents")],
    ),
    "continue from empty fails": ({"continue": "w8:"}, 400, "BadRequest", []),
    "continue with resource version 0 in the token fails": (
        {"continue": f"0:{BAR1}\0"}, 400, "BadRequest", [],
    ),
    "continue outside of the prefix fails": ({"continue": "w8:../x"}, 400, "BadRequest", []),
    "continue that is no token": ({"continue": "%%%"}, 400, "BadRequest", []),
    "continue before first write": ({"continue": f"1:{BAR1}\0"}, 410, "Expired", []),
    "limit that is no number": ({"limit": "many"}, 400, "BadRequest", []),
}  # fmt: skip


@pytest.mark.parametrize("row", REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_list_with_a_bad_version_is_refused(
    world: World,
    clock: ManualClock,
    row: tuple[dict[str, str], int, str, list[tuple[str, str]]],
) -> None:
    query, code, reason, causes = row
    sent = dict(query)
    if "resourceVersion" in sent:
        sent["resourceVersion"] = world.version(sent["resourceVersion"])
    if ":" in sent.get("continue", ""):
        write, _, start = sent["continue"].partition(":")
        sent["continue"] = world.token(write, start)
    if code == 504:
        reply = await _patiently(world.api, clock, sent)
        assert reply.headers["Retry-After"] == "1"
    else:
        reply = await world.api.get(ALL, **sent)
    assert (reply.code, reply.reason, reply.causes) == (code, reason, causes)


async def _patiently(api: ApiClient, clock: ManualClock, query: dict[str, str]) -> Any:
    """The answer to a list that waits three seconds."""
    waiting = asyncio.create_task(api.get(ALL, **query))
    while not waiting.done():
        clock.advance(0.5)
        await asyncio.sleep(0)
    return await waiting


async def test_an_expired_page_hands_out_a_token_to_go_on_with(world: World) -> None:
    expired = await world.api.get(ALL, limit=2, **{"continue": world.token("1", f"{BAR2}\0")})
    assert (expired.code, expired.reason) == (410, "Expired")
    token = expired.body["metadata"]["continue"]
    assert said(token) == (-1, f"{BAR2}\0")
    rest = await world.api.get(ALL, limit=2, **{"continue": token})
    assert keys(rest.body["items"]) == [FOO2, BARFOO3]
    assert rest.version == world.versions[9]
