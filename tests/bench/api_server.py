"""Speed of the fake API server: writes, lists, memory, and the cost of a watcher.

Server and clients are processes of their own. Rates are per second of the server's own CPU time, so
that other work on the machine does not change them much; on an idle machine they are rates by the
clock. `python -m tests.bench.api_server` prints the table.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

__all__ = ["api_server_numbers"]

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
#: Writers at a time; enough to keep the server busy.
CONNECTIONS = 8
WRITES = 4000
LISTED_NODES = 5000
STORED_PODS = 10_000
#: Objects that are there before the writes whose cost is compared.
GROWTH_STORED = (1000, 2000, 5000, 10_000, 20_000)
GROWTH_WRITES = 2000
WATCHERS_MANY = 1000
#: Writes while many watchers are open.
HEARD_WRITES = 100
_ADDITIONS = 3_000_000
_KIBIBYTES_PER_PAGE = os.sysconf("SC_PAGE_SIZE") // 1024


@dataclasses.dataclass(frozen=True)
class Server:
    """A server in a process of its own."""

    pid: int
    port: int

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far by the threads that still run."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(file.read_text(encoding="utf-8").split()[0]) for file in threads) / 1e9

    def resident_mebibytes(self) -> float:
        """Return the resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="utf-8").split()[1])
        return pages * _KIBIBYTES_PER_PAGE / 1024


@contextlib.contextmanager
def running_server(*flags: str) -> Iterator[Server]:
    """`kubesched-fakeapi`, as a user starts it."""
    command = [sys.executable, "-m", "fakeapi", "--port", "0", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            yield Server(process.pid, int(url.rpartition(":")[2]))
        finally:
            process.terminate()


class Connection:
    """One keep-alive connection that costs its client little: bytes in, a status and bytes out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, raw: bytes) -> tuple[int, bytes]:
        """Send a request, read the answer."""
        self._writer.write(raw)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        return int(head[9:12]), await self._reader.readexactly(length)

    async def open_watch(self, path: str) -> None:
        """Begin a watch; its events are read by `drain`."""
        self._writer.write(request("GET", f"{path}?watch=true&timeoutSeconds=3600"))
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head

    async def drain(self) -> None:
        """Read and forget until the end."""
        while await self._reader.read(1 << 18):
            pass


def request(method: str, path: str, body: object = None) -> bytes:
    """A request as a typed client sends it."""
    raw = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
        "User-Agent: bench/1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(raw)}\r\n\r\n"
    )
    return head.encode() + raw


@contextlib.asynccontextmanager
async def connections(server: Server, count: int) -> AsyncIterator[list[Connection]]:
    """Open connections to the server."""
    pairs = [
        await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 26) for _ in range(count)
    ]
    try:
        yield [Connection(reader, writer) for reader, writer in pairs]
    finally:
        for _, writer in pairs:
            writer.close()


async def send_all(server: Server, raws: Sequence[bytes], code: int) -> None:
    """Send the requests over several connections; all must be answered with that code."""
    waiting = iter(raws)

    async def sender(connection: Connection) -> None:
        for raw in waiting:
            status, body = await connection.ask(raw)
            assert status == code, body

    async with connections(server, CONNECTIONS) as opened:
        await asyncio.gather(*(sender(connection) for connection in opened))


@contextlib.asynccontextmanager
async def watched(server: Server, count: int, path: str = PODS) -> AsyncIterator[None]:
    """So many watches of the same list are open and read."""
    async with connections(server, count) as opened:
        await asyncio.gather(*(connection.open_watch(path) for connection in opened))
        readers = [asyncio.create_task(connection.drain()) for connection in opened]
        try:
            yield
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)


def pod(number: int) -> dict[str, object]:
    """A pod as workloads have them."""
    resources = {"requests": {"cpu": "100m", "memory": "200Mi"}}
    labels = {"app": f"app-{number % 100}", "pod-template-hash": "5d8f9c7b6"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "labels": labels},
        "spec": {
            "containers": [{"name": "main", "image": "registry/app:v1", "resources": resources}]
        },
    }


def node(number: int) -> dict[str, object]:
    """A node with what a kubelet reports."""
    offered = {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {"kubernetes.io/hostname": f"node-{number}", "kubernetes.io/arch": "amd64"}
    conditions = [
        {"type": kind, "status": "True" if kind == "Ready" else "False", "reason": "Kubelet"}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    return {
        "metadata": {"name": f"node-{number}", "labels": labels},
        "status": {"capacity": offered, "allocatable": offered, "conditions": conditions},
    }


def creates(first: int, count: int) -> list[bytes]:
    """Requests that create pods."""
    return [request("POST", PODS, pod(number)) for number in range(first, first + count)]


def _nodes(count: int) -> list[bytes]:
    return [request("POST", NODES, node(number)) for number in range(count)]


def bindings(count: int) -> list[bytes]:
    """Requests that bind the first so many pods."""
    return [
        request(
            "POST",
            f"{PODS}/pod-{number}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": f"pod-{number}"},
                "target": {"kind": "Node", "name": f"node-{number % 100}"},
            },
        )
        for number in range(count)
    ]


async def rate_of(server: Server, raws: Sequence[bytes]) -> float:
    """Requests per second of the server's CPU."""
    before = server.cpu_seconds()
    await send_all(server, raws, 201)
    return len(raws) / (server.cpu_seconds() - before)


async def write_rates(watchers: int) -> tuple[float, float]:
    """Creates and bindings per second while so many watch."""
    with running_server() as server:
        async with watched(server, watchers):
            created = await rate_of(server, creates(0, WRITES))
            return created, await rate_of(server, bindings(WRITES))


async def list_milliseconds() -> tuple[float, float]:
    """CPU of a list of nodes right after they were written, and of the same list again."""
    with running_server() as server:
        await send_all(server, _nodes(LISTED_NODES), 201)
        costs = []
        async with connections(server, 1) as (connection,):
            for repeat in (1, 10):
                before = server.cpu_seconds()
                for _ in range(repeat):
                    await connection.ask(request("GET", NODES))
                costs.append((server.cpu_seconds() - before) / repeat * 1000)
        return costs[0], costs[1]


async def stored_mebibytes() -> float:
    """Memory that so many pods take, without what the server takes alone."""
    with running_server() as server:
        alone = server.resident_mebibytes()
        await send_all(server, creates(0, STORED_PODS), 201)
        return server.resident_mebibytes() - alone


async def growth_exponent() -> float:
    """Return the exponent by which a write's cost grows with the stored objects: 1 is linear.

    Up and down again, so that a machine that gets slower or faster meanwhile does not pass for it.
    """
    points = []
    for stored in (*GROWTH_STORED, *reversed(GROWTH_STORED)):
        with running_server() as server:
            await send_all(server, creates(0, stored), 201)
            rate = await rate_of(server, creates(stored, GROWTH_WRITES))
        points.append((math.log(stored), -math.log(rate)))
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    above = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return above / sum((x - mean_x) ** 2 for x, _ in points)


async def cost_of_watchers() -> tuple[float, float, float]:
    """Return per watcher, of many: KiB, milliseconds to open, microseconds for each event."""
    with running_server() as server:
        before = server.cpu_seconds()
        await send_all(server, creates(0, HEARD_WRITES), 201)  # about what the nodes cost
        alone = server.cpu_seconds() - before
        memory, before = server.resident_mebibytes(), server.cpu_seconds()
        async with watched(server, WATCHERS_MANY, NODES):
            opened = server.cpu_seconds() - before
            each = (server.resident_mebibytes() - memory) * 1024 / WATCHERS_MANY
            before = server.cpu_seconds()
            await send_all(server, _nodes(HEARD_WRITES), 201)
            await asyncio.sleep(0.5)  # the last events are on their way
            heard = server.cpu_seconds() - before - alone
    return (
        each,
        opened / WATCHERS_MANY * 1e3,
        heard / (WATCHERS_MANY * HEARD_WRITES) * 1e6,
    )


def million_additions_per_second() -> float:
    """Return the current speed of this machine, to compare numbers of different days."""
    start, total = time.process_time(), 0
    for number in range(_ADDITIONS):
        total += number
    return _ADDITIONS / (time.process_time() - start) / 1e6


def api_server_numbers() -> dict[str, float]:
    """All numbers, printed as they come."""
    numbers: dict[str, float] = {}

    def note(name: str, value: float, unit: str) -> None:
        numbers[name] = round(value, 3)
        print(f"{name:<44}{value:>10.2f} {unit}", flush=True)

    note("this machine, additions in a Python loop", million_additions_per_second(), "M/s")
    for watchers in (1, 10):
        created, bound = asyncio.run(write_rates(watchers))
        note(f"pod creates, {watchers} watching", created, "/s")
        note(f"bindings, {watchers} watching", bound, "/s")
    first, again = asyncio.run(list_milliseconds())
    note(f"list of {LISTED_NODES} nodes, first", first, "ms")
    note(f"list of {LISTED_NODES} nodes, again", again, "ms")
    note(f"memory of {STORED_PODS} pods", asyncio.run(stored_mebibytes()), "MiB")
    note("write cost over stored objects, exponent", asyncio.run(growth_exponent()), "")
    memory, opened, heard = asyncio.run(cost_of_watchers())
    note(f"memory of each of {WATCHERS_MANY} watchers", memory, "KiB")
    note(f"opening each of {WATCHERS_MANY} watchers", opened, "ms")
    note("telling one watcher of one event", heard, "us")
    return numbers


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.api_server", description=__doc__)
    parser.parse_args()
    api_server_numbers()
