"""A server with actors and a manual clock, and builders of objects for tests of actors."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from fakeapi import Actors, FakeApiServer, ManualClock, ServerOptions
from fakeapi.types.times import timestamp

from .api_client import ApiClient, Json

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"


class Cluster:
    """The server of a test with its actors, a client and the clock."""

    def __init__(
        self, server: FakeApiServer, actors: Actors, api: ApiClient, clock: ManualClock
    ) -> None:
        self.server, self.actors, self.api, self.clock = server, actors, api, clock

    async def settle(self) -> None:
        await self.actors.wait_until_idle()

    async def advance(self, seconds: float, *, step_seconds: float = 0) -> None:
        """Advance the clock in steps; actors settle after each."""
        step = step_seconds or seconds
        await self.settle()
        while seconds > 1e-9:
            self.clock.advance(min(step, seconds))
            seconds -= step
            await self.settle()

    async def create(self, path: str, body: Json) -> Json:
        created = await self.api.create(path, body)
        await self.settle()
        return created

    async def read(self, path: str) -> Json:
        reply = await self.api.get(path)
        assert reply.code == 200, reply.body
        body: Json = reply.body
        return body

    async def items(self, path: str, **query: Any) -> list[Json]:
        found: list[Json] = (await self.api.get(path, **query)).body["items"]
        return found

    def server_time(self) -> str:
        """Return the current time as a timestamp."""
        return timestamp(self.clock.now())

    async def code(self, path: str) -> int:
        return (await self.api.get(path)).code


@contextlib.asynccontextmanager
async def cluster(
    *, load: list[Json] | None = None, runtime_config: str = "", **actors: Any
) -> AsyncIterator[Cluster]:
    clock = ManualClock()
    async with (
        FakeApiServer(
            clock=clock,
            seed=1,
            load=load or [node("n1")],
            options=ServerOptions(requests_kept=1000, runtime_config=runtime_config),
        ) as server,
        Actors(server, **actors) as running,
        aiohttp.ClientSession() as session,
    ):
        result = Cluster(server, running, ApiClient(session, server.url), clock)
        await result.settle()
        yield result


def node(name: str, **metadata: Any) -> Json:
    """Return a node without status."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}


def pod(name: str = "p", *, node: str = "n1", spec: Json | None = None, **annotations: str) -> Json:
    """Return a bound pod; `annotations` configure the kubelet, as `run_seconds="5"`."""
    annotations = {
        f"fakeapi.kubesched.io/{key.replace('_', '-')}": value for key, value in annotations.items()
    }
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "x"}], **(spec or {})},
    }


def conditions(obj: Json) -> dict[str, str]:
    """Return the status of each condition by type."""
    found = obj.get("status", {}).get("conditions", [])
    return {one["type"]: one["status"] for one in found}
