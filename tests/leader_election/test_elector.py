"""The elector in time: when it tries, when it gives up, and that there is never more than one."""

import asyncio
import contextlib
import itertools
import logging
import random
from collections.abc import Callable

import pytest

from scheduler.api.duration import MILLISECOND, SECOND
from scheduler.client import Conflict, ConnectionFailed, LeaseSpec, NotFound, Unauthorized
from scheduler.config import ConfigError, Duration, LeaderElectionConfiguration
from scheduler.leader_election.elector import LeaderElectionLost, LeaderElector, new_identity
from scheduler.metrics import SchedulerMetrics
from scheduler.testing import VirtualClock

NAME = ("kube-scheduler",)


class Server:
    """One lease, as an API server keeps it: each write names the version that it replaces."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.record: LeaseSpec | None = None
        self.version = 0
        #: When each request came, and what it was.
        self.requests: list[tuple[float, str]] = []
        #: What happens to a request: nothing, by default. May wait, may raise.
        self.trouble: Callable[[str], None] = lambda verb: None

    def came(self, verb: str) -> None:
        self.requests.append((round(self.clock.monotonic(), 6), verb))
        self.trouble(verb)

    def times(self) -> list[float]:
        return [seconds for seconds, _ in self.requests]


class Lock:
    """One candidate's way to the lease."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._version = 0

    def __str__(self) -> str:
        return "kube-system/kube-scheduler"

    async def get(self) -> LeaseSpec:
        self._server.came("get")
        if self._server.record is None:
            raise NotFound(404, "NotFound", "no lease")
        self._version = self._server.version
        return self._server.record

    async def create(self, record: LeaseSpec) -> None:
        self._server.came("create")
        if self._server.record is not None:
            raise Conflict(409, "AlreadyExists", "there is one")
        self._write(record)

    async def update(self, record: LeaseSpec) -> None:
        self._server.came("update")
        if self._version != self._server.version:
            raise Conflict(409, "Conflict", "it has changed")
        self._write(record)

    def _write(self, record: LeaseSpec) -> None:
        self._server.version += 1
        self._version, self._server.record = self._server.version, record


class Candidate:
    """A scheduler that works while it leads."""

    def __init__(
        self,
        server: Server,
        identity: str = "me",
        *,
        lock: Lock | None = None,
        seed: int = 0,
        config: LeaderElectionConfiguration | None = None,
        releases_despite_conflicts: bool = False,
    ) -> None:
        self.metrics, self.events = SchedulerMetrics(), list[str]()
        self.identity = identity
        self.works = False
        self.lost_at: float | None = None
        self._clock = server.clock
        self.elector = LeaderElector(
            lock or Lock(server),
            config or LeaderElectionConfiguration(),
            identity=identity,
            clock=server.clock,
            rng=random.Random(seed),
            metrics=self.metrics,
            report=self.events.append,
            releases_despite_conflicts=releases_despite_conflicts,
        )
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            await self.elector.acquire()
            self.works = True
            await self.elector.renew()
        except LeaderElectionLost:
            self.lost_at = self._clock.monotonic()
        finally:
            self.works = False
        await self.elector.release()

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        await self.elector.release()


@pytest.fixture
def server() -> Server:
    return Server(VirtualClock())


@pytest.fixture
def others(server: Server) -> None:
    """The lease is another one's, who does not renew it."""
    server.record = LeaseSpec(holder_identity="other", lease_duration_seconds=15)
    server.version = 1


async def test_a_free_lease_is_had_at_once_and_renewed_every_two_seconds(server: Server) -> None:
    candidate = Candidate(server)
    await server.clock.advance(0)
    assert candidate.works
    assert candidate.events == ["became leader"]
    assert candidate.metrics.leader_election_master_status[NAME] == 1
    await server.clock.advance(6.5)
    assert server.requests == [
        (0.0, "get"), (0.0, "create"),
        (0.0, "update"), (2.0, "update"), (4.0, "update"), (6.0, "update"),
    ]  # fmt: skip
    assert candidate.metrics.leader_election_slowpath == {}
    await candidate.stop()


@pytest.mark.usefixtures("others")
async def test_a_waiting_candidate_reads_the_lease_every_two_to_four_seconds(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    candidate = Candidate(server, seed=3)
    with caplog.at_level(logging.INFO):
        await server.clock.advance(14.9)
    assert not candidate.works
    assert {verb for _, verb in server.requests} == {"get"}
    times = server.times()
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(2.0 <= pause < 4.4 for pause in pauses)
    assert len({round(pause, 3) for pause in pauses}) == len(pauses), "pauses are drawn"
    waits = [record.args for record in caplog.records if record.msg == "Waiting for lease"]
    assert waits == [{"lock": "kube-system/kube-scheduler", "holder": "other"}]
    assert candidate.metrics.leader_election_master_status[NAME] == 0
    await server.clock.advance(15 + 4.4 - 14.9)
    assert candidate.works
    await candidate.stop()


async def test_the_same_seed_draws_the_same_pauses() -> None:
    async def times(seed: int) -> list[float]:
        server = Server(VirtualClock())
        server.record = LeaseSpec(holder_identity="other", lease_duration_seconds=15)
        candidate = Candidate(server, seed=seed)
        await server.clock.advance(14)
        await candidate.stop()
        return server.times()

    assert await times(1) == await times(1) != await times(2)


async def test_row_38_a_leader_that_cannot_renew_for_ten_seconds_ends(server: Server) -> None:
    candidate = Candidate(server)
    await server.clock.advance(1)

    def fails(verb: str) -> None:
        raise ConnectionFailed("no answer")

    server.trouble = fails
    await server.clock.advance(10.9)
    assert candidate.works
    await server.clock.advance(0.2)
    assert candidate.lost_at == 12.0
    tries = [seconds for seconds, verb in server.requests if verb == "update"]
    assert tries == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert candidate.events == ["became leader", "stopped leading"]
    assert candidate.metrics.leader_election_master_status[NAME] == 0


@pytest.mark.parametrize("answer_seconds", [0.0, 0.5])
async def test_a_leader_stopped_for_longer_than_its_term_ends_as_soon_as_it_wakes(
    server: Server, answer_seconds: float
) -> None:
    """Stopped between two renewals, or before the answer to one; no other has taken the lease."""

    class Slow(Lock):
        async def update(self, record: LeaseSpec) -> None:
            await super().update(record)
            await self._server.clock.sleep(answer_seconds)

    candidate = Candidate(server, lock=Slow(server))
    await server.clock.advance(2.75)
    assert candidate.elector.leads
    before = len(server.requests)
    server.clock.advance_nowait(30)
    assert not candidate.elector.leads
    await server.clock.advance(0)
    assert candidate.lost_at == 32.75
    assert [verb for _, verb in server.requests[before:]] == ["get", "update"], "the release"


async def test_a_request_without_an_answer_does_not_put_off_the_end(server: Server) -> None:
    class Hanging(Lock):
        async def update(self, record: LeaseSpec) -> None:
            await super().update(record)
            if self._server.clock.monotonic() > 3:
                await asyncio.Event().wait()

        async def get(self) -> LeaseSpec:
            if self._server.clock.monotonic() > 3:
                await asyncio.Event().wait()
            return await super().get()

    candidate = Candidate(server, lock=Hanging(server))
    await server.clock.advance(13.9)
    assert candidate.works
    await server.clock.advance(0.1)
    assert candidate.lost_at == 14.0
    assert not candidate.task.done(), "it tries to give the lease back, for ten seconds at most"
    await server.clock.advance(10)
    assert candidate.task.done()


async def test_a_slow_try_is_followed_by_the_next_at_once_and_then_in_step(server: Server) -> None:
    class Slow(Lock):
        async def update(self, record: LeaseSpec) -> None:
            self._server.requests.append((self._server.clock.monotonic(), "asked"))
            if self._server.clock.monotonic() == 2.0:
                await self._server.clock.sleep(5)
                raise ConnectionFailed("no answer")
            if self._server.clock.monotonic() == 7.0:
                raise ConnectionFailed("no answer")
            await super().update(record)

        async def get(self) -> LeaseSpec:
            if self._server.clock.monotonic() >= 7.0:
                raise ConnectionFailed("no answer")
            return await super().get()

    candidate = Candidate(server, lock=Slow(server))
    await server.clock.advance(11)
    asked = [seconds for seconds, verb in server.requests if verb == "asked"]
    assert asked == [0.0, 2.0, 7.0, 8.0, 10.0]
    assert candidate.works
    await candidate.stop()


async def test_row_39_a_leader_whose_lease_is_stolen_ends_and_does_not_write_the_lease(
    server: Server,
) -> None:
    candidate = Candidate(server)
    await server.clock.advance(1)
    thief = LeaseSpec(holder_identity="thief", lease_duration_seconds=15)
    server.record, server.version = thief, 99
    await server.clock.advance(11)
    assert candidate.lost_at == 12.0
    assert server.record == thief


@pytest.mark.parametrize("is_tried_again", [False, True])
async def test_the_last_renewal_may_come_between_the_requests_of_the_release(
    server: Server, is_tried_again: bool
) -> None:
    candidate = Candidate(server, releases_despite_conflicts=is_tried_again)
    await server.clock.advance(3)

    def renewal_arrives(verb: str) -> None:
        if verb == "update":
            server.version += 1
            server.trouble = lambda _: None

    server.trouble = renewal_arrives
    await candidate.stop()
    assert server.record is not None
    assert server.record.holder_identity == ("" if is_tried_again else "me")


@pytest.mark.usefixtures("others")
async def test_a_candidate_that_never_led_releases_nothing(server: Server) -> None:
    candidate = Candidate(server)
    await server.clock.advance(1)
    asked = len(server.requests)
    await candidate.stop()
    assert candidate.events == []
    assert len(server.requests) == asked


async def test_a_leader_that_is_stuck_is_not_well(server: Server) -> None:
    candidate = Candidate(server)
    await server.clock.advance(1)
    candidate.task.cancel()  # the renewal is gone, the work goes on
    await server.clock.advance(34)
    assert candidate.elector.problem() == ""
    await server.clock.advance(0.5)
    assert candidate.elector.problem() == (
        "failed election to renew leadership on lease kube-scheduler"
    )


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ((10, 10, 2), "leaseDuration must be greater than renewDeadline"),
        ((15, 12, 10), "renewDeadline must be greater than retryPeriod*JitterFactor"),
        ((15, 10, 0), "retryPeriod must be greater than zero"),
    ],
)
async def test_times_that_cannot_work_together_are_refused(
    server: Server, times: tuple[int, int, int], words: str
) -> None:
    lease, deadline, retry = (Duration(seconds * SECOND) for seconds in times)
    config = LeaderElectionConfiguration(
        lease_duration=lease, renew_deadline=deadline, retry_period=retry
    )
    with pytest.raises(ConfigError, match=words.replace("*", r"\*")):
        Candidate(server, config=config)


async def test_half_a_second_is_not_written(server: Server) -> None:
    config = LeaderElectionConfiguration(
        lease_duration=Duration(2500 * MILLISECOND),
        renew_deadline=Duration(2 * SECOND),
        retry_period=Duration(500 * MILLISECOND),
    )
    candidate = Candidate(server, config=config)
    await server.clock.advance(0)
    assert server.record is not None
    assert server.record.lease_duration_seconds == 2
    await candidate.stop()


def test_no_two_processes_are_called_the_same() -> None:
    assert new_identity() != new_identity()
    assert "_" in new_identity()


class Unreliable(Lock):
    """Requests take their time, and sometimes fail; some of those have been carried out."""

    def __init__(self, server: Server, rng: random.Random) -> None:
        super().__init__(server)
        self._rng = rng

    async def _suffer(self, when: str) -> None:
        await self._server.clock.sleep(self._rng.choice((0.0, 0.1, 1.0, 4.0)))
        if self._rng.random() < 0.3:
            raise ConnectionFailed(f"lost {when}")

    async def get(self) -> LeaseSpec:
        await self._suffer("before")
        record = await super().get()
        await self._suffer("after")
        return record

    async def create(self, record: LeaseSpec) -> None:
        await self._suffer("before")
        await super().create(record)
        await self._suffer("after")

    async def update(self, record: LeaseSpec) -> None:
        await self._suffer("before")
        await super().update(record)
        await self._suffer("after")


@pytest.mark.parametrize("seed", range(8))
async def test_there_is_never_more_than_one_leader(seed: int) -> None:
    """Requests and answers are lost or late at random; candidates take over again and again."""
    server, rng = Server(VirtualClock()), random.Random(seed)
    candidates: list[Candidate] = []
    leaders: list[str] = []

    def join() -> None:
        name = f"c{len(candidates)}"
        lock = Unreliable(server, random.Random(rng.random()))
        candidates.append(Candidate(server, name, lock=lock, seed=len(candidates)))

    for _ in range(3):
        join()
    for _ in range(360):
        await server.clock.advance(1.0)
        works = [candidate.identity for candidate in candidates if candidate.works]
        assert len(works) <= 1, f"at {server.clock.monotonic()}"
        if works and (not leaders or leaders[-1] != works[0]):
            leaders.append(works[0])
        while sum(not candidate.task.done() for candidate in candidates) < 3:
            join()
        if rng.random() < 0.04:
            rng.choice(candidates).task.cancel()  # killed: nothing is given back
    assert len(leaders) > 2
    for candidate in candidates:
        candidate.task.cancel()
    await asyncio.gather(*(candidate.task for candidate in candidates), return_exceptions=True)


async def test_an_equal_failure_is_logged_once_a_minute(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(verb: str) -> None:
        raise Unauthorized(401, "Unauthorized", "Unauthorized")

    server.trouble = refused
    candidate = Candidate(server)
    with caplog.at_level(logging.ERROR):
        await server.clock.advance(90)
    assert len(server.requests) > 20
    assert [str(record.args) for record in caplog.records] == [
        "{'lock': 'kube-system/kube-scheduler', "
        "'err': Unauthorized(401, 'Unauthorized', 'Unauthorized')}"
    ] * 2
    await candidate.stop()
