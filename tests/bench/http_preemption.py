"""Preemptions as users have them: a fake API server and a scheduler, each in a process of its own.

Nodes are full of pods of low priority, and pods of higher priority come. Each of them preempts,
waits for its victims to be deleted, which have no grace, and is bound. CPU is that of a process for
each preemption, of both attempts. `python -m tests.bench.http_preemption` prints the table, with
`--stock` beside kube-scheduler's figures.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from tests.bench.api_server import PODS, Server, request, running_server, send_all
from tests.realcluster.binaries import KUBE_SCHEDULER

__all__ = ["Cluster", "Preemptions", "preemptions"]

_LOW_PER_NODE = 4
_APPS = 10
#: The priority class, and the app.
_HIGH = "high"
#: Preemptions before the measured ones.
_WARM_UP = 10
_FLAGS = (
    *("--secure-port=0", "--leader-elect=false"),
    *("--kube-api-qps=100000", "--kube-api-burst=100000"),
)
_TIMEOUT_SECONDS = 180
#: The command of our scheduler, without flags.
OURS = (sys.executable, "-m", "scheduler")


class Cluster(NamedTuple):
    """Nodes full of pods of low priority, and pods that preempt `victims` of these each.

    With budgets, the eviction of every second pod of low priority violates one.
    """

    nodes: int
    preemptors: int
    victims: int
    with_budgets: bool = False


class Preemptions(NamedTuple):
    """Preemptions a second by the clock, and the CPU of each."""

    per_second: float
    scheduler_milliseconds: float
    server_milliseconds: float


CLUSTERS = (
    Cluster(500, 400, 1),
    Cluster(500, 400, 2),
    Cluster(500, 400, 1, with_budgets=True),
    Cluster(5000, 400, 1),
    Cluster(5000, 400, 1, with_budgets=True),
)


def preemptions(cluster: Cluster, command: Sequence[str] = OURS) -> Preemptions:
    """Run a scheduler until all pods are bound; raises TimeoutError if one is left."""
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig, objects = Path(directory, "kubeconfig"), Path(directory, "objects.json")
        listed = {"apiVersion": "v1", "kind": "List", "items": list(_objects(cluster))}
        objects.write_text(json.dumps(listed), encoding="utf-8")
        flags = (f"--load={objects}", f"--kubeconfig-out={kubeconfig}")
        with running_server(*flags) as server, _running_scheduler(command, kubeconfig) as scheduler:
            return asyncio.run(_measured(cluster, server, scheduler))


@contextlib.contextmanager
def _running_scheduler(command: Sequence[str], kubeconfig: Path) -> Iterator[Server]:
    arguments = [*command, f"--kubeconfig={kubeconfig}", *_FLAGS]
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as process:
        try:
            yield Server(process.pid, 0)
        finally:
            process.terminate()


async def _measured(cluster: Cluster, server: Server, scheduler: Server) -> Preemptions:
    total = _WARM_UP + cluster.preemptors
    creations = [request("POST", PODS, _high(number, cluster.victims)) for number in range(total)]
    async with asyncio.timeout(_TIMEOUT_SECONDS), _bindings(server) as bound:
        await send_all(server, creations[:_WARM_UP], 201)
        for _ in range(_WARM_UP):
            await anext(bound)
        before = [process.cpu_seconds() for process in (scheduler, server)]
        start = time.perf_counter()
        await send_all(server, creations[_WARM_UP:], 201)
        for _ in range(cluster.preemptors):
            await anext(bound)
        seconds = time.perf_counter() - start
        after = [process.cpu_seconds() for process in (scheduler, server)]
    each = [1e3 * (b - a) / cluster.preemptors for a, b in zip(before, after, strict=True)]
    return Preemptions(cluster.preemptors / seconds, *each)


@contextlib.asynccontextmanager
async def _bindings(server: Server) -> AsyncIterator[AsyncIterator[str]]:
    """Watch the pods of higher priority; yields the names of those that are bound."""
    url = f"http://127.0.0.1:{server.port}{PODS}"
    query = {"watch": "true", "labelSelector": f"app={_HIGH}", "fieldSelector": "spec.nodeName!="}
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(url, params=query) as response,
    ):

        async def names() -> AsyncIterator[str]:
            async for line in response.content:
                event = json.loads(line)
                if event["type"] == "ADDED":
                    yield event["object"]["metadata"]["name"]

        yield names()


def _objects(cluster: Cluster) -> Iterator[dict[str, Any]]:
    yield {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": _HIGH},
        "value": 10,
    }
    offered = {"cpu": f"{_LOW_PER_NODE}", "memory": "32Gi", "pods": "110"}
    for number in range(cluster.nodes):
        name = f"node-{number}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{number % 3}"}
        status = {"capacity": offered, "allocatable": offered}
        metadata = {"name": name, "labels": labels}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
        for k in range(_LOW_PER_NODE):
            app = f"app-{(number * _LOW_PER_NODE + k) % _APPS}"
            pod = _pod(f"low-{number}-{k}", app, cpu=1)
            pod["spec"]["nodeName"] = name
            started = f"2026-01-01T{k:02}:{number // 60 % 60:02}:{number % 60:02}Z"
            yield {**pod, "status": {"phase": "Running", "startTime": started}}
    for number in range(_APPS if cluster.with_budgets else 0):
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"budget-{number}", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": f"app-{number}"}}},
            "status": {"disruptionsAllowed": 1000 * (number % 2)},
        }


def _high(number: int, cpu: int) -> dict[str, Any]:
    pod = _pod(f"high-{number}", _HIGH, cpu=cpu)
    pod["spec"]["priorityClassName"] = _HIGH
    return pod


def _pod(name: str, app: str, *, cpu: int) -> dict[str, Any]:
    requests = {"cpu": f"{cpu}", "memory": "100Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {
            "containers": [
                {"name": "main", "image": "app:v1", "resources": {"requests": requests}}
            ],
            "terminationGracePeriodSeconds": 0,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.http_preemption", description=__doc__
    )
    parser.add_argument("only", nargs="*", type=int, help="numbers of rows; by default all")
    parser.add_argument(
        "--stock", action="store_true", help="and kube-scheduler, which Go builds if it is missing"
    )
    options = parser.parse_args()
    only = options.only
    commands: dict[str, Sequence[str]] = {"ours": OURS}
    if options.stock:
        commands["stock"] = (str(KUBE_SCHEDULER.find()),)
    head = f"{'nodes':>6}{'victims':>9}{'budgets':>9}{'':>8}{'each second':>13}"
    print(f"{head}{'scheduler, ms':>15}{'server, ms':>12}")
    for number, cluster in enumerate(CLUSTERS):
        if only and number not in only:
            continue
        for name, command in commands.items():
            rate, of_scheduler, of_server = preemptions(cluster, command)
            budgets = "yes" if cluster.with_budgets else "no"
            row = f"{cluster.nodes:>6}{cluster.victims:>9}{budgets:>9}{name:>8}{rate:>13.0f}"
            print(f"{row}{of_scheduler:>15.1f}{of_server:>12.1f}", flush=True)


if __name__ == "__main__":
    main()
