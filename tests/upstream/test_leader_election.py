"""The candidate for a lease, its elector and its lock, against upstream's own cases."""

import asyncio
import contextlib
import random
from typing import Any, cast

import aiohttp
import msgspec
import pytest

from conformance.clock import VirtualClock as SharedClock
from conformance.targets.quiet import QuietLoop
from fakeapi import FakeApiServer, ServerOptions
from scheduler.api.duration import SECOND
from scheduler.client import ClientError, ConnectionFailed, LeaseSpec, NotFound, RestClient
from scheduler.client.connection import connection_to
from scheduler.clock import Clock, SystemClock, rfc3339_micro
from scheduler.config import DEFAULT_VERSION, ConfigError, Duration, LeaderElectionConfiguration
from scheduler.leader_election.candidate import Candidate
from scheduler.leader_election.elector import LeaderElector
from scheduler.leader_election.lease_candidate import LeaseCandidacy
from scheduler.leader_election.lease_lock import LeaseLock
from scheduler.metrics import SchedulerMetrics
from scheduler.testing import VirtualClock
from tests.fakeapi.api_client import ApiClient
from tests.integration.test_leader_election import in_virtual_time
from tests.upstream.loading import Case, cases

TOPIC = "leader_election"
CANDIDATE = "/apis/coordination.k8s.io/v1beta1/namespaces/default/leasecandidates/foo"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/test-name"
SECONDS = {"past": -1e6, "now": 0.0, "future": 1e6}
#: An answer comes later than its try has begun: what lasts for no time at all is seen then.
ANSWER_SECONDS = 0.001


def record_of(value: Any) -> LeaseSpec:
    return msgspec.convert(value, LeaseSpec)


class Play:
    """Plays a case's calls on a candidate, one try after another; its clock and its lock."""

    def __init__(self, case: Case) -> None:
        self.seconds = 0.0
        self.calls: list[dict[str, Any]] = []
        self.candidate = Candidate(
            cast("LeaseLock", self),
            identity="baz",
            lease_duration_seconds=10,
            clock=cast("Clock", self),
        )
        self.succeeded = False
        observed = case.get("observed")
        if observed:
            record = record_of(observed["record"])
            self.candidate.observed = self.candidate.observed_raw = record
            self.candidate.observed_at_seconds = SECONDS[observed["at"]]
        self._is_coordinated = case.get("coordinated", False)
        tries: list[list[Any]] = [[]]
        for call in case["calls"]:
            if call == "release" or "pause" in call:
                tries.append([])
            tries[-1].append(call)
        for calls in filter(None, tries):
            self._try(calls)

    def now(self) -> float:
        return 1e9

    def monotonic(self) -> float:
        return self.seconds

    async def get(self) -> LeaseSpec:
        return record_of(self._answer("get"))

    async def create(self, record: LeaseSpec) -> None:
        self._answer("create")

    async def update(self, record: LeaseSpec) -> None:
        self._answer("update")

    def _answer(self, verb: str) -> Any:
        assert self.calls, f"one call more than upstream's: {verb}"
        ((wanted, answer),) = self.calls.pop(0).items()
        # Upstream's cases call an update without a GET before it a renewal.
        assert verb == ("update" if wanted == "renew" else wanted)
        self.seconds = self._started + ANSWER_SECONDS
        if answer == "missing":
            raise NotFound(404, "NotFound", "not found")
        if answer == "failed":
            raise ConnectionFailed("no answer")
        return answer

    def _try(self, calls: list[Any]) -> None:
        first, self.calls = calls[0], calls
        attempt = self.candidate.try_acquire_or_renew
        if self._is_coordinated:
            attempt = self.candidate.try_coordinated_renew
        work = attempt()
        if first == "release":
            work.close()
            work = self.candidate.release()
            del calls[0]
        elif "pause" in first:
            self.seconds += first["pause"]
            del calls[0]
        self._started = self.seconds
        with pytest.raises(StopIteration) as end:
            work.send(None)
        assert not calls, "fewer calls than upstream's"
        self.succeeded = end.value.value


@pytest.mark.parametrize("case", cases(TOPIC, "tries"))
def test_attempts_end_with_upstreams_holder(case: Case) -> None:
    play = Play(case)
    assert play.succeeded == case.get("succeeds", True)
    assert play.candidate.leader == case["holder"]
    assert (play.candidate.observed.lease_transitions or 0) == case["transitions"]


class ScriptedLock:
    """A lock that answers by script, and sets `over` at the end of the script."""

    def __init__(self, script: list[dict[str, str]]) -> None:
        self.script = script
        self.over = asyncio.Event()
        self._record = LeaseSpec()

    async def get(self) -> LeaseSpec:
        await self._play("get")
        return self._record

    async def create(self, record: LeaseSpec) -> None:
        await self._play("create")
        self._record = record

    async def update(self, record: LeaseSpec) -> None:
        await self._play("update")
        self._record = record

    async def _play(self, verb: str) -> None:
        ((wanted, word),) = self.script.pop(0).items()
        assert wanted == verb
        if word == "hangs":
            self.over.set()
            await asyncio.Event().wait()
        elif word == "missing":
            raise NotFound(404, "NotFound", "not found")
        elif word == "failed":
            raise ConnectionFailed("context canceled")


def elector(
    lock: Any, clock: VirtualClock, *, identity: str = "baz", events: list[str] | None = None
) -> LeaderElector:
    config = LeaderElectionConfiguration(
        lease_duration=Duration(15 * SECOND),
        renew_deadline=Duration(2 * SECOND),
        retry_period=Duration(1 * SECOND),
    )
    told = events if events is not None else []
    return LeaderElector(
        lock,
        config,
        identity=identity,
        clock=clock,
        rng=random.Random(0),
        metrics=SchedulerMetrics(),
        report=told.append,
    )


@pytest.mark.parametrize("case", cases(TOPIC, "runs"))
async def test_an_election_calls_back_as_upstreams(case: Case) -> None:
    clock, lock, events = VirtualClock(), ScriptedLock([*case["calls"]]), list[str]()
    tested = elector(lock, clock, events=events)

    async def run() -> None:
        await tested.acquire()
        await tested.renew()

    running = asyncio.ensure_future(run())
    for _ in range(20):
        await clock.advance(0.5)
        if lock.over.is_set():
            break
    assert lock.script == []
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    if "release" in case.fields:
        lock.script.extend(case["release"])
        await tested.release()
        assert lock.script == []
        assert events == case["events"]


@pytest.mark.parametrize("case", cases(TOPIC, "checks"))
def test_a_bad_identity_is_refused_as_upstreams(case: Case) -> None:
    with pytest.raises(ConfigError) as caught:
        elector(ScriptedLock([]), VirtualClock(), identity=case["identity"])
    assert str(caught.value) == case["error"]


@pytest.mark.parametrize("case", cases(TOPIC, "health"))
async def test_a_lease_is_healthy_as_long_as_upstreams(case: Case) -> None:
    class Held(ScriptedLock):
        async def get(self) -> LeaseSpec:
            if not case["holder"]:
                await asyncio.Event().wait()
            return LeaseSpec(holder_identity=case["holder"], lease_duration_seconds=60)

        async def update(self, record: LeaseSpec) -> None:
            pass

    clock = VirtualClock()
    config = LeaderElectionConfiguration(lease_duration=Duration(60 * SECOND))
    tested = LeaderElector(
        Held([]),
        config,
        identity="healthTest",
        clock=clock,
        rng=random.Random(0),
        metrics=SchedulerMetrics(),
        report=lambda words: None,
    )
    acquiring = asyncio.ensure_future(tested.acquire())
    await clock.advance(0)
    clock.advance_nowait(case["seconds"])
    assert tested.problem() == case.get("problem", "")
    acquiring.cancel()


@pytest.mark.parametrize("case", cases(TOPIC, "lease_lock"))
async def test_lease_lock(case: Case) -> None:
    record = LeaseSpec(holder_identity="test-identity", lease_duration_seconds=15)
    async with (
        FakeApiServer() as server,
        RestClient(
            connection_to(server.url), user_agent="kubesched/test", clock=SystemClock()
        ) as client,
        aiohttp.ClientSession() as session,
    ):
        api = ApiClient(session, server.url)
        lock = LeaseLock(client, namespace="kube-system", name="test-name")
        assert str(lock) == "kube-system/test-name"
        for step in case["steps"]:
            verb, _, rest = step.partition(" ")
            if verb == "label":
                key, _, value = rest.partition("=")
                await api.patch(LEASE, {"metadata": {"labels": {key: value}}})
            elif verb == "labelled":
                key, _, value = rest.partition("=")
                assert (await api.get(LEASE)).body["metadata"]["labels"] == {key: value}
            else:
                await _act(lock, verb, rest, record)


async def _act(lock: LeaseLock, verb: str, error: str, record: LeaseSpec) -> None:
    met = ""
    try:
        if verb == "get":
            assert await lock.get() == record
        elif verb == "create":
            await lock.create(record)
        else:
            await lock.update(record)
    except (ClientError, AssertionError) as raised:
        met = type(raised).__name__
    assert met == error


async def _be_candidate(client: RestClient, clock: Clock) -> None:
    async with asyncio.TaskGroup() as group:
        candidacy = LeaseCandidacy(
            client,
            namespace="default",
            lease_name="lease",
            identity="foo",
            version=DEFAULT_VERSION,
            clock=clock,
            rng=random.Random(0),
        )
        candidacy.start(group)


@pytest.mark.parametrize("case", cases(TOPIC, "lease_candidate"))
@in_virtual_time
async def test_lease_candidate(case: Case) -> None:
    clock, loop = SharedClock(), asyncio.get_running_loop()
    assert isinstance(loop, QuietLoop)
    options = ServerOptions(runtime_config=("coordination.k8s.io/v1beta1=true",))
    async with (
        FakeApiServer(clock=clock, options=options) as server,
        RestClient(connection_to(server.url), user_agent="kubesched/test", clock=clock) as client,
        aiohttp.ClientSession() as session,
    ):
        api = ApiClient(session, server.url)
        running = asyncio.create_task(_be_candidate(client, clock))
        for step in case["steps"]:
            asked = rfc3339_micro(clock.now())
            if step == "ping":
                await api.patch(CANDIDATE, {"spec": {"pingTime": asked}})
            await clock.run_for(1.0, loop.quiet)
            spec = (await api.get(CANDIDATE)).body["spec"]
            assert spec["renewTime"] >= spec.get("pingTime", asked)
            spec = {name: spec[name] for name in ("leaseName", "binaryVersion", "emulationVersion")}
            assert list(spec.values()) == ["lease", "1.36.3", "1.36.0"]
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
