"""State over the life and death of real `kubesched-fakeapi` processes."""

import asyncio
import contextlib
import dataclasses
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.integration.test_fakeapi_process import failed

COMMAND = [sys.executable, "-m", "fakeapi"]
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECONDS = 30.0
WRITERS = 6
ROUNDS = 6
MERGE = {"Content-Type": "application/merge-patch+json"}


@contextlib.asynccontextmanager
async def running(*flags: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A server and its URL; it is terminated at the end, if it is not dead by then."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), SECONDS)
        assert line, (await process.communicate())[1].decode()
        yield process, line.decode().strip()
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.communicate(), SECONDS)


async def names(url: str, path: str = CONFIG_MAPS) -> list[str]:
    async with aiohttp.ClientSession() as session, session.get(url + path) as answer:
        return [item["metadata"]["name"] for item in (await answer.json())["items"]]


async def create(url: str, name: str) -> dict[str, Any]:
    body = {"metadata": {"name": name}}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + CONFIG_MAPS, json=body) as answer,
    ):
        assert answer.status == 201, await answer.text()
        created: dict[str, Any] = await answer.json()
        return created


@dataclasses.dataclass
class Ledger:
    """The responses that clients got, over all lives of a server."""

    #: The newest acknowledged object by name, None if it was deleted; and the uncertain writes.
    acknowledged: dict[str, dict[str, Any] | None] = dataclasses.field(default_factory=dict)
    in_doubt: set[str] = dataclasses.field(default_factory=set)
    #: Version -> what clients saw under it, in answers and events.
    seen: dict[int, str] = dataclasses.field(default_factory=dict)
    writes: int = 0

    def saw(self, obj: dict[str, Any]) -> None:
        """Check that no two different objects have been seen with the same version."""
        version = int(obj["metadata"]["resourceVersion"])
        content = json.dumps([obj["metadata"]["name"], obj.get("data")])
        assert self.seen.setdefault(version, content) == content

    @property
    def newest(self) -> int:
        return max(self.seen, default=0)


async def write_until_death(url: str, writer: int, ledger: Ledger, chance: random.Random) -> None:
    """Creates, changes and deletions, each noted once it is acknowledged."""
    async with aiohttp.ClientSession() as session:
        for number in range(1_000_000):
            name = f"w{writer}-{chance.randrange(8)}"
            try:
                await write_once(session, url, name, number, ledger, chance)
            except aiohttp.ClientError:
                return
            ledger.in_doubt.discard(name)
            ledger.writes += 1


async def write_once(
    session: aiohttp.ClientSession,
    url: str,
    name: str,
    number: int,
    ledger: Ledger,
    chance: random.Random,
) -> None:
    ledger.in_doubt.add(name)
    one, data = f"{url}{CONFIG_MAPS}/{name}", {"number": str(number)}
    if ledger.acknowledged.get(name) is None:
        body = {"metadata": {"name": name}, "data": data}
        async with session.post(url + CONFIG_MAPS, json=body) as answer:
            assert answer.status == 201, await answer.text()
            stored = await answer.json()
    elif chance.random() < 0.3:
        async with session.delete(one) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()
        ledger.acknowledged[name] = None
        return
    else:
        async with session.patch(one, json={"data": data}, headers=MERGE) as answer:
            assert answer.status == 200, await answer.text()
            stored = await answer.json()
    ledger.saw(stored)
    ledger.acknowledged[name] = stored


async def watch_until_death(url: str, ledger: Ledger, version: str, heard: list[int]) -> None:
    """Count every event as seen; the versions must be in order, and none twice."""
    query = {"watch": "true", "resourceVersion": version}
    with contextlib.suppress(aiohttp.ClientError):
        async with (
            aiohttp.ClientSession() as session,
            session.get(url + CONFIG_MAPS, params=query) as answer,
        ):
            async for line in answer.content:
                if not line.endswith(b"\n"):
                    return  # half an event was never seen
                event = json.loads(line)
                assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
                ledger.saw(event["object"])
                heard.append(int(event["object"]["metadata"]["resourceVersion"]))


async def check(url: str, ledger: Ledger) -> str:
    """Check that acknowledged writes exist; return the version of the list."""
    async with aiohttp.ClientSession() as session, session.get(url + CONFIG_MAPS) as answer:
        listed = await answer.json()
    stored = {item["metadata"]["name"]: item for item in listed["items"]}
    for name, expected in ledger.acknowledged.items():
        if name not in ledger.in_doubt:
            assert stored.get(name) == _untyped(expected), name
    assert int(listed["metadata"]["resourceVersion"]) >= ledger.newest
    for name in ledger.in_doubt:  # from here on the server's state counts
        ledger.acknowledged[name] = stored.get(name)
    ledger.in_doubt.clear()
    version: str = listed["metadata"]["resourceVersion"]
    return version


def _untyped(obj: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the object in the form of an item of a list."""
    if obj is None:
        return None
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


async def test_no_acknowledged_write_is_lost_by_kill_9(tmp_path: Path) -> None:
    chance, ledger = random.Random(9), Ledger()
    flags = ("--data", str(tmp_path / "state.db"), "--event-log-size", "100000")
    heard: list[int] = []
    beginning = ""
    for _ in range(ROUNDS):
        async with running(*flags) as (process, url):
            version = await check(url, ledger)
            beginning = beginning or version
            # The watch resumes where the one before it broke off.
            watching = watch_until_death(url, ledger, str(max([*heard, int(beginning)])), heard)
            writing = [write_until_death(url, n, ledger, chance) for n in range(WRITERS)]
            tasks = asyncio.gather(watching, *writing)
            goal = ledger.writes + chance.randrange(1, 400)
            while ledger.writes < goal and not tasks.done():  # noqa: ASYNC110 - HTTP
                await asyncio.sleep(0)
            process.kill()
            await tasks
    async with running(*flags) as (_, url):
        latest = await check(url, ledger)
        resumed = str(max([*heard, int(beginning)]))
        gone = asyncio.create_task(watch_until_death(url, ledger, resumed, heard))
        created = await create(url, "last")
        while not heard or heard[-1] < int(created["metadata"]["resourceVersion"]):  # noqa: ASYNC110 - HTTP
            await asyncio.sleep(0.01)
        gone.cancel()
        everything: list[int] = []
        replayed = asyncio.create_task(watch_until_death(url, ledger, beginning, everything))
        while not everything or everything[-1] < heard[-1]:  # noqa: ASYNC110 - HTTP
            await asyncio.sleep(0.01)
        replayed.cancel()
    assert ledger.writes > ROUNDS
    assert int(latest) < heard[-1]
    assert heard == everything  # nothing missed and nothing twice, over all lives


def _small_files() -> None:
    """In the child: files beyond that size cannot be written, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


async def test_a_disk_that_is_full_ends_the_process_but_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with subprocess.Popen(  # noqa: ASYNC220 - the limit is set in the child
        [*COMMAND, "--data", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        preexec_fn=_small_files,
        # Coverage writes a file as well, which would not fit either.
        env={name: v for name, v in os.environ.items() if not name.startswith("COVERAGE_")},
    ) as process:
        assert process.stdout is not None
        url = (await asyncio.to_thread(process.stdout.readline)).strip()
        acknowledged = []
        async with aiohttp.ClientSession() as session:
            for number in range(1000):
                body = {"metadata": {"name": f"c{number:04}"}, "data": {"a": "b" * 1000}}
                try:
                    async with session.post(url + CONFIG_MAPS, json=body) as answer:
                        if answer.status != 201:
                            assert answer.status == 500
                            break
                except aiohttp.ClientError:
                    break
                acknowledged.append(body["metadata"]["name"])
        _, errors = await asyncio.to_thread(process.communicate)
    assert process.returncode == 1
    assert errors.startswith(f"kubesched-fakeapi: {path}: ")
    assert errors.count("\n") == 1
    assert len(acknowledged) > 10
    async with running("--data", str(path)) as (_, url):
        assert await names(url) == acknowledged


async def test_a_snapshot_is_saved_on_a_signal_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    async with running("--snapshot", str(path)) as (process, url):
        await create(url, "a")
        assert not path.exists()
        process.send_signal(signal.SIGUSR1)
        while not path.exists():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
        await create(url, "b")
        process.kill()
    async with running("--snapshot", str(path)) as (process, url):
        assert await names(url) == ["a"]
        created = await create(url, "c")
        process.terminate()
        assert await process.wait() == 0
    async with running("--restore", str(path)) as (_, url):
        assert await names(url) == ["a", "c"]
        later = await create(url, "d")
        versions = [int(obj["metadata"]["resourceVersion"]) for obj in (created, later)]
        assert versions[0] < versions[1]


async def test_a_recording_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    async with running("--record", str(path)) as (process, url):
        created = await create(url, "a")
        process.kill()
    async with running("--replay", str(path), "--speed", "0") as (_, url):
        while await names(url) != ["a"]:  # noqa: ASYNC110 - HTTP
            await asyncio.sleep(0.01)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{url}{CONFIG_MAPS}/a") as answer,
        ):
            assert (await answer.json())["metadata"]["uid"] == created["metadata"]["uid"]


@pytest.mark.parametrize("flag", ["--restore", "--snapshot", "--data", "--replay"])
def test_a_damaged_file_is_one_line_and_exit_code_1(tmp_path: Path, flag: str) -> None:
    path = tmp_path / "state"
    path.write_text("once upon a time\n" * 100, encoding="utf-8")
    code, errors = failed(flag, str(path))
    assert code == 1
    assert errors.startswith(f"kubesched-fakeapi: {path}: ")
    assert errors.count("\n") == 1


def test_a_database_in_use_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        code, errors = failed("--data", str(path))
    expected = f"kubesched-fakeapi: {path}: database is locked: another process is using it\n"
    assert (code, errors) == (1, expected)


@pytest.mark.parametrize("arguments", [["--speed", "2"], ["--replay", "x", "--speed", "inf"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    code, errors = failed(*arguments)
    assert code == 2
    assert "--speed" in errors
