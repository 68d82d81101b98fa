"""kube-scheduler v1.36.3 and a failing server: the cases for faults, and the end of the process.

The rows are those of conformance/cases/faults/README.md. That upstream passes shows that the faults
are realistic, and that the cases expect no more than upstream does. The tests of the end have their
counterpart for our scheduler in test_leader_election.py.
"""

import asyncio
import contextlib
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from conformance.format.case import BUILT_IN, load_cases
from conformance.format.selection import select
from conformance.outcome import Verdict
from conformance.run.runner import Settings, run_cases
from conformance.targets.target import TargetOptions
from fakeapi import FakeApiServer, ServerOptions
from fakeapi.faults import AnswerWith, Fault, Match
from tests.fakeapi.api_client import ApiClient
from tests.integration.test_stock_scheduler import BINARY

Json = dict[str, Any]

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
#: A fifth of the default times: it renews every half second, and gives up after two.
FLAGS = (
    "--secure-port=0",
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
)
PATIENCE_SECONDS = 60.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BINARY, reason="no kube-scheduler: set KUBE_SCHEDULER"),
]


class Leader:
    """A kube-scheduler with leader election, and its lease."""

    def __init__(self, server: FakeApiServer, api: ApiClient, process: Process) -> None:
        self.server = server
        self.api = api
        self.process = process

    async def lease(self) -> Json:
        """The lease's spec as it is; empty if there is none."""
        reply = await self.api.get(LEASE)
        return dict(reply.body["spec"]) if reply.code == 200 else {}

    async def until(self, wanted: Callable[[Json], object]) -> Json:
        """The lease's spec once it is as wanted."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not wanted(found := await self.lease()):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
            return found

    async def ended(self) -> int:
        """The exit status."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.process.wait()


@contextlib.asynccontextmanager
async def scheduler(server: FakeApiServer, directory: Path) -> AsyncIterator[Process]:
    kubeconfig = server.write_kubeconfig(directory / "kubeconfig")
    with (directory / "log").open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            BINARY, f"--kubeconfig={kubeconfig}", *FLAGS, stderr=output
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[Leader]:
    """A scheduler that leads."""
    async with (
        FakeApiServer(options=ServerOptions(requests_kept=10_000)) as server,
        aiohttp.ClientSession() as session,
        scheduler(server, tmp_path) as process,
    ):
        leads = Leader(server, ApiClient(session, server.url), process)
        await leads.until(lambda spec: spec.get("holderIdentity"))
        yield leads


async def test_row_38_a_leader_that_cannot_renew_ends(leader: Leader) -> None:
    leader.server.faults.add(Fault(match=Match(resource="leases"), answer=AnswerWith(code=500)))
    assert await leader.ended() == 1


async def test_row_39_a_leader_whose_lease_was_stolen_ends(leader: Leader) -> None:
    await leader.api.patch(LEASE, {"spec": {"holderIdentity": "thief"}})
    assert await leader.ended() == 1
    assert (await leader.lease())["holderIdentity"] == "thief"


async def test_row_42_a_leader_that_is_stopped_gives_the_lease_back(leader: Leader) -> None:
    leader.process.terminate()
    assert await leader.ended() == 0
    lease = await leader.lease()
    assert (lease.get("holderIdentity", ""), lease["leaseDurationSeconds"]) == ("", 1)


def test_upstream_passes_the_cases_for_faults() -> None:
    command = f"{BINARY} --config {{config}} --secure-port=0"
    settings = Settings(target=TargetOptions(command=command), timeout_seconds=120.0)
    outcomes = run_cases(select(load_cases([BUILT_IN]), "faults/"), settings)
    bad = [f"{outcome.id}: {outcome.reason}" for outcome in outcomes if outcome.is_bad]
    assert bad == []
    assert all(outcome.verdict is Verdict.PASSED for outcome in outcomes)
