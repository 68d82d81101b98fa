"""The API server chooses the leader: schedulers with the gate CoordinatedLeaderElection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from conformance.clock import VirtualClock
from fakeapi import FakeApiServer, ServerOptions
from fakeapi.actors import Actors
from tests.integration.api_client import Api
from tests.integration.test_leader_election import (
    LOOKS_AGAIN_SECONDS,
    Election,
    in_virtual_time,
)

CANDIDATES = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates"
#: The server asks all candidates, and waits so long for their answers.
ROUND_SECONDS = 5.0
#: How long the holder of a lease that it may not renew goes on, and how long the lease is valid.
END_OF_TERM_SECONDS = 10.0 + 15.0


@contextlib.asynccontextmanager
async def coordinated(directory: Path) -> AsyncIterator[Election]:
    clock = VirtualClock()
    options = ServerOptions(
        requests_kept=10_000, runtime_config=("coordination.k8s.io/v1beta1=true",)
    )
    async with (
        FakeApiServer(clock=clock, options=options) as server,
        Actors(server, elections=True),
        Api.of(server) as api,
    ):
        election = Election(server, api, clock, directory, "")
        election.gates = {"CoordinatedLeaderElection": True}
        async with election.stack:
            yield election
            tasks = [contender.task for contender in election.contenders]
            for task in tasks:
                task.cancel()
            await election.advance(10)
            await asyncio.gather(*tasks, return_exceptions=True)


@in_virtual_time
async def test_the_server_chooses_the_candidate_which_renews_itself_every_five_minutes(
    tmp_path: Path,
) -> None:
    async with coordinated(tmp_path) as election:
        await election.api.node("a")
        first = await election.join("first")
        await election.advance(ROUND_SECONDS + LOOKS_AGAIN_SECONDS)
        assert (await election.lease())["strategy"] == "OldestEmulationVersion"
        await election.api.pod("web")
        await election.advance(700)
        assert await election.holder() == "first"
        assert await election.nodes_of("web") == ["a"]
        assert not first.has_lost()
        spec = (await election.api.get(f"{CANDIDATES}/first"))["spec"]
        assert spec.pop("renewTime") > "2026-01-01T00:10"
        spec.pop("pingTime", None)
        assert spec == {
            "leaseName": "kube-scheduler",
            "binaryVersion": "1.36.3",
            "emulationVersion": "1.36.0",
            "strategy": "OldestEmulationVersion",
        }


@in_virtual_time
async def test_an_older_version_that_joins_leads_once_the_leader_has_ended(
    tmp_path: Path,
) -> None:
    async with coordinated(tmp_path) as election:
        await election.api.node("a")
        newer = await election.join("newer", version="1.36")
        await election.advance(ROUND_SECONDS + LOOKS_AGAIN_SECONDS)
        assert await election.holder() == "newer"
        older = await election.join("older", version="1.35")
        await election.advance(1)
        assert (await election.lease())["preferredHolder"] == "older"
        await election.advance(END_OF_TERM_SECONDS)
        assert newer.has_lost()
        await election.advance(3 * ROUND_SECONDS + LOOKS_AGAIN_SECONDS)
        assert await election.holder() == "older"
        await election.api.pod("web")
        await election.advance(1)
        assert await election.nodes_of("web") == ["a"]
        assert not older.has_lost()
        agents = {request.user_agent for request in election.server.requests}
        assert {
            f"kubesched/{client} (kube-scheduler {release})"
            for client in ("scheduler", "leader-election")
            for release in ("v1.35.4", "v1.36.3")
        } <= agents


@in_virtual_time
async def test_a_leader_that_ends_is_followed_by_a_candidate_that_answers(tmp_path: Path) -> None:
    async with coordinated(tmp_path) as election:
        await election.api.node("a")
        first = await election.join("first")
        await election.join("second")
        await election.advance(ROUND_SECONDS + LOOKS_AGAIN_SECONDS)
        assert await election.holder() == "first"
        await first.stop()
        await election.advance(3 * ROUND_SECONDS + LOOKS_AGAIN_SECONDS)
        assert await election.holder() == "second"
        await election.api.pod("web")
        await election.advance(1)
        assert await election.nodes_of("web") == ["a"]
