"""Servers with files of state, for tests of saved and restored states."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from fakeapi import FakeApiServer, ManualClock, ServerOptions, StateFiles

from .api_client import ApiClient

FIRST_VERSION = 100
_FILES = ("data", "snapshot", "restore", "record")
#: The ports of servers by their file: started again, a server has its port, as clients expect.
PORTS: dict[object, int] = {}


@contextlib.asynccontextmanager
async def serving(
    clock: ManualClock | None = None, **options: Any
) -> AsyncIterator[tuple[FakeApiServer, ApiClient]]:
    """Yield a server with these files of state, and a client; others are the server's keywords."""
    files = StateFiles(**{name: options.pop(name) for name in _FILES if name in options})
    given = options.pop("options", ServerOptions())
    first = given.initial_resource_version or FIRST_VERSION
    kept = [path for path in (files.data, files.snapshot, files.restore) if path is not None]
    options.setdefault("port", next((PORTS[path] for path in kept if path in PORTS), 0))
    server = FakeApiServer(
        clock=clock or ManualClock(),
        state=files,
        options=dataclasses.replace(given, initial_resource_version=first),
        **options,
    )
    async with server, aiohttp.ClientSession() as session:
        PORTS.update(dict.fromkeys(kept, server.port))
        yield server, ApiClient(session, server.url)


async def everything(api: ApiClient, *paths: str) -> dict[str, Any]:
    """The lists under these paths, as they are answered."""
    return {path: (await api.get(path)).body for path in paths}


def content_of(path: Path) -> bytes:
    """Return the content of a file."""
    return path.read_bytes()


def names_beside(path: Path) -> list[str]:
    """The names in the directory of a file."""
    return sorted(file.name for file in path.parent.iterdir())


def cut(path: Path, kept: int) -> None:
    """Keep only so many bytes of a file; all but so many if the number is negative."""
    path.write_bytes(path.read_bytes()[:kept])
