"""kopf, unmodified: an operator on pods in a process of its own, and its changes."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakeapi import FakeApiServer, ServerOptions
from fakeapi.faults import DropWatches, Fault, Match
from tests.fakeapi.api_client import ApiClient, Stream
from tests.fakeapi.objects import ALL_PODS, CORE_EVENTS, PODS, pod

from .clients import PATIENCE_SECONDS

Json = dict[str, Any]

OPERATOR = Path(__file__).parent / "pod_operator.py"
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"

pytest.importorskip("kopf")
pytestmark = pytest.mark.slow


class Operated:
    """A server, an operator on its pods, and a watch of them."""

    def __init__(self, server: FakeApiServer, api: ApiClient, pods: Stream) -> None:
        self.server = server
        self.api = api
        self._pods = pods

    async def annotated(self, key: str) -> Json:
        """Return the first changed pod that has the annotation."""
        while True:
            event = await self._next()
            if f"example.com/{key}" in annotations(event["object"]):
                return dict(event["object"])

    async def gone(self) -> Json:
        """Return the next pod that is deleted, in its last version."""
        while (event := await self._next())["type"] != "DELETED":
            pass
        return dict(event["object"])

    def watches_begun(self) -> int:
        """Return how often the operator has begun to watch pods."""
        asked = [request for request in self.server.requests if "kopf" in request.user_agent]
        return sum("/pods?" in request.path and "watch=" in request.path for request in asked)

    async def _next(self) -> Json:
        event = await self._pods.next(patience_seconds=PATIENCE_SECONDS)
        assert event is not None, "the watch has ended"
        return event


def annotations(obj: Json) -> Json:
    return dict(obj["metadata"].get("annotations", {}))


@contextlib.asynccontextmanager
async def operator(server: FakeApiServer, directory: Path) -> AsyncIterator[None]:
    """Run the operator; it must end well on SIGTERM."""
    kubeconfig = server.write_kubeconfig(directory / "kubeconfig")
    with (directory / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kopf", "run", "--standalone", "--all-namespaces", OPERATOR),
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdout=log,
            stderr=log,
        )
    try:
        yield
    except BaseException:
        sys.stderr.write((directory / "log").read_text(encoding="utf-8"))
        raise
    finally:
        process.terminate()
        status = await process.wait()
    assert status == 0


@pytest.fixture
async def operated(tmp_path: Path) -> AsyncIterator[Operated]:
    async with (
        FakeApiServer(options=ServerOptions(requests_kept=1000)) as server,
        aiohttp.ClientSession() as session,
        operator(server, tmp_path),
    ):
        api = ApiClient(session, server.url)
        async with api.watch(ALL_PODS) as pods:
            yield Operated(server, api, pods)


async def test_pods_are_followed_from_the_cradle_to_the_grave(operated: Operated) -> None:
    api = operated.api
    await api.create(PODS, pod("p"))
    welcomed = await operated.annotated("created")
    assert welcomed["metadata"]["finalizers"] == [FINALIZER]
    # A pod has no such field, whatever the operator writes there.
    assert "created" not in welcomed["status"]
    await api.patch(f"{PODS}/p", {"metadata": {"labels": {"team": "x"}}})
    moved = await operated.annotated("moved")
    assert annotations(moved)["example.com/moved"] == "None to x"
    assert (await api.delete(f"{PODS}/p")).code == 200
    held = await operated.annotated("deleted")
    assert "deletionTimestamp" in held["metadata"]
    await operated.gone()
    assert (await api.get(f"{PODS}/p")).code == 404
    async with api.watch(CORE_EVENTS) as events:
        while True:
            event = await events.next(patience_seconds=PATIENCE_SECONDS)
            assert event is not None
            if event["object"]["reason"] == "Welcomed":
                break
    said = event["object"]
    assert (said["message"], said["involvedObject"]["name"]) == ("here is a pod", "p")


async def test_nothing_is_missed_when_watches_end(operated: Operated) -> None:
    await operated.api.create(PODS, pod("first"))
    await operated.annotated("created")
    watches = Match(verb="watch", resource="pods", client="*kopf*")
    for how in ("eof", "expired"):
        begun = operated.watches_begun()
        operated.server.faults.add(Fault(match=watches, drop_watches=DropWatches(how=how)))
        await operated.api.create(PODS, pod(how))
        while (await operated.annotated("created"))["metadata"]["name"] != how:
            pass
        assert operated.watches_begun() > begun
    await operated.api.delete(f"{PODS}/first")
    assert (await operated.gone())["metadata"]["name"] == "first"
