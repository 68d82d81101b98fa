"""Processes that elect a leader: stopped, terminated, and beside electors of other projects.

Rows 38, 39 and 42 of conformance/cases/faults/README.md are tried on kube-scheduler here; their
counterpart for our scheduler is in test_leader_election.py.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fakeapi import FakeApiServer, ServerOptions
from fakeapi.faults import AnswerWith, Fault, Match
from fakeapi.pytest_plugin import FakeApi
from tests.integration.api_client import Api, eventually
from tests.integration.scripted_run import kubeconfig_for
from tests.integration.test_official_client import Candidate, lock_of
from tests.integration.test_stock_scheduler import BINARY
from tests.integration.write_proxy import WriteProxy
from tests.thoroughness import thorough_only

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
#: Two fifths of the default times: a loaded machine does not cost the lease.
TIMES = (
    "--secure-port=0",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=800ms",
)
OURS = (sys.executable, "-m", "scheduler", "-v=2")
PATIENCE_SECONDS = 60.0
needs_stock = pytest.mark.skipif(not BINARY, reason="no kube-scheduler: set KUBE_SCHEDULER")


class Cluster:
    """An API server and the schedulers that use it."""

    def __init__(self, server: FakeApiServer, api: Api, directory: Path) -> None:
        self.server, self.api, self._directory = server, api, directory
        self.kubeconfig = server.write_kubeconfig(directory / "kubeconfig")
        self._logs = 0

    @contextlib.asynccontextmanager
    async def scheduler(self, *command: str) -> AsyncIterator[tuple[Process, Path]]:
        """A process that stands for election, and its log."""
        self._logs += 1
        log = self._directory / f"log-{self._logs}"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *command,
                f"--kubeconfig={self.kubeconfig}",
                *TIMES,
                stderr=output,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            try:
                yield process, log
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def led(self, *, but_by: str = "") -> str:
        """Return the leader, once it is another than that."""

        async def leader() -> str:
            spec = (await self.api.get(LEASE)).get("spec", {})
            holder = str(spec.get("holderIdentity", ""))
            return "" if holder == but_by else holder

        return await eventually(leader)


@contextlib.asynccontextmanager
async def a_cluster(directory: Path) -> AsyncIterator[Cluster]:
    async with (
        FakeApiServer(options=ServerOptions(requests_kept=10_000)) as server,
        Api.of(server) as api,
    ):
        yield Cluster(server, api, directory)


async def said(log: Path, words: str) -> None:
    """Wait for a line in a log."""

    async def found() -> str:
        return words if words in await asyncio.to_thread(log.read_text, encoding="utf-8") else ""

    await eventually(found)


async def ended(process: Process) -> int:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await process.wait()


async def test_a_leader_that_cannot_renew_logs_it_and_ends_with_status_1(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as cluster, cluster.scheduler(*OURS) as (process, log):
        await cluster.led()
        trouble = Fault(match=Match(resource="leases"), answer=AnswerWith(code=500))
        cluster.server.faults.add(trouble)
        assert await ended(process) == 1
        lines = (await asyncio.to_thread(log.read_text, encoding="utf-8")).splitlines()
        assert any(line.endswith("] Leaderelection lost") for line in lines)
        assert lines[-1].endswith('"command failed" err="lost lease kube-system/kube-scheduler"')
        assert not any(line.startswith("Traceback") for line in lines)


@thorough_only  # test_leader_election.py has it in virtual time
async def test_a_leader_that_was_stopped_writes_nothing_beside_its_successor(
    tmp_path: Path,
) -> None:
    """SIGSTOP for longer than the lease while pods arrive, then SIGCONT."""
    names = [f"p{number}" for number in range(40)]
    async with (
        a_cluster(tmp_path) as cluster,
        WriteProxy(cluster.server.url) as proxy,
        contextlib.AsyncExitStack() as stack,
    ):
        api = cluster.api
        await api.create("/api/v1/nodes", {
            "metadata": {"name": "a"},
            "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"}},
        })  # fmt: skip
        direct, cluster.kubeconfig = cluster.kubeconfig, kubeconfig_for(proxy.url, tmp_path)
        first, _ = await stack.enter_async_context(cluster.scheduler(*OURS))
        leader = await cluster.led()
        await api.pod("early", cpu="100m")
        assert await api.node_of("early") == "a"
        cluster.kubeconfig = direct
        second, log = await stack.enter_async_context(cluster.scheduler(*OURS))
        await said(log, f'"Waiting for lease" lock="kube-system/kube-scheduler" holder="{leader}"')
        first.send_signal(signal.SIGSTOP)
        await asyncio.gather(*(api.pod(name, cpu="100m") for name in names[:20]))
        assert await cluster.led(but_by=leader)
        writes = len(proxy.writes)
        creating = asyncio.gather(*(api.pod(name, cpu="100m") for name in names[20:]))
        first.send_signal(signal.SIGCONT)
        await creating
        assert await ended(first) == 1
        for name in names:
            assert await api.node_of(name) == "a"
        kinds = {write.kind for write in proxy.writes[writes:]}
        # The election's own: a renewal that is refused, and the event about the end.
        assert kinds <= {"PUT leases", "POST events"}, kinds
        second.terminate()
        assert await ended(second) == 0


@pytest.fixture
async def stock(tmp_path: Path) -> AsyncIterator[tuple[Cluster, Process]]:
    """A kube-scheduler that leads."""
    async with a_cluster(tmp_path) as cluster, cluster.scheduler(BINARY) as (process, _):
        await cluster.led()
        yield cluster, process


@needs_stock
async def test_row_38_a_stock_leader_that_cannot_renew_ends(stock: tuple[Cluster, Process]) -> None:
    cluster, process = stock
    cluster.server.faults.add(Fault(match=Match(resource="leases"), answer=AnswerWith(code=500)))
    assert await ended(process) == 1


@needs_stock
async def test_row_39_a_stock_leader_whose_lease_was_stolen_ends(
    stock: tuple[Cluster, Process],
) -> None:
    cluster, process = stock
    await cluster.api.patch(LEASE, {"spec": {"holderIdentity": "thief"}})
    assert await ended(process) == 1
    assert (await cluster.api.get(LEASE))["spec"]["holderIdentity"] == "thief"


@needs_stock
async def test_row_42_a_stock_leader_that_is_stopped_gives_the_lease_back(
    stock: tuple[Cluster, Process],
) -> None:
    cluster, process = stock
    process.terminate()
    assert await ended(process) == 0
    lease = (await cluster.api.get(LEASE))["spec"]
    assert (lease.get("holderIdentity", ""), lease["leaseDurationSeconds"]) == ("", 1)


@needs_stock
@pytest.mark.parametrize("ours_is_first", [True, False])
async def test_the_lead_passes_between_kube_scheduler_and_ours(
    tmp_path: Path, *, ours_is_first: bool
) -> None:
    """One process waits while the other one leads, and takes the lease when it is released."""
    order = (OURS, (BINARY,)) if ours_is_first else ((BINARY,), OURS)
    async with a_cluster(tmp_path) as cluster, contextlib.AsyncExitStack() as stack:
        await cluster.api.node("a")
        first, _ = await stack.enter_async_context(cluster.scheduler(*order[0]))
        leader = await cluster.led()
        await stack.enter_async_context(cluster.scheduler(*order[1]))

        async def asked() -> str:
            # Who leads writes without reading.
            reads = [r for r in cluster.server.requests if r.method == "GET"]
            return "yes" if sum(r.path.startswith(LEASE) and "aiohttp" not in r.user_agent
                                for r in reads) > 2 else ""  # fmt: skip

        await eventually(asked)
        await cluster.api.pod("early", cpu="100m")
        assert await cluster.api.node_of("early") == "a"
        assert (await cluster.api.get(LEASE))["spec"]["holderIdentity"] == leader
        first.terminate()
        assert await ended(first) == 0
        assert await cluster.led(but_by=leader)
        await cluster.api.pod("late", cpu="100m")
        assert await cluster.api.node_of("late") == "a"
        assert (await cluster.api.get(LEASE))["spec"]["leaseTransitions"] == 1


def test_the_lead_passes_between_the_official_clients_elector_and_ours(fake_api: FakeApi) -> None:
    namespace = fake_api.namespace
    official = Candidate(
        "official", fake_api, lock_of("lease", "official", namespace, fake_api.kubeconfig)
    )
    assert official.leads.wait(PATIENCE_SECONDS)
    process = subprocess.Popen(
        [
            *OURS,
            f"--kubeconfig={fake_api.kubeconfig}",
            *TIMES,
            "--leader-elect-resource-name=lock",
            f"--leader-elect-resource-namespace={namespace}",
        ],
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if f'"Waiting for lease" lock="{namespace}/lock" holder="official"' in line:
                official.lose()
            if "Successfully acquired lease" in line:
                break
        again = Candidate(
            "again", fake_api, lock_of("lease", "again", namespace, fake_api.kubeconfig)
        )
        assert not again.leads.wait(1)
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
        assert again.leads.wait(PATIENCE_SECONDS)
        again.lose()
    finally:
        process.kill()
        process.communicate()
