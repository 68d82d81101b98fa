"""A reflector of client-go v0.36, unmodified, that follows ConfigMaps by WatchList.

The program is in go_reflector/. It is built where Go is, and the modules are or can be had.
"""

import asyncio
import contextlib
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakeapi import FakeApiServer, ServerOptions
from fakeapi.faults import AnswerWith, DropWatches, Fault, Match, RefuseWatchList
from tests.fakeapi.api_client import ApiClient
from tests.fakeapi.objects import CONFIG_MAPS, config_map
from tests.thoroughness import thorough_only

SOURCE = Path(__file__).parent / "go_reflector"
GO = shutil.which("go")
#: Everything of client-go is compiled where Go's build cache is empty.
BUILD_SECONDS = 900.0
PATIENCE_SECONDS = 60.0
WATCHES = Match(verb="watch", resource="configmaps")

pytestmark = [
    pytest.mark.slow,
    thorough_only,  # client-go is compiled for more than a minute
    pytest.mark.skipif(GO is None, reason="there is no Go here"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built. Modules that cannot be had are no failure; code that is wrong is."""
    if (found := _go("list", "-deps", ".")).returncode != 0:
        pytest.skip(f"no modules: {found.stderr[-300:]}")
    path = tmp_path_factory.mktemp("go") / "go_reflector"
    built = _go("build", "-buildvcs=false", "-o", str(path), ".")
    assert built.returncode == 0, built.stderr
    return path


def _go(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(GO), *arguments],
        cwd=SOURCE,
        capture_output=True,
        encoding="utf-8",
        timeout=BUILD_SECONDS,
        check=False,
    )


class Reflector:
    """The program's store, and the calls that filled it."""

    def __init__(self, server: FakeApiServer, api: ApiClient, lines: asyncio.StreamReader) -> None:
        self.server = server
        self.api = api
        self.objects: dict[str, str] = {}
        self.calls: list[str] = []
        self._lines = lines

    async def until(self, wanted: dict[str, str]) -> None:
        """Read on until the store is as wanted, and something was read."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            self._take(await self._lines.readline())
            while self.objects != wanted:
                self._take(await self._lines.readline())

    def _take(self, line: bytes) -> None:
        assert line, "the reflector has ended"
        change: dict[str, Any] = json.loads(line)
        self.calls.append(change["op"])
        if change["op"] == "replace":
            self.objects = {}
        if change["op"] == "delete":
            for name in change["objects"]:
                del self.objects[name]
        else:
            self.objects |= change["objects"]

    async def put(self, name: str, value: str) -> None:
        """Create or change an object."""
        changed = await self.api.patch(f"{CONFIG_MAPS}/{name}", {"data": {"value": value}})
        if changed.code == 404:
            await self.api.create(CONFIG_MAPS, config_map(name, {"value": value}))

    def asked(self) -> list[str]:
        """The requests of the reflector, in short."""
        queries = [
            request.path
            for request in self.server.requests
            if request.user_agent.startswith("go_reflector")
        ]
        return [_in_short(query) for query in queries]


def _in_short(query: str) -> str:
    if "sendInitialEvents=true" in query:
        return "watch list"
    return "watch" if "watch=true" in query else "list"


@contextlib.asynccontextmanager
async def reflecting(program: Path, directory: Path, *faults: Fault) -> AsyncIterator[Reflector]:
    """A reflector of three ConfigMaps that has synced."""
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", **config_map(name, {"value": "1"})}
        for name in ("a", "b", "c")
    ]
    for item in objects:
        item["metadata"]["namespace"] = "default"
    async with (
        FakeApiServer(
            load=objects, faults=faults, options=ServerOptions(requests_kept=1000)
        ) as server,
        aiohttp.ClientSession() as session,
    ):
        kubeconfig = server.write_kubeconfig(directory / "kubeconfig")
        with (directory / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                program, f"--kubeconfig={kubeconfig}", stdout=asyncio.subprocess.PIPE, stderr=log
            )
        try:
            assert process.stdout is not None
            reflector = Reflector(server, ApiClient(session, server.url), process.stdout)
            await reflector.until({"a": "1", "b": "1", "c": "1"})
            yield reflector
        finally:
            process.terminate()
            await process.wait()
        assert process.returncode == 0


async def test_it_syncs_by_watch_list_and_follows(program: Path, tmp_path: Path) -> None:
    async with reflecting(program, tmp_path) as reflector:
        assert reflector.calls == ["replace"]
        await reflector.put("a", "2")
        await reflector.put("d", "1")
        await reflector.api.delete(f"{CONFIG_MAPS}/b")
        await reflector.until({"a": "2", "c": "1", "d": "1"})
        assert reflector.calls == ["replace", "update", "add", "delete"]
        assert reflector.asked() == ["watch list"]


@pytest.mark.parametrize("how", ["eof", "reset"])
async def test_it_goes_on_where_a_dropped_watch_ended(
    program: Path, tmp_path: Path, how: str
) -> None:
    async with reflecting(program, tmp_path) as reflector:
        # client-go lists anew where a watch ends within a second without an event.
        await reflector.put("d", "1")
        await reflector.until({"a": "1", "b": "1", "c": "1", "d": "1"})
        reflector.server.faults.add(Fault(match=WATCHES, drop_watches=DropWatches(how=how)))
        await reflector.put("a", "2")
        await reflector.api.delete(f"{CONFIG_MAPS}/b")
        await reflector.until({"a": "2", "c": "1", "d": "1"})
        assert reflector.calls == ["replace", "add", "update", "delete"]
        assert reflector.asked() == ["watch list", "watch"]


async def test_a_watch_of_a_compacted_version_begins_with_a_list(
    program: Path, tmp_path: Path
) -> None:
    async with reflecting(program, tmp_path) as reflector:
        # Turned away, so that it cannot be back before the past is forgotten.
        await reflector.put("b", "2")
        await reflector.until({"a": "1", "b": "2", "c": "1"})
        away = Fault(name="away", match=WATCHES, answer=AnswerWith(code=429))
        reflector.server.faults.add(away, Fault(match=WATCHES, drop_watches=DropWatches()))
        await reflector.put("a", "2")
        await reflector.put("a", "3")
        await reflector.api.delete(f"{CONFIG_MAPS}/b")
        reflector.server.compact()
        reflector.server.faults.remove("away")
        await reflector.until({"a": "3", "c": "1"})
        assert reflector.calls == ["replace", "update", "replace"]
        first, *between, last = reflector.asked()
        assert (first, set(between), last) == ("watch list", {"watch"}, "watch list")


async def test_without_watch_list_it_lists_and_watches(program: Path, tmp_path: Path) -> None:
    refuses = Fault(match=WATCHES, refuse_watch_list=RefuseWatchList())
    async with reflecting(program, tmp_path, refuses) as reflector:
        await reflector.put("a", "2")
        await reflector.until({"a": "2", "b": "1", "c": "1"})
        assert reflector.calls == ["replace", "update"]
        assert reflector.asked() == ["watch list", "list", "watch"]
