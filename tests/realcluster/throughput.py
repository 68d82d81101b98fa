"""Pods bound per second and CPU, ours beside stock's: `python -m tests.realcluster.throughput`.

    --rows "on 100 nodes, plain" --rounds 1     # the rows whose title contains the text
    --into docs/performance.md                  # replace the table between the marks in a file

Each round runs both schedulers, one after the other, on the same API server (TLS, client
certificate) with the same flags, and rounds alternate which one comes first. A run starts the
scheduler while another holds the lease, creates the pods, and then gives the lease free: the
scheduler finds all pods in its queue, and nothing else works for the clients meanwhile.

Pods per second are counted from the first binding to the last, by the audit log. CPU is user and
system time from the idle process before the creation to the idle process after the last event: it
includes the decoding of watched objects. The CPU before that, for the start of the program and the
lists of nodes and other objects, is in columns of its own.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp

from scheduler.clock import rfc3339_micro
from tests.fakeapi.api_client import ApiClient
from tests.realcluster.binaries import NoBinary
from tests.realcluster.cluster import AuditEvent, RealCluster
from tests.realcluster.process import Process
from tests.realcluster.workload import LEASE, PATIENCE_SECONDS, Workload

_KINDS: Final = ("ours", "stock")
#: No client waits for its own rate limit, and a lease that is free is soon taken.
_FLAGS: Final = (
    "--kube-api-qps=5000",
    "--kube-api-burst=5000",
    "--leader-elect-retry-period=500ms",
)
_FOREVER_SECONDS: Final = 3600
_LOOK_SECONDS: Final = 0.2
#: A process is idle that uses less CPU than this in the time.
_IDLE_SECONDS: Final = 2.0
_IDLE_CPU_SECONDS: Final = 0.03


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """Equal pods on equal nodes; `spec` is what they have beside a container."""

    kind: str
    nodes: int
    pods: int
    spec: dict[str, Any]

    @property
    def title(self) -> str:
        """The first column."""
        return f"{self.pods:,} pods on {self.nodes:,} nodes, {self.kind}"


class Run(NamedTuple):
    """The figures of one scheduler in one run."""

    pods_per_second: float
    cpu_seconds: float
    start_cpu_seconds: float


_SELECTOR: Final = {"matchLabels": {"app": "a"}}
_ZONE: Final = "topology.kubernetes.io/zone"
_SPECS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "spread constraints": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 5,
                "topologyKey": _ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": _SELECTOR,
            }
        ]
    },
    "pod affinity": {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": _ZONE, "labelSelector": _SELECTOR}
                ]
            }
        }
    },
}
#: Those with the same nodes beside one another.
ROWS: Final = [
    Row(kind, nodes, pods, spec)
    for nodes, pods in ((100, 2100), (1000, 1600))
    for kind, spec in _SPECS.items()
]


class Stopwatch:
    """Runs schedulers one after the other on one real cluster."""

    def __init__(self, cluster: RealCluster, api: ApiClient) -> None:
        self._cluster, self._api = cluster, api
        self._nodes = 0

    async def run(self, kind: str, row: Row) -> Run:
        """Let a scheduler bind the pods of a row."""
        if self._nodes != row.nodes:
            self._cluster.clear()
            self._cluster.nodes(row.nodes)
            self._nodes = row.nodes
        await self._take_lease()
        pods = Workload(self._cluster, self._api)
        with self._cluster.scheduler(kind, *_FLAGS) as process:
            await _idle(process)
            before = process.cpu_seconds
            await pods.create_many(row.pods, **row.spec)
            log = Tail(self._cluster.directory / "audit.log")
            assert (await self._api.delete(LEASE)).code == 200
            seconds = await log.bindings(pods.namespace, row.pods)
            await _idle(process)
            used = process.cpu_seconds - before
        assert (await self._api.delete(pods.path)).code == 200
        return Run((row.pods - 1) / (seconds[-1] - seconds[0]), used, before)

    async def _take_lease(self) -> None:
        await self._api.delete(LEASE)
        now = rfc3339_micro(time.time())
        spec = {
            "holderIdentity": "throughput",
            "leaseDurationSeconds": _FOREVER_SECONDS,
            "acquireTime": now,
            "renewTime": now,
        }
        path, _, name = LEASE.rpartition("/")
        created = await self._api.post(path, {"metadata": {"name": name}, "spec": spec})
        assert created.code == 201, created.body


class Tail:
    """The lines that are appended to an audit log from now on."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._file.seek(0, 2)

    async def bindings(self, namespace: str, count: int) -> list[float]:
        """Return when so many bindings of a namespace arrived, sorted, once they are answered."""
        found: list[float] = []
        rest = b""
        end = time.monotonic() + PATIENCE_SECONDS
        while len(found) < count:
            assert time.monotonic() < end, f"{len(found)} of {count} pods are bound"
            *lines, rest = (rest + self._file.read()).split(b"\n")
            for line in lines:
                event = AuditEvent.from_json(json.loads(line))
                if (event.namespace, event.subresource) == (namespace, "binding"):
                    found += [event.seconds] if event.code == 201 else []
            await asyncio.sleep(_LOOK_SECONDS)
        self._file.close()
        return sorted(found)


async def _idle(process: Process) -> None:
    """Wait until a process has little to do. Raises AssertionError if it ends."""
    used = -1.0
    while process.cpu_seconds - used > _IDLE_CPU_SECONDS:
        used = process.cpu_seconds
        await asyncio.sleep(_IDLE_SECONDS)
        assert process.is_running, process.last_output


async def measure(rows: Sequence[Row], rounds: int, note: Callable[[str], None]) -> list[str]:
    """Run all rows; return the table in Markdown."""
    lines = [
        "| workload | pods/s: ours | stock | ratio | CPU s: ours | stock | ratio "
        "| start, CPU s: ours | stock |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name, RealCluster(Path(name)) as cluster:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=cluster.tls()),
            headers={"Authorization": f"Bearer {cluster.token}"},
            timeout=aiohttp.ClientTimeout(total=None),
        ) as session:
            stopwatch = Stopwatch(cluster, ApiClient(session, cluster.url))
            for row in rows:
                runs: dict[str, list[Run]] = {kind: [] for kind in _KINDS}
                for number in range(rounds):
                    for kind in _KINDS if number % 2 == 0 else _KINDS[::-1]:
                        run = await stopwatch.run(kind, row)
                        note(f"{row.title}: {kind} {run.pods_per_second:.0f} pods/s, "
                             f"{run.cpu_seconds:.2f} s of CPU")  # fmt: skip
                        runs[kind].append(run)
                lines.append(f"| {row.title} | {' | '.join(_columns(runs))} |")
    return lines


def _columns(runs: dict[str, list[Run]]) -> Iterator[str]:
    ours, stock = (Run(*map(statistics.median, zip(*runs[kind], strict=True))) for kind in _KINDS)
    yield from (f"{ours.pods_per_second:.0f}", f"{stock.pods_per_second:.0f}")
    yield f"{ours.pods_per_second / stock.pods_per_second:.2f}"
    yield from (f"{ours.cpu_seconds:.2f}", f"{stock.cpu_seconds:.2f}")
    yield f"{ours.cpu_seconds / stock.cpu_seconds:.2f}"
    yield from (f"{ours.start_cpu_seconds:.2f}", f"{stock.start_cpu_seconds:.2f}")


def write_table(file: Path, table: str, *, name: str) -> None:
    """Replace the table between the marks of that name in a file. Raises ValueError without."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before, has_begin, rest = file.read_text(encoding="utf-8").partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"{file}: expected the marks {begin.strip()} and {end.strip()}")
    file.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")


def main() -> int:
    """Run the command; return the exit status. Without the programs nothing is run."""
    parser = argparse.ArgumentParser(prog="python -m tests.realcluster.throughput")
    parser.add_argument("--rows", default="", help="the rows whose title contains this text")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; the median counts")
    parser.add_argument("--into", type=Path, help="the file whose table is replaced")
    options = parser.parse_args()
    rows = [row for row in ROWS if options.rows in row.title]
    if not rows:
        titles = "\n".join(row.title for row in ROWS)
        parser.error(f"--rows: expected a part of one of these titles:\n{titles}")
    # An installed program has its bytecode; the first start may compile it.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        lines = asyncio.run(measure(rows, options.rounds, lambda text: print(text, flush=True)))
    except NoBinary as error:
        print(f"nothing was run: {error}", file=sys.stderr)
        return 0
    table = "\n".join([*lines, ""])
    print(table)
    if options.into:
        write_table(options.into, table, name="throughput")
    return 0


if __name__ == "__main__":
    sys.exit(main())
