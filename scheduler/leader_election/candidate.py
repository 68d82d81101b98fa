"""One candidate for a lease: a single try to acquire or renew it, and its release.

A try:

    START --- we lead, by a valid lease -------------> RENEW --- done ------> True
      |                                                  | failed: a conflict, no answer
      |<-------------------------------------------------+
      v
     GET --- failed --------------------------------------------------------> False
      |   |
      |   +- missing ---> CREATE, transitions 0 ---- done ------------------> True
      |                     +----------------------- failed ----------------> False
      v
    FOUND --- held by another candidate, and valid -------------------------> False
      |
      +--- ours: acquireTime and transitions kept ----+
      +--- free or expired: transitions + 1 ----------+--> UPDATE --- done -> True
                                                             +------- failed -> False

RENEW is an UPDATE without a GET before it.

- A lease is valid for as many seconds as its holder has written. They are counted on *our* clock
  from the moment when *we* last saw the lease change. The times in the record are for people:
  clocks that disagree do no harm, clocks that run at very different speeds would.
- A candidate that has not seen the lease change for that long may take it. Therefore a leader must
  stop earlier, at the renew deadline, which the elector enforces.
- Of two writes at the same time the server accepts one, because each names the resource version
  that it replaces.
- The record here changes only after the server has confirmed the write. If the answer to a write is
  lost, the next GET finds out: if the lease names us as the holder, we lead.

With coordinated leader election (the gate CoordinatedLeaderElection, off by default in v1.36) the
API server writes the holder into the lease. A try is then a GET, and an UPDATE if the lease is
ours, valid, and not wanted for another candidate (`preferredHolder`).

Source: client-go `tools/leaderelection/leaderelection.go` (`tryAcquireOrRenew`,
`tryCoordinatedRenew`, `release`, since 1.37 `tryRelease`).
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.client import ClientError, Conflict, LeaseSpec, NotFound
from scheduler.clock import rfc3339_micro
from scheduler.klog import V2, V4

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from scheduler.clock import Clock
    from scheduler.leader_election.lease_lock import LeaseLock

_log: Final = logging.getLogger(__name__)

#: The period of log lines about the same failure.
_REPORT_SECONDS: Final = 60.0


class Candidate:
    """The state of one candidate, and the requests of one try."""

    def __init__(
        self, lock: LeaseLock, *, identity: str, lease_duration_seconds: int, clock: Clock
    ) -> None:
        self._lock: Final = lock
        self._identity: Final = identity
        self._lease_duration_seconds: Final = lease_duration_seconds
        self._clock: Final = clock
        #: The last known record; upstream's `observedRecord`.
        self.observed = LeaseSpec()
        #: When it last changed, by our own writes or others', in monotonic seconds.
        self.observed_at_seconds = -math.inf
        #: The record of the last GET; upstream's `observedRawRecord`.
        self.observed_raw: LeaseSpec | None = None
        #: The last failure in the log, and when it was written, in monotonic seconds.
        self._reported: tuple[str, type[ClientError]] | None = None
        self._reported_at_seconds = -math.inf
        #: How many renewals took a GET and an UPDATE.
        self.slow_paths = 0

    @property
    def leader(self) -> str:
        """The holder of the last known record; empty if there is none."""
        return self.observed.holder_identity or ""

    @property
    def is_leader(self) -> bool:
        """True if we are the leader. The lease may have expired since, if it was not renewed."""
        return self.leader == self._identity

    async def try_acquire_or_renew(self) -> bool:
        """Try once, as drawn above; return True if we lead."""
        now, started = self._clock.now(), self._clock.monotonic()
        if self.is_leader and self._is_lease_valid(started):
            record = self._record(now, continued=self.observed)
            if await self._is_written(
                record,
                self._lock.update(record),
                "Failed to update lease optimistically, falling back to slow path",
                level=V2,
            ):
                return True
        try:
            stored = await self._get()
        except NotFound:
            record = self._record(now, transitions=0)
            return await self._is_written(
                record,
                self._lock.create(record),
                "Error initially creating lease lock",
            )
        if stored is None:
            return False
        self._look_at(stored)
        if stored.holder_identity and not self.is_leader and self._is_lease_valid(started):
            return False
        if self.is_leader:
            self.slow_paths += 1
            record = self._record(now, continued=stored)
        else:
            record = self._record(now, transitions=(stored.lease_transitions or 0) + 1)
        return await self._update(record)

    async def try_coordinated_renew(self) -> bool:
        """Renew the lease once, if the API server has chosen us; return True if we lead."""
        now, started = self._clock.now(), self._clock.monotonic()
        try:
            stored = await self._get()
        except NotFound as error:
            self._report(logging.INFO, "Lease lock not found", error)
            return False
        if stored is None:
            return False
        self._look_at(stored)
        is_over = bool(stored.preferred_holder) or not self._is_lease_valid(started)
        if is_over or not self.is_leader:
            return False
        self.slow_paths += 1
        record = self._record(now, continued=stored)
        return await self._update(msgspec.structs.replace(record, strategy=stored.strategy))

    async def release(self) -> bool:
        """Give the lease back, so that no candidate has to wait; return True if we do not lead.

        Unlike upstream, this reads the holder first: a lease that another candidate took stays.
        Raises ClientError if the lease cannot be written.
        """
        now = self._clock.now()
        try:
            record = await self._get()
        except NotFound:
            return False
        if record is None:
            return False
        if not self.is_leader or record.holder_identity != self._identity:
            return True
        moment = rfc3339_micro(now)
        released = LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=moment,
            renew_time=moment,
            lease_transitions=record.lease_transitions or 0,
        )
        await self._lock.update(released)
        self._observe(released)
        return True

    async def release_despite_conflicts(self) -> bool:
        """Give the lease back as `release`, and again if a renewal under way came between."""
        while True:
            try:
                return await self.release()
            except Conflict:
                lock = str(self._lock)
                _log.log(V4, "Conflict when releasing lease, retrying", {"lock": lock})

    def is_older_than(self, seconds: float) -> bool:
        """Return True if we hold a lease that was last renewed more than `seconds` ago."""
        return self.is_leader and self._clock.monotonic() - self.observed_at_seconds > seconds

    def _record(
        self, now: float, *, continued: LeaseSpec | None = None, transitions: int = 0
    ) -> LeaseSpec:
        moment = rfc3339_micro(now)
        record = LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=self._lease_duration_seconds,
            acquire_time=moment,
            renew_time=moment,
            lease_transitions=transitions,
        )
        if continued is None:
            return record
        return msgspec.structs.replace(
            record,
            acquire_time=continued.acquire_time,
            lease_transitions=continued.lease_transitions or 0,
        )

    async def _get(self) -> LeaseSpec | None:
        """Return the record, None after an error. Raises NotFound."""
        try:
            return await self._lock.get()
        except NotFound:
            raise
        except ClientError as error:
            self._report(logging.ERROR, "Error retrieving lease lock", error)
            return None

    async def _update(self, record: LeaseSpec) -> bool:
        update = self._lock.update(record)
        return await self._is_written(record, update, "Failed to update lease")

    async def _is_written(
        self,
        record: LeaseSpec,
        write: Awaitable[None],
        failure: str,
        *,
        level: int = logging.ERROR,
    ) -> bool:
        try:
            await write
        except ClientError as error:
            self._report(level, failure, error)
            return False
        self._observe(record)
        return True

    def _report(self, level: int, failure: str, error: ClientError) -> None:
        """Log a failure, but the same one at most once a minute."""
        now, kind = self._clock.monotonic(), (failure, type(error))
        if kind != self._reported or now - self._reported_at_seconds >= _REPORT_SECONDS:
            self._reported, self._reported_at_seconds = kind, now
            _log.log(level, failure, {"lock": str(self._lock), "err": error})

    def _look_at(self, stored: LeaseSpec) -> None:
        """Take note of the record of a GET; the same one again is no change."""
        if stored != self.observed_raw:
            self._observe(stored)
            self.observed_raw = stored

    def _observe(self, record: LeaseSpec) -> None:
        self.observed, self.observed_at_seconds = record, self._clock.monotonic()

    def _is_lease_valid(self, monotonic_seconds: float) -> bool:
        """Return True before the lease expires; it has expired at exactly its duration."""
        duration_seconds = self.observed.lease_duration_seconds or 0
        return self.observed_at_seconds + duration_seconds > monotonic_seconds
