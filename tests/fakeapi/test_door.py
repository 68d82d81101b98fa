"""The package door: importing it, or its pytest plugin, imports nothing of the server."""

import subprocess
import sys

import pytest

import fakeapi

_LOADED = "print(*sorted(m for m in sys.modules if m.split('.')[0] in ('fakeapi', 'aiohttp')))"


@pytest.mark.parametrize(
    ("imported", "loaded"),
    [
        ("fakeapi", "fakeapi"),
        ("fakeapi.pytest_plugin", "fakeapi fakeapi.pytest_plugin"),
    ],
)
def test_an_import_loads_neither_aiohttp_nor_the_server(imported: str, loaded: str) -> None:
    script = f"import sys, {imported}; {_LOADED}"
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, encoding="utf-8"
    )
    assert out.stdout.strip() == loaded


def test_every_public_name_is_found() -> None:
    for name in fakeapi.__all__:
        assert getattr(fakeapi, name).__name__ == name
    assert dir(fakeapi) == sorted(fakeapi.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Server'"):
        _ = fakeapi.Server


def test_a_server_imports_rarely_used_packages_on_their_first_request() -> None:
    script = """
import asyncio, json, sys, urllib.request
from fakeapi import FakeApiServer

def create(url):
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(pod).encode(), headers)
    assert urllib.request.urlopen(request).status == 201

async def main():
    async with FakeApiServer() as server:
        await asyncio.to_thread(create, f"{server.url}/api/v1/namespaces/default/pods")
    print(*sys.modules)

asyncio.run(main())
"""
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, encoding="utf-8"
    )
    loaded = out.stdout.split()
    assert "fakeapi.kinds.pods" in loaded
    late = (
        "fakeapi.actors",
        "fakeapi.discovery.openapi",
        "google.protobuf",
    )
    assert [name for name in loaded if name.startswith(late)] == []
