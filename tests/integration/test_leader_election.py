"""Our schedulers and a lease: rows 37 to 42 of the faults, where one ends or two are needed.

Time is virtual: a lease of fifteen seconds runs out in milliseconds. What a single scheduler shows
that goes on is in conformance/cases/faults/leases.yaml, and in test_leader_election_process.py
what only a process does.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, ParamSpec

import aiohttp
import pytest

from conformance.clock import VirtualClock
from conformance.targets.quiet import QuietLoop
from fakeapi import FakeApiServer, ObjectChange, Security, ServerOptions
from fakeapi.faults import AnswerWith, Delay, Fault, Match, When
from scheduler.leader_election.elector import LeaderElectionLost
from scheduler.testing.in_process import RunningScheduler, run_in_process
from tests.integration.api_client import Api
from tests.integration.scripted_run import kubeconfig_for
from tests.integration.write_proxy import Fate, Moment, Write, WriteProxy

Json = dict[str, Any]
Plan = Callable[[Write], Fate | None]


P = ParamSpec("P")

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/kube-scheduler"
#: How long who waits may take to look again: two seconds, and 1.2 times that.
LOOKS_AGAIN_SECONDS = 4.4
NO_LIMITS = Security()


def in_virtual_time(test: Callable[P, Coroutine[None, None, None]]) -> Callable[P, None]:
    """Run a test on a loop that detects idleness."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=QuietLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


class StoppableClock(VirtualClock):
    """The clock of one process, on the time of all: while the process is stopped, none wakes."""

    def __init__(self, shared: VirtualClock) -> None:
        super().__init__()
        self._shared = shared
        self.runs = asyncio.Event()
        self.runs.set()

    def now(self) -> float:
        return self._shared.now()

    def monotonic(self) -> float:
        return self._shared.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._shared.sleep(seconds)
        await self.runs.wait()


class Contender:
    """A scheduler that stands for election, behind a proxy that may end it like `kill -9`."""

    def __init__(self, election: Election, name: str, plan: Plan, version: str) -> None:
        self.name, self._version = name, version
        self._election = election
        self.proxy = WriteProxy(election.server.url, plan=plan, on_death=self._die)
        self.scheduler: RunningScheduler | None = None
        self._ended = asyncio.Event()
        self.clock = StoppableClock(election.clock)

    async def start(self) -> None:
        await self._election.stack.enter_async_context(self.proxy)
        self.task = asyncio.ensure_future(self._run())
        await self._election.advance(0)

    async def _run(self) -> None:
        running = run_in_process(
            kubeconfig=kubeconfig_for(self.proxy.url, self._election.directory),
            clock=self.clock,
            config=self._election.config,
            identity=self.name,
            serve=True,
            feature_gates=self._election.gates,
            scheduler_version=self._version,
        )
        async with running as self.scheduler:
            await self._ended.wait()

    def _die(self) -> None:
        self.task.cancel()

    async def stop(self) -> None:
        """End it as SIGTERM does."""
        self._ended.set()
        await self._election.advance(0)
        await self.task

    @property
    def running(self) -> RunningScheduler:
        assert self.scheduler is not None
        return self.scheduler

    def has_lost(self) -> bool:
        """True if it has ended because it lost the lead."""
        try:
            self.running.is_idle  # noqa: B018 - raises what it has failed with
        except BaseExceptionGroup as group:
            return group.subgroup(LeaderElectionLost) is not None
        return False

    async def ask(self, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(self.running.url + path) as answer,
        ):
            return answer.status, await answer.text()


class Election:
    """An API server, a clock, and schedulers that all want to lead."""

    def __init__(
        self, server: FakeApiServer, api: Api, clock: VirtualClock, directory: Path, config: str
    ) -> None:
        self.server, self.api, self.clock, self.directory = server, api, clock, directory
        self.stack = contextlib.AsyncExitStack()
        self.contenders: list[Contender] = []
        self.gates: dict[str, bool] = {}
        #: The nodes that each pod was ever bound to, by uid.
        self.bound: dict[str, list[str]] = {}
        self.config = directory / "config.yaml"
        head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        self.config.write_text(head + config, encoding="utf-8")

    async def join(
        self, name: str, plan: Plan = lambda write: None, *, version: str = "1.36"
    ) -> Contender:
        contender = Contender(self, name, plan, version)
        self.contenders.append(contender)
        await contender.start()
        return contender

    async def advance(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, QuietLoop)
        await self.clock.run_for(seconds, loop.quiet)

    async def holder(self) -> str:
        return str((await self.lease())["holderIdentity"])

    async def lease(self) -> Json:
        return dict((await self.api.get(LEASE))["spec"])

    async def nodes_of(self, *names: str) -> list[str]:
        pods = [await self.api.get(f"/api/v1/namespaces/default/pods/{name}") for name in names]
        return [pod["spec"].get("nodeName", "") for pod in pods]

    async def lease_events(self) -> list[str]:
        events = (await self.api.get("/api/v1/namespaces/kube-system/events"))["items"]
        assert {event["reason"] for event in events} <= {"LeaderElection"}
        return [event["message"] for event in events]

    def note(self, change: ObjectChange) -> None:
        metadata, spec = change.object["metadata"], change.object.get("spec")
        if change.resource == "pods" and isinstance(spec, dict) and spec.get("nodeName"):
            assert isinstance(metadata, dict)
            nodes = self.bound.setdefault(str(metadata["uid"]), [])
            if spec["nodeName"] not in nodes:
                nodes.append(spec["nodeName"])


@contextlib.asynccontextmanager
async def an_election(
    directory: Path, config: str = "", *, security: Security = NO_LIMITS
) -> AsyncIterator[Election]:
    clock, options = VirtualClock(), ServerOptions(requests_kept=10_000)
    async with (
        FakeApiServer(clock=clock, options=options, security=security) as server,
        Api.of(server) as api,
    ):
        election = Election(server, api, clock, directory, config)
        with server.listening(on_change=election.note):
            async with election.stack:
                yield election
                server.faults.clear()
                for contender in election.contenders:
                    contender.task.cancel()
                tasks = [contender.task for contender in election.contenders]
                # Who gives back a lease through a proxy that is dead needs time to see that.
                await election.advance(10)
                await asyncio.gather(*tasks, return_exceptions=True)


@in_virtual_time
async def test_by_default_the_first_process_leads_and_the_others_wait(tmp_path: Path) -> None:
    async with an_election(tmp_path) as election:
        await election.api.node("a")
        first = await election.join("first")
        second = await election.join("second")
        await election.api.pod("web")
        await election.advance(30)
        assert await election.nodes_of("web") == ["a"]
        lease = await election.lease()
        assert lease == {
            "holderIdentity": "first",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:30.000000Z",
            "leaseTransitions": 0,
        }
        assert second.proxy.writes == []
        assert second.running.is_idle
        assert first.running.is_idle
        assert await election.lease_events() == ["first became leader"]


@in_virtual_time
async def test_row_38_a_leader_that_cannot_renew_ends_and_another_one_takes_over(
    tmp_path: Path,
) -> None:
    async with an_election(tmp_path) as election:
        await election.api.node("a", cpu="8")
        first = await election.join("first")
        second = await election.join("second")
        await election.advance(1)
        trouble = Fault(match=Match(resource="leases"), answer=AnswerWith(code=500))
        election.server.faults.add(trouble)
        await election.advance(10.9)
        assert not first.has_lost()
        await election.api.pod("early")
        await election.advance(0)
        assert await election.nodes_of("early") == ["a"], "it leads until it knows better"
        await election.advance(0.2)
        assert first.has_lost()
        await election.api.pod("late")
        election.server.faults.clear()
        await election.advance(15 + LOOKS_AGAIN_SECONDS)
        assert await election.holder() == "second"
        assert await election.nodes_of("late") == ["a"]
        assert second.running.is_idle
        assert all(len(nodes) == 1 for nodes in election.bound.values())


@in_virtual_time
async def test_a_leader_keeps_its_lease_while_hundreds_of_its_writes_compete_for_one_place(
    tmp_path: Path,
) -> None:
    """Refused writes come again each second, all at once."""
    one_place = Security(max_mutating_requests_inflight=1)
    async with an_election(tmp_path, security=one_place) as election:
        slow = Match(verb="patch", resource="pods/status")
        election.server.faults.add(Fault(name="slow", match=slow, delay=Delay(seconds=0.3)))
        await election.api.node("a")
        containers = [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "64"}}}]
        election.server.load(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"huge-{n}", "namespace": "default"},
                "spec": {"containers": containers},
            }
            for n in range(300)
        )
        first = await election.join("first")
        await election.advance(16)
        assert not first.has_lost()
        assert election.server.faults.count("slow") > 20
        refused = [one for one in election.server.requests if one.status == 429]
        assert len(refused) > 500


@in_virtual_time
async def test_a_leader_that_was_stopped_writes_nothing_beside_its_successor(
    tmp_path: Path,
) -> None:
    """The leader's renewals stop; its watches go on, so it would bind every pod it gets."""
    async with an_election(tmp_path) as election:
        await election.api.node("a", cpu="64")
        first = await election.join("first")
        await election.join("second")
        await election.advance(1)
        first.clock.runs.clear()
        await election.advance(10.9)
        await election.api.pod("early")
        await election.advance(0)
        assert await election.nodes_of("early") == ["a"]
        writes = len(first.proxy.writes)
        await election.advance(15)
        assert await election.holder() == "second"
        for name in ("late", "later"):
            await election.api.pod(name)
            await election.advance(0)
        assert await election.nodes_of("late", "later") == ["a", "a"]
        assert len(first.proxy.writes) == writes
        first.clock.runs.set()
        await election.advance(0)
        assert first.has_lost()
        kinds = [write.kind for write in first.proxy.writes[writes:]]
        assert set(kinds) <= {"POST events"}, "the event of the election about its end"


@in_virtual_time
async def test_row_42_a_stopped_leader_gives_the_lease_back(tmp_path: Path) -> None:
    async with an_election(tmp_path) as election:
        await election.api.node("a")
        first = await election.join("first")
        second = await election.join("second")
        await election.advance(7)
        await first.stop()
        lease = await election.lease()
        assert (lease["holderIdentity"], lease["leaseDurationSeconds"]) == ("", 1)
        await election.api.pod("web")
        await election.advance(LOOKS_AGAIN_SECONDS)
        lease = await election.lease()
        assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("second", 1)
        assert await election.nodes_of("web") == ["a"]
        assert await election.lease_events() == [
            "first became leader", "first stopped leading", "second became leader",
        ]  # fmt: skip
        assert second.running.is_idle


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("number", [1, 3])
@in_virtual_time
async def test_a_leader_killed_at_a_binding_is_followed_and_no_pod_is_lost_or_bound_twice(
    tmp_path: Path, moment: Moment, number: int
) -> None:
    """True if the server has received the binding."""

    def plan(write: Write) -> Fate | None:
        if write.kind == "POST pods/binding":
            bindings.append(write)
            return moment if len(bindings) == number else None
        return None

    bindings: list[Write] = []
    names = [f"p{i}" for i in range(6)]
    async with an_election(tmp_path) as election:
        for node in ("a", "b"):
            await election.api.node(node, cpu="3")
        first = await election.join("first", plan)
        second = await election.join("second")
        await asyncio.gather(*(election.api.pod(name) for name in names))
        await election.advance(0)
        await asyncio.wait_for(first.proxy.dead.wait(), 5)
        # The killed one may have renewed a moment ago, and is given all of its time.
        await election.advance(14)
        assert second.proxy.writes == []
        await election.advance(1 + LOOKS_AGAIN_SECONDS)
        assert await election.holder() == "second"
        assert sorted(await election.nodes_of(*names)) == ["a"] * 3 + ["b"] * 3
        assert len(election.bound) == len(names)
        assert all(len(nodes) == 1 for nodes in election.bound.values())
        second.running.check()


@in_virtual_time
async def test_with_delay_cache_until_active_a_waiting_process_watches_nothing(
    tmp_path: Path,
) -> None:
    async with an_election(tmp_path, "delayCacheUntilActive: true\n") as election:
        await election.api.node("a")
        first = await election.join("first")
        watchers = election.server.statistics().watchers
        second = await election.join("second")
        await election.api.pod("web")
        await election.advance(0)
        assert await election.nodes_of("web") == ["a"]
        assert election.server.statistics().watchers == watchers > 0
        assert second.running.is_idle
        assert (await second.ask("/readyz"))[0] == 500
        await first.stop()
        await election.api.pod("late")
        await election.advance(LOOKS_AGAIN_SECONDS)
        assert await election.nodes_of("late") == ["a"]
        assert (await second.ask("/readyz"))[0] == 200


@in_virtual_time
async def test_metrics_and_health_checks_show_the_leader(tmp_path: Path) -> None:
    async with an_election(tmp_path) as election:
        first = await election.join("first")
        second = await election.join("second")
        for contender, leads in ((first, "1.0"), (second, "0.0")):
            status = f'leader_election_master_status{{name="kube-scheduler"}} {leads}'
            assert status in (await contender.ask("/metrics"))[1].splitlines()
            assert await contender.ask("/healthz?verbose") == (
                200,
                "[+]leaderElection ok\nhealthz check passed\n",
            )
            assert (await contender.ask("/readyz"))[0] == 200
        conflict = Fault(
            match=Match(verb="update", resource="leases"),
            when=When(times=1),
            answer=AnswerWith(code=409),
        )
        election.server.faults.add(conflict)
        await election.advance(3)
        metrics = (await first.ask("/metrics"))[1].splitlines()
        assert 'leader_election_slowpath_total{name="kube-scheduler"} 1.0' in metrics


@in_virtual_time
async def test_without_election_there_is_no_lease_and_all_work(tmp_path: Path) -> None:
    off = "leaderElection: {leaderElect: false}\n"
    async with an_election(tmp_path, off) as election:
        await election.api.node("a")
        first = await election.join("first")
        await election.api.pod("web")
        await election.advance(0)
        assert await election.nodes_of("web") == ["a"]
        assert (await election.api.get(LEASES))["items"] == []
        assert (await first.ask("/healthz?verbose"))[1].startswith("[+]ping ok\n")
        assert "leader_election" not in (await first.ask("/metrics"))[1]
