"""Memory of our scheduler on a real cluster whose pods, claims and nodes change all the time.

    python -m tests.realcluster.churn --minutes 60

200 nodes hold 1,300 pods; 19 pods a second are created and the oldest deleted. Each tenth pod has
a claim of a device. 100 pods fit nowhere, 20 wait for a claim that does not exist, and every five
seconds another one takes the place of the oldest of these. A node changes twice a second, and one
is replaced every half minute. A line for each minute has the resident memory and the longest
stretch of the event loop; the last lines have the growth of memory after a quarter of an hour, and
the longest stretch of all.
"""

import argparse
import asyncio
import collections
import contextlib
import itertools
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import aiohttp

from tests.fakeapi.api_client import ApiClient, Json
from tests.realcluster.cluster import RealCluster, free_ports
from tests.realcluster.process import Process
from tests.realcluster.workload import pod

_NODES: Final = 200
_PODS: Final = 1300
_PODS_PER_SECOND: Final = 19
_WITH_CLAIM: Final = 10
_TOO_LARGE: Final = 100
_WITHOUT_CLAIM: Final = 20
_PODS_PER_STUCK_POD: Final = 5 * _PODS_PER_SECOND
_NODE_CHANGES_PER_SECOND: Final = 2
_CHANGES_PER_NEW_NODE: Final = 60
_DEVICES_PER_NODE: Final = 8
_WARM_UP_MINUTES: Final = 15
_DRIVER: Final = "gpu.example.com"
_GROUP: Final = "/apis/resource.k8s.io/v1"
_NAMESPACE: Final = "churn"
_PODS_PATH: Final = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_CLAIMS_PATH: Final = f"{_GROUP}/namespaces/{_NAMESPACE}/resourceclaims"


class Churn:
    """The changes of the cluster, by an administrator."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._numbers = itertools.count()
        self._pods: collections.deque[tuple[str, bool]] = collections.deque()
        self._stuck: collections.deque[str] = collections.deque()

    async def run(self) -> None:
        """Change the cluster until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._change_pods())
            tasks.create_task(self._change_nodes())

    async def _change_pods(self) -> None:
        for number, due in _ticks(_PODS_PER_SECOND):
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self._create_pod(with_claim=number % _WITH_CLAIM == 0)
            if len(self._pods) > _PODS:
                await self._delete_pod(*self._pods.popleft())
            if number % _PODS_PER_STUCK_POD == 0 or len(self._stuck) < _TOO_LARGE + _WITHOUT_CLAIM:
                await self._create_stuck_pod(number)

    async def _create_pod(self, *, with_claim: bool) -> None:
        name = f"p{next(self._numbers)}"
        spec: Json = {}
        if with_claim:
            request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
            claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
            await self._api.create(_CLAIMS_PATH, claim)
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        await self._api.create(_PODS_PATH, pod(name, **spec))
        self._pods.append((name, with_claim))

    async def _delete_pod(self, name: str, with_claim: bool) -> None:
        await self._api.delete(f"{_PODS_PATH}/{name}")
        if with_claim:
            await self._api.delete(f"{_CLAIMS_PATH}/{name}")

    async def _create_stuck_pod(self, number: int) -> None:
        if len(self._stuck) >= _TOO_LARGE + _WITHOUT_CLAIM:
            await self._api.delete(f"{_PODS_PATH}/{self._stuck.popleft()}")
        name = f"stuck{number}"
        if number % (_TOO_LARGE // _WITHOUT_CLAIM + 1) == 0:
            claims = [{"name": "gpu", "resourceClaimName": "missing"}]
            await self._api.create(_PODS_PATH, pod(name, resourceClaims=claims))
        else:
            await self._api.create(_PODS_PATH, pod(name, cpu="100"))
        self._stuck.append(name)

    async def _change_nodes(self) -> None:
        for number, due in _ticks(_NODE_CHANGES_PER_SECOND):
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            name = f"n{number % (_NODES // 2)}"
            if number % _CHANGES_PER_NEW_NODE == 0:
                await self._api.delete(f"/api/v1/nodes/{name}")
                await self._api.create("/api/v1/nodes", _node(name))
            else:
                taint = {"key": "full", "value": str(number), "effect": "PreferNoSchedule"}
                labels = {"turn": str(number)}
                change = {"metadata": {"labels": labels}, "spec": {"taints": [taint]}}
                await self._api.patch(f"/api/v1/nodes/{name}", change)


def _ticks(per_second: float) -> Iterator[tuple[int, float]]:
    started = time.monotonic()
    for number in itertools.count():
        yield number, started + number / per_second


def _node(name: str) -> Json:
    resources = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": resources, "allocatable": resources},
    }


async def _set_up(api: ApiClient) -> None:
    await api.create("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    await api.create(f"{_GROUP}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
    for number in range(_NODES):
        await api.create("/api/v1/nodes", _node(f"n{number}"))
    # Devices are on the nodes that stay.
    for number in range(_NODES // 2, _NODES):
        name = f"n{number}"
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{device}"} for device in range(_DEVICES_PER_NODE)]
        spec = {"driver": _DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        await api.create(f"{_GROUP}/resourceslices", {"metadata": {"name": name}, "spec": spec})


def _resident_mebibytes(process: Process) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


async def _metric(session: aiohttp.ClientSession, port: int, name: str) -> float:
    async with session.get(f"https://127.0.0.1:{port}/metrics", ssl=False) as reply:
        found = re.search(rf"^{name}(?:{{.*}})? (\S+)$", await reply.text(), re.MULTILINE)
    return float(found[1]) if found is not None else 0.0


async def _report(
    session: aiohttp.ClientSession, api: ApiClient, process: Process, port: int, minutes: int
) -> None:
    print("minute   MiB   CPU s   longest stretch s   pods bound", flush=True)
    mebibytes, longest_seconds = [], 0.0
    for minute in range(minutes + 1):
        if not process.is_running:
            raise RuntimeError(f"the scheduler ended with {process.status}: {process.last_output}")
        lag = await _metric(session, port, "kubesched_event_loop_lag_seconds")
        items = (await api.get(_PODS_PATH)).body["items"]
        bound = sum("nodeName" in item["spec"] for item in items)
        mebibytes.append(_resident_mebibytes(process))
        longest_seconds = max(longest_seconds, lag)
        print(
            f"{minute:6} {mebibytes[-1]:5.1f} {process.cpu_seconds:7.1f} {lag:19.3f}"
            f"   {bound} of {len(items)}",
            flush=True,
        )
        if minute < minutes:
            await asyncio.sleep(60)
    if minutes > _WARM_UP_MINUTES:
        warm, most, last = mebibytes[_WARM_UP_MINUTES], max(mebibytes), mebibytes[-1]
        print(f"{warm:.1f} MiB after {_WARM_UP_MINUTES} minutes, {last:.1f} at the end", end=", ")
        print(f"{most:.1f} at most")
    print(f"longest stretch: {longest_seconds:.3f} s", flush=True)


async def main() -> None:
    """Run the cluster and print a line each minute."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    minutes = parser.parse_args().minutes
    [port] = free_ports(1)
    serving = (f"--secure-port={port}", "--authorization-always-allow-paths=/metrics")
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(RealCluster(directory))
        stack.enter_context(cluster.controllers("--controllers=resourceclaim-controller"))
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=cluster.tls()),
            headers={"Authorization": f"Bearer {cluster.token}"},
        ) as session:
            api = ApiClient(session, cluster.url)
            await _set_up(api)
            process = stack.enter_context(cluster.scheduler("ours", *serving))
            async with asyncio.TaskGroup() as tasks:
                churn = tasks.create_task(Churn(api).run())
                await asyncio.sleep(5)
                await _report(session, api, process, port, minutes)
                churn.cancel()


if __name__ == "__main__":
    asyncio.run(main())
