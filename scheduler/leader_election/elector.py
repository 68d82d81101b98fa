"""Leading: of several schedulers one holds a lease and works, the others wait for it.

    waiting --- a try comes to a good end ---> leading --- LeaderElectionLost
       ^  |                                    |     ^
       +--+ every 2 to 4.4 s                   +-----+ every 2 s, for as long as none of the
                                                       tries of 10 s in a row has failed

`acquire_or_renew` decides which request follows which answer; this module makes the requests, in
time, on the clock that is given. Times are those of the configuration (`leaderElection`), above its
defaults: `retryPeriod` 2 s, `renewDeadline` 10 s.

Source: client-go `tools/leaderelection/leaderelection.go` (`acquire`, `renew`), kube-scheduler
`app/options/options.go` (`makeLeaderElectionConfig`), `app/server.go` (`Run`).
"""

from __future__ import annotations

import logging
import math
import random
import socket
import uuid
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, Self

from scheduler.client import ClientError, NotFound, RestClient
from scheduler.clock import wait_for
from scheduler.config import ConfigError
from scheduler.config.duration import SECOND
from scheduler.leader_election.acquire_or_renew import Answer, Candidacy, Instant, Outcome, Verb
from scheduler.leader_election.core_events import CoreEventRecorder
from scheduler.leader_election.lease_lock import LeaseLock

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from scheduler.client import Connection, LeaseSpec
    from scheduler.clock import Clock
    from scheduler.config import KubeSchedulerConfiguration, LeaderElectionConfiguration
    from scheduler.leader_election.acquire_or_renew import Call, Steps
    from scheduler.metrics import SchedulerMetrics

_log: Final = logging.getLogger(__name__)

#: A pause between two tries to get the lease is longer by up to so many times itself.
_JITTER_FACTOR: Final = 1.2
#: What metrics and health checks call the election, whatever the lease is called.
_NAME: Final = "kube-scheduler"
#: A lease we hold may be expired for so long before that is a reason to have us restarted.
_TOLERATED_SECONDS: Final = 20.0
_REQUEST_SECONDS_MIN: Final = 1.0
_USER_AGENT: Final = "kubesched/leader-election"

#: What is logged of a call that came to nothing, and how loud.
_FAILURES: Final = {
    Verb.RENEW: (
        logging.INFO,
        "Failed to update lease optimistically, falling back to slow path: %s: %s",
    ),
    Verb.GET: (logging.ERROR, "Error retrieving lease lock %s: %s"),
    Verb.CREATE: (logging.ERROR, "Error initially creating lease lock %s: %s"),
    Verb.UPDATE: (logging.ERROR, "Failed to update lease %s: %s"),
}


class LeaderElectionLost(Exception):
    """The lease could not be renewed in time: another one may lead by now, so nothing may go on."""


class Lock(Protocol):
    """What an election is about; `str()` names it. See `scheduler.leader_election.lease_lock`."""

    async def get(self) -> LeaseSpec:
        """Read the record. Raises NotFound, ClientError."""
        ...

    async def create(self, record: LeaseSpec) -> None:
        """Write the first record. Raises ClientError."""
        ...

    async def update(self, record: LeaseSpec) -> None:
        """Replace the record as last known. Raises ClientError."""
        ...


def new_identity() -> str:
    """What one process calls itself among all candidates: the host, and something unique."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """Makes one candidate's requests: `acquire`, then `renew`, in the end `release`.

    `report` is told what to write as an event about the lease. Raises ConfigError for times that
    cannot work together.
    """

    def __init__(
        self,
        lock: Lock,
        config: LeaderElectionConfiguration,
        *,
        identity: str,
        clock: Clock,
        rng: random.Random,
        metrics: SchedulerMetrics,
        report: Callable[[str], None],
    ) -> None:
        _check(config, identity)
        self._lock: Final = lock
        self._candidacy: Final = Candidacy(
            identity, lease_duration_seconds=config.lease_duration.nanoseconds // SECOND
        )
        self._expired_seconds: Final = config.lease_duration.seconds + _TOLERATED_SECONDS
        self._retry_seconds: Final = config.retry_period.seconds
        self._deadline_seconds: Final = config.renew_deadline.seconds
        self._clock: Final = clock
        self._rng: Final = rng
        self._metrics: Final = metrics
        self._report: Final = report
        self._reported_leader = ""
        self._has_led = False
        self._is_trying = False
        metrics.leader_election_master_status[(_NAME,)] = 0

    @property
    def is_leader(self) -> bool:
        """Whether we have the lease, as far as we know."""
        return self._candidacy.is_leader

    @property
    def is_idle(self) -> bool:
        """Whether no try is under way: nothing happens before it is time for the next one."""
        return not self._is_trying

    def problem(self) -> str:
        """What is wrong with a leader that neither renews nor ends; empty if all is well.

        Source: client-go `healthzadaptor.go`.
        """
        if self._candidacy.is_older_than(self._expired_seconds, self._now()):
            return f"failed election to renew leadership on lease {_NAME}"
        return ""

    async def acquire(self) -> None:
        """Return once we lead."""
        _log.info("Attempting to acquire leader lease... %s", self._lock)
        while not await self._try_acquire_or_renew():
            self._announce_leader()
            jitter = self._rng.random() * _JITTER_FACTOR
            await self._clock.sleep(self._retry_seconds * (1 + jitter))
        self._announce_leader()
        self._has_led = True
        self._report("became leader")
        self._metrics.leader_election_master_status[(_NAME,)] = 1
        _log.info("Successfully acquired lease %s", self._lock)

    async def renew(self) -> NoReturn:
        """Keep the lease for as long as that can be done; then raise LeaderElectionLost."""
        while True:
            try:
                await wait_for(self._renew_once(), self._deadline_seconds, self._clock)
            except TimeoutError:
                _log.info("Failed to renew lease %s: no success in time", self._lock)
                raise LeaderElectionLost(f"lost lease {self._lock}") from None
            finally:
                self._announce_leader()
            _log.debug("Successfully renewed lease %s", self._lock)
            await self._clock.sleep(self._retry_seconds)

    async def release(self) -> None:
        """Give the lease back, if we have led. Nothing may go on that the lease guards."""
        if not self._has_led:
            return
        self._has_led = False
        self._metrics.leader_election_master_status[(_NAME,)] = 0
        try:
            steps = self._candidacy.release(self._now())
            await wait_for(self._carry_out(steps), self._deadline_seconds, self._clock)
        except TimeoutError:
            _log.error("Failed to release lease %s: no answer in time", self._lock)
        self._report("stopped leading")

    async def _renew_once(self) -> None:
        """Try until it works, at the ticks of a clock that starts now."""
        started = self._clock.monotonic()
        tick = 0
        while not await self._try_acquire_or_renew():
            tick += 1
            await self._clock.sleep(started + tick * self._retry_seconds - self._clock.monotonic())
            passed_seconds = self._clock.monotonic() - started
            if passed_seconds >= self._deadline_seconds:
                raise TimeoutError
            # One tick waits for a try that has taken long; those after it are left out.
            tick = max(tick, math.floor(passed_seconds / self._retry_seconds))

    async def _try_acquire_or_renew(self) -> bool:
        leads = await self._carry_out(self._candidacy.try_acquire_or_renew(self._now()))
        if self._candidacy.slow_paths:
            self._metrics.leader_election_slowpath[(_NAME,)] = self._candidacy.slow_paths
        return leads

    async def _carry_out(self, steps: Steps) -> bool:
        self._is_trying = True
        try:
            call = next(steps)
            while True:
                call = steps.send(await self._answer(call))
        except StopIteration as end:
            return bool(end.value)
        finally:
            self._is_trying = False

    async def _answer(self, call: Call) -> Answer:
        result: LeaseSpec | Outcome = Outcome.DONE
        try:
            if call.verb is Verb.GET:
                result = await self._lock.get()
            elif call.verb is Verb.CREATE:
                await self._lock.create(call.record)
            else:
                await self._lock.update(call.record)
        except ClientError as error:
            if call.verb is Verb.GET and isinstance(error, NotFound):
                result = Outcome.MISSING
            else:
                result = Outcome.FAILED
                level, text = _FAILURES[call.verb]
                _log.log(level, text, self._lock, error)
        return Answer(self._clock.monotonic(), result)

    def _announce_leader(self) -> None:
        leader = self._candidacy.leader
        if leader == self._reported_leader:
            return
        self._reported_leader = leader
        if leader and not self.is_leader:
            # Loud, for somebody who runs a second scheduler with the first one's lease is not told
            # by anything else that it will do nothing.
            _log.warning("Waiting for lease %s, held by %s", self._lock, leader)

    def _now(self) -> Instant:
        return Instant(self._clock.now(), self._clock.monotonic())


class LeaderElection:
    """A scheduler's election: the lease, a client of its own, and events about it.

    An async context manager: when it is left the lease is given back. In between, `start` what
    goes on in the background, then `acquire` and `renew`. Raises ConfigError like `LeaderElector`.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        connection: Connection,
        *,
        identity: str,
        clock: Clock,
        seed: int | None,
        metrics: SchedulerMetrics,
    ) -> None:
        election, limits = config.leader_election, config.client_connection
        # Of its own, so that who leads when has no influence on which node a pod gets.
        rng = random.Random(seed)
        self._client: Final = RestClient(
            connection,
            clock=clock,
            user_agent=_USER_AGENT,
            qps=limits.qps,
            burst=limits.burst,
            timeout_seconds=max(election.renew_deadline.seconds / 2, _REQUEST_SECONDS_MIN),
        )
        self._lock: Final = LeaseLock(
            self._client, namespace=election.resource_namespace, name=election.resource_name
        )
        component = config.profiles[0].scheduler_name
        self._events: Final = CoreEventRecorder(self._client, component, clock=clock, rng=rng)
        self._identity: Final = identity
        self._elector: Final = LeaderElector(
            self._lock,
            election,
            identity=identity,
            clock=clock,
            rng=rng,
            metrics=metrics,
            report=self._report,
        )
        self.acquire: Final = self._elector.acquire
        self.renew: Final = self._elector.renew
        self.problem: Final = self._elector.problem

    @classmethod
    def of(
        cls,
        config: KubeSchedulerConfiguration,
        connection: Connection,
        *,
        identity: str = "",
        clock: Clock,
        seed: int | None,
        metrics: SchedulerMetrics,
    ) -> LeaderElection | None:
        """The election that a configuration wants, if it wants one; without a name, a new one."""
        if not config.leader_election.leader_elect:
            return None
        return cls(
            config,
            connection,
            identity=identity or new_identity(),
            clock=clock,
            seed=seed,
            metrics=metrics,
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        try:
            await self._elector.release()
            await self._events.flush()
        finally:
            await self._client.__aexit__(*exception)

    def start(self, group: asyncio.TaskGroup) -> None:
        """Write events in the background."""
        group.create_task(self._events.run(), name="lease events")

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return self._elector.is_idle and self._events.is_idle

    def _report(self, words: str) -> None:
        self._events.event(
            self._lock.reference,
            type="Normal",
            reason="LeaderElection",
            message=f"{self._identity} {words}",
        )


def _check(config: LeaderElectionConfiguration, identity: str) -> None:
    """Raise ConfigError for what upstream's elector refuses, in its words."""
    lease, deadline, retry = config.lease_duration, config.renew_deadline, config.retry_period
    for wrong, words in (
        (lease <= deadline, "leaseDuration must be greater than renewDeadline"),
        (
            deadline.nanoseconds <= _JITTER_FACTOR * retry.nanoseconds,
            "renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
        (retry.nanoseconds < 1, "retryPeriod must be greater than zero"),
        (not identity, "Lock identity is empty"),
    ):
        if wrong:
            raise ConfigError(f"couldn't create leader elector: {words}")
