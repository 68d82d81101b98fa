"""A client of the API server that creates a few objects and waits for changes of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from fakeapi import FakeApiServer

PODS = "/api/v1/namespaces/default/pods"
DEADLINE_SECONDS = 20.0


class Api:
    """The few requests these tests make, as a user would make them."""

    def __init__(self, server: FakeApiServer, session: aiohttp.ClientSession) -> None:
        self._server = server
        self._session = session

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, server: FakeApiServer, token: str = "") -> AsyncIterator[Api]:
        """Requests to this server, until the block is left."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with aiohttp.ClientSession(headers=headers) as session:
            yield cls(server, session)

    async def create(self, path: str, body: dict[str, object]) -> dict[str, object]:
        async with self._session.post(self._server.url + path, json=body) as answer:
            assert answer.status == 201, await answer.text()
            return await answer.json()

    async def get(self, path: str) -> dict:
        async with self._session.get(self._server.url + path) as answer:
            return await answer.json()

    async def patch(self, path: str, patch: dict[str, object]) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        url = self._server.url + path
        async with self._session.patch(url, json=patch, headers=headers) as answer:
            assert answer.status == 200, await answer.text()

    async def delete(self, path: str) -> None:
        async with self._session.delete(self._server.url + path) as answer:
            assert answer.status == 200, await answer.text()

    async def patch_status(self, path: str, status: dict[str, object]) -> None:
        await self.patch(f"{path}/status", {"status": status})

    async def node(self, name: str, cpu: str = "4", **labels: str) -> None:
        allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
        metadata = {"name": name, "labels": labels}
        await self.create(
            "/api/v1/nodes", {"metadata": metadata, "status": {"allocatable": allocatable}}
        )

    async def pod(self, name: str, cpu: str = "1", **spec: object) -> None:
        resources = {"requests": {"cpu": cpu}}
        container = {"name": "c", "image": "app:v1", "resources": resources}
        body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        await self.create(PODS, body)

    async def node_of(self, name: str) -> str:
        """The pod's node, once it has one."""

        async def bound() -> str:
            return (await self.get(f"{PODS}/{name}"))["spec"].get("nodeName", "")

        return await eventually(bound)

    async def message_of(self, name: str) -> str:
        """Return the reason why the pod is not scheduled, once the scheduler has written it."""

        async def said() -> str:
            conditions = (await self.get(f"{PODS}/{name}"))["status"].get("conditions", [])
            return next((c["message"] for c in conditions if c["status"] == "False"), "")

        return await eventually(said)


async def eventually(ask: Callable[[], Awaitable[str]]) -> str:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not (answer := await ask()):  # noqa: ASYNC110 - another process: one can only ask
            await asyncio.sleep(0.05)
        return answer
