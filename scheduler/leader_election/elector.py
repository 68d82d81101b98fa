"""Leader election: one of several schedulers holds a lease and works, the others wait for it.

    waiting --- a try succeeds -------> leading --- LeaderElectionLost
       ^  |                             |     ^
       +--+ every 2 to 4.4 s            +-----+ every 2 s, unless all tries of 10 s have failed

A leader leads until 12 s after the start of its last successful try (`retryPeriod` and
`renewDeadline`, less than `leaseDuration`), on the monotonic clock. `leads` is read before every
write, so a process that was stopped for longer, and wakes beside its successor, writes nothing.
Upstream's elector does not count the time of the stop, and writes for up to 10 s more.

`candidate` makes the requests of one try; this module decides when to try. The times are those of
the configuration (`leaderElection`), above its defaults: `retryPeriod` 2 s, `renewDeadline` 10 s.

Source: client-go `tools/leaderelection/leaderelection.go` (`acquire`, `renew`), kube-scheduler
`app/options/options.go` (`makeLeaderElectionConfig`), `app/server.go` (`Run`).
"""

from __future__ import annotations

import logging
import math
import random
import socket
import uuid
from typing import TYPE_CHECKING, Final, NoReturn, Self

from scheduler.api.duration import SECOND
from scheduler.client import ClientError, RestClient
from scheduler.clock import wait_for
from scheduler.config import ConfigError
from scheduler.klog import V5
from scheduler.leader_election.candidate import Candidate
from scheduler.leader_election.core_events import CoreEventRecorder
from scheduler.leader_election.lease_candidate import LeaseCandidacy
from scheduler.leader_election.lease_lock import LeaseLock

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from scheduler.client import Connection
    from scheduler.clock import Clock
    from scheduler.config import (
        EffectiveVersion,
        KubeSchedulerConfiguration,
        LeaderElectionConfiguration,
    )
    from scheduler.metrics import SchedulerMetrics

_log: Final = logging.getLogger(__name__)

#: The delay between two tries to acquire is `retryPeriod` plus up to so many times it.
_JITTER_FACTOR: Final = 1.2
#: The name of the election in metrics and health checks, whatever the lease's name.
_NAME: Final = "kube-scheduler"
#: How long our lease may be expired before the health check fails.
_TOLERATED_SECONDS: Final = 20.0
_REQUEST_SECONDS_MIN: Final = 1.0
#: The delay after a 429. The second that servers ask for leaves five tries in a renewal, at moments
#: at which all other writers come again too.
_REFUSED_RETRY_SECONDS: Final = 0.1


class LeaderElectionLost(Exception):
    """The lease was not renewed in time: another process may lead now, so this one must stop."""


def new_identity() -> str:
    """Return a name for this process that no other candidate has: host and UUID."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """Times the tries of one candidate: `acquire`, then `renew`, in the end `release`.

    `report` receives the text for an event about the lease. Raises ConfigError for times that
    contradict each other.
    """

    def __init__(
        self,
        lock: LeaseLock,
        config: LeaderElectionConfiguration,
        *,
        identity: str,
        clock: Clock,
        rng: random.Random,
        metrics: SchedulerMetrics,
        report: Callable[[str], None],
        is_coordinated: bool = False,
        releases_despite_conflicts: bool = False,
    ) -> None:
        _check(config, identity)
        self._lock: Final = lock
        self._candidate: Final = Candidate(
            lock,
            identity=identity,
            lease_duration_seconds=config.lease_duration.nanoseconds // SECOND,
            clock=clock,
        )
        attempt = self._candidate.try_acquire_or_renew
        self._attempt: Final = self._candidate.try_coordinated_renew if is_coordinated else attempt
        release, again = self._candidate.release, self._candidate.release_despite_conflicts
        self._release: Final = again if releases_despite_conflicts else release
        self._expired_seconds: Final = config.lease_duration.seconds + _TOLERATED_SECONDS
        self._retry_seconds: Final = config.retry_period.seconds
        self._deadline_seconds: Final = config.renew_deadline.seconds
        # The others count the whole seconds that the lease names, from a later moment.
        self._term_seconds: Final = min(
            self._retry_seconds + self._deadline_seconds,
            float(config.lease_duration.nanoseconds // SECOND),
        )
        self._leads_until_seconds = -math.inf
        self._clock: Final = clock
        self._rng: Final = rng
        self._metrics: Final = metrics
        self._report: Final = report
        self._reported_leader = ""
        self._has_led = False
        self._is_trying = False
        metrics.leader_election_master_status[(_NAME,)] = 0

    @property
    def is_idle(self) -> bool:
        """True if no try is under way."""
        return not self._is_trying

    @property
    def leads(self) -> bool:
        """True if we lead, and no other process can have taken the lease since."""
        return self._clock.monotonic() < self._leads_until_seconds

    def problem(self) -> str:
        """Return why the leader is unhealthy (it neither renews nor ends), or an empty text.

        Source: client-go `healthzadaptor.go`.
        """
        if self._candidate.is_older_than(self._expired_seconds):
            return f"failed election to renew leadership on lease {_NAME}"
        return ""

    async def acquire(self) -> None:
        """Return once we lead."""
        _log.info("Attempting to acquire leader lease...", {"lock": str(self._lock)})
        while not await self._try_acquire_or_renew():
            self._announce_leader()
            jitter = self._rng.random() * _JITTER_FACTOR
            await self._clock.sleep(self._retry_seconds * (1 + jitter))
        self._announce_leader()
        self._has_led = True
        self._report("became leader")
        self._metrics.leader_election_master_status[(_NAME,)] = 1
        _log.info("Successfully acquired lease", {"lock": str(self._lock)})

    async def renew(self) -> NoReturn:
        """Renew the lease until that fails for too long; then raise LeaderElectionLost."""
        while True:
            try:
                if not self.leads:
                    raise TimeoutError
                left_seconds = self._leads_until_seconds - self._clock.monotonic()
                deadline_seconds = min(self._deadline_seconds, left_seconds)
                await wait_for(self._renew_once(), deadline_seconds, self._clock)
            except TimeoutError:
                _log.info(
                    "Failed to renew lease",
                    {"lock": str(self._lock), "err": "context deadline exceeded"},
                )
                raise LeaderElectionLost(f"lost lease {self._lock}") from None
            finally:
                self._announce_leader()
            _log.log(V5, "Successfully renewed lease", {"lock": str(self._lock)})
            await self._clock.sleep(self._retry_seconds)

    async def release(self) -> None:
        """Give the lease back, if we have led. What the lease guards must have ended."""
        if not self._has_led:
            return
        self._has_led = False
        self._metrics.leader_election_master_status[(_NAME,)] = 0
        try:
            release = self._try(self._release())
            await wait_for(release, self._deadline_seconds, self._clock)
        except (ClientError, TimeoutError) as error:
            problem = error if str(error) else "context deadline exceeded"
            _log.error("Failed to release lease", {"lock": str(self._lock), "err": problem})
        self._report("stopped leading")

    async def _renew_once(self) -> None:
        """Try until it succeeds, at the ticks of a clock that starts now."""
        started = self._clock.monotonic()
        tick = 0
        while not await self._try_acquire_or_renew():
            tick += 1
            await self._clock.sleep(started + tick * self._retry_seconds - self._clock.monotonic())
            passed_seconds = self._clock.monotonic() - started
            if passed_seconds >= self._deadline_seconds:
                raise TimeoutError
            # A slow try delays one tick; the other ticks that it has missed are skipped.
            tick = max(tick, math.floor(passed_seconds / self._retry_seconds))

    async def _try_acquire_or_renew(self) -> bool:
        started_seconds = self._clock.monotonic()
        leads = await self._try(self._attempt())
        if leads:
            self._leads_until_seconds = started_seconds + self._term_seconds
        if self._candidate.slow_paths:
            self._metrics.leader_election_slowpath[(_NAME,)] = self._candidate.slow_paths
        # A success that took longer than our term proves nothing.
        return leads and self.leads

    async def _try(self, requests: Coroutine[None, None, bool]) -> bool:
        self._is_trying = True
        try:
            return await requests
        finally:
            self._is_trying = False

    def _announce_leader(self) -> None:
        leader = self._candidate.leader
        if leader == self._reported_leader:
            return
        self._reported_leader = leader
        if leader and not self._candidate.is_leader:
            # A warning, because a second scheduler with the same lease does nothing without it.
            _log.info("Waiting for lease", {"lock": str(self._lock), "holder": leader})


class LeaderElection:
    """The leader election of a scheduler: lease, events about it, and a client for both.

    An async context manager, which releases the lease at its end. Within it call `start`, `acquire`
    and `renew`. With `coordinated_as`, the versions of this candidate, the API server chooses the
    leader. With `releases_despite_conflicts` a release that meets a conflict is tried again, as in
    1.37. Raises ConfigError as `LeaderElector` does.
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
        user_agent: str,
        coordinated_as: EffectiveVersion | None = None,
        releases_despite_conflicts: bool = False,
    ) -> None:
        election, limits = config.leader_election, config.client_connection
        # A generator of its own, so that the election has no influence on decisions.
        rng = random.Random(seed)
        self._client: Final = RestClient(
            connection,
            clock=clock,
            user_agent=user_agent,
            qps=limits.qps,
            burst=limits.burst,
            timeout_seconds=max(election.renew_deadline.seconds / 2, _REQUEST_SECONDS_MIN),
            metrics=metrics,
            retry_seconds=_REFUSED_RETRY_SECONDS,
        )
        #: Waits while the lease is not written because the server is too busy.
        self.retries_end: Final = self._client.retries_end
        self._lock: Final = LeaseLock(
            self._client, namespace=election.resource_namespace, name=election.resource_name
        )
        component = config.profiles[0].scheduler_name
        self._events: Final = CoreEventRecorder(self._client, component, clock=clock, rng=rng)
        self._identity: Final = identity
        self._candidacy: LeaseCandidacy | None = None
        if coordinated_as is not None:
            self._candidacy = LeaseCandidacy(
                self._client,
                namespace=election.resource_namespace,
                lease_name=election.resource_name,
                identity=identity,
                version=coordinated_as,
                clock=clock,
                rng=rng,
            )
        self._elector: Final = LeaderElector(
            self._lock,
            election,
            identity=identity,
            clock=clock,
            rng=rng,
            metrics=metrics,
            report=self._report,
            is_coordinated=coordinated_as is not None,
            releases_despite_conflicts=releases_despite_conflicts,
        )
        self.acquire: Final = self._elector.acquire
        self.renew: Final = self._elector.renew
        self.problem: Final = self._elector.problem

    @property
    def leads(self) -> bool:
        """True if we lead, and no other process can have taken the lease since."""
        return self._elector.leads

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
        """Start to write events, and to be a candidate if the API server chooses the leader."""
        group.create_task(self._events.run(), name="lease events")
        if self._candidacy is not None:
            self._candidacy.start(group)

    @property
    def is_idle(self) -> bool:
        """True if neither a try nor an event is under way, nor a write of the candidate."""
        candidate_is_idle = self._candidacy is None or self._candidacy.is_idle
        return self._elector.is_idle and self._events.is_idle and candidate_is_idle

    def _report(self, words: str) -> None:
        self._events.event(
            self._lock.reference,
            type="Normal",
            reason="LeaderElection",
            message=f"{self._identity} {words}",
        )


def _check(config: LeaderElectionConfiguration, identity: str) -> None:
    """Raise ConfigError, with upstream's text, for what upstream's elector refuses."""
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
