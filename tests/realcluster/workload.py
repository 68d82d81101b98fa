"""Pods for a real cluster: created at a rate, awaited, and checked against the audit log."""

import asyncio
import collections
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterable
from typing import Any

import aiohttp

from tests.fakeapi.api_client import ApiClient
from tests.realcluster.cluster import AuditEvent, RealCluster

Json = dict[str, Any]

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
PATIENCE_SECONDS = 120.0
_LOOK_SECONDS = 0.1


def pod(name: str, cpu: str = "10m", **spec: Any) -> Json:
    """Return a small pod, with the label `app: a`, that is deleted at once."""
    container = {"name": "c", "image": "app:v1", "resources": {"requests": {"cpu": cpu}}}
    whole = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": whole}


class Workload:
    """Pods of one namespace."""

    def __init__(self, cluster: RealCluster, api: ApiClient) -> None:
        self.namespace = cluster.namespace()
        self.path = f"/api/v1/namespaces/{self.namespace}/pods"
        self.created: list[str] = []
        self._cluster, self._api = cluster, api
        self._numbers = itertools.count()

    async def create(self, name: str, cpu: str = "10m", **spec: Any) -> None:
        """Create a pod; while the API server is away, try again."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    reply = await self._api.post(self.path, pod(name, cpu, **spec))
                    if reply.code in (201, 409):  # 409: the answer to the first try was lost
                        break
                    assert reply.code >= 500, reply.body
                await asyncio.sleep(_LOOK_SECONDS)
        self.created.append(name)

    async def create_many(self, count: int, *, at_once: int = 10, **spec: Any) -> None:
        """Create pods, as fast as the server takes them."""
        numbers = iter(range(count))

        async def creator() -> None:
            for _ in numbers:
                await self.create(f"p{next(self._numbers)}", **spec)

        await asyncio.gather(*(creator() for _ in range(at_once)))

    @contextlib.asynccontextmanager
    async def arriving(self, *, every_seconds: float, **spec: Any) -> AsyncIterator[None]:
        """Create a pod in each interval while the block runs."""

        ended = asyncio.Event()

        async def arrive() -> None:
            while not ended.is_set():
                await self.create(f"p{next(self._numbers)}", **spec)
                await asyncio.sleep(every_seconds)

        task = asyncio.ensure_future(arrive())
        try:
            yield
        finally:
            # A creation that is cancelled may have taken place.
            ended.set()
            await task

    async def pods(self) -> list[Json]:
        """Return the pods as they are."""
        items: list[Json] = (await self._api.get(self.path)).body["items"]
        return items

    async def bound(
        self, count: int | None = None, *, seconds: float = PATIENCE_SECONDS
    ) -> dict[str, str]:
        """Return the pods' nodes, once `count` pods (by default all created) are bound."""
        found: dict[str, str] = {}
        try:
            async with asyncio.timeout(seconds):
                while True:
                    with contextlib.suppress(aiohttp.ClientError, KeyError, TypeError):
                        found = {
                            item["metadata"]["name"]: item["spec"]["nodeName"]
                            for item in await self.pods()
                            if item["spec"].get("nodeName")
                        }
                        if len(found) >= (len(self.created) if count is None else count):
                            return found
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            missing = sorted(set(self.created) - set(found))
            raise AssertionError(f"{len(missing)} pods are not bound: {missing[:10]}") from None

    def bindings(self) -> list[AuditEvent]:
        """Return the requests that bound pods of this namespace, or tried to."""
        return [
            event
            for event in self._cluster.audit()
            if (event.namespace, event.subresource) == (self.namespace, "binding")
        ]

    async def all_bindings(self) -> list[AuditEvent]:
        """Return the bindings once each pod has one; the log is written after the answers."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = self.bindings()
                if set(self.created) <= {each.name for each in found if each.code == 201}:
                    return found
                await asyncio.sleep(_LOOK_SECONDS)


def names_bound_twice(bindings: Iterable[AuditEvent]) -> list[str]:
    """Return the pods with more than one binding that the server accepted."""
    counts = collections.Counter(each.name for each in bindings if each.code == 201)
    return [name for name, count in counts.items() if count > 1]


async def leader(api: ApiClient, *, but_not: str = "") -> str:
    """Return the holder of kube-scheduler's lease, once it is another than that."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            reply = await api.get(LEASE)
            holder = str(reply.body["spec"].get("holderIdentity", "")) if reply.code == 200 else ""
            if holder not in ("", but_not):
                return holder
            await asyncio.sleep(_LOOK_SECONDS)


async def node_of(api: ApiClient, path: str, name: str) -> str:
    """Return the node of a pod, once it is bound. `path` is that of the namespace's pods."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            reply = await api.get(f"{path}/{name}")
            if reply.code == 200 and (node := reply.body["spec"].get("nodeName")):
                return str(node)
            await asyncio.sleep(_LOOK_SECONDS)


async def message_of(api: ApiClient, path: str, name: str) -> str:
    """Return why a pod is not scheduled, once the scheduler has written it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            reply = await api.get(f"{path}/{name}")
            for condition in reply.body["status"].get("conditions", []):
                if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
                    return str(condition["message"])
            await asyncio.sleep(_LOOK_SECONDS)
