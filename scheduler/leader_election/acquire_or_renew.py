"""Who leads: the decisions of one candidate for a lease, without the requests and the waiting.

One try to get the lease, or to keep it:

    START --- we lead, by a lease that is valid ---> RENEW ---- done ---> True
      |                                                | failed: a conflict, no answer
      |<-----------------------------------------------+
      v
     GET --- failed -----------------------------------------------------> False
      |   |
      |   +- missing ---> CREATE, transitions 0 ---- done ---------------> True
      |                     +----------------------- failed -------------> False
      v
    FOUND --- another one's, and valid ----------------------------------> False
      |
      +--- ours: acquireTime and transitions kept ----+
      +--- free or expired: transitions + 1 ----------+--> UPDATE - done -> True
                                                             +--- failed -> False

What this rests on:

- A lease is valid for as many seconds as its holder wrote, counted from when *we* last saw it
  change, on *our* clock. What the record says about time is for people: clocks that disagree do no
  harm, clocks that run at very different speeds would.
- Whoever has not seen the lease change for that long may take it. So a leader must stop before, at
  the renew deadline, and the elector sees to that.
- Of two who write at once the server lets one through, as each names the version it replaces.
- A record changes here only after the server has said that it did. A write whose answer got lost is
  found by the next GET: if it says that we hold the lease, we do.

Not here: coordinated leader election (the gate CoordinatedLeaderElection, off by default in v1.36),
in which the API server chooses among candidates.

Source: client-go `tools/leaderelection/leaderelection.go` (`tryAcquireOrRenew`, `release`).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Generator
from typing import Final, NamedTuple, TypeAlias

import msgspec

from scheduler.client.wire import LeaseSpec
from scheduler.clock import rfc3339_micro


class Instant(NamedTuple):
    """A moment: for people (epoch), and for durations (never going back). Both in seconds."""

    epoch_seconds: float
    monotonic_seconds: float


class Verb(enum.Enum):
    """What can be done with the lease."""

    GET = enum.auto()
    CREATE = enum.auto()
    UPDATE = enum.auto()
    #: An update without a look before it, on the chance that nobody else has written since.
    RENEW = enum.auto()


class Call(NamedTuple):
    """A request to be made; `record` is what to write."""

    verb: Verb
    record: LeaseSpec = LeaseSpec()


class Outcome(enum.Enum):
    """What came of a call that has not brought a record."""

    DONE = enum.auto()
    #: There is no lease. To a GET only.
    MISSING = enum.auto()
    #: Refused, or no answer: it may have been carried out all the same.
    FAILED = enum.auto()


class Answer(NamedTuple):
    """What came of a call, and when (monotonic seconds): a record to a GET, if there is a lease."""

    at_seconds: float
    result: LeaseSpec | Outcome


#: A sequence of calls: each is yielded, its answer sent in; whether it came to a good end.
Steps: TypeAlias = Generator[Call, Answer, bool]


class Candidacy:
    """What one candidate knows of the lease. `lease_duration_seconds` is what it will promise."""

    def __init__(self, identity: str, *, lease_duration_seconds: int) -> None:
        self.identity: Final = identity
        self._lease_duration_seconds: Final = lease_duration_seconds
        #: The lease as far as we know; upstream's `observedRecord`.
        self.observed = LeaseSpec()
        #: When we have last seen it change, by ourselves or others; in monotonic seconds.
        self.observed_at_seconds = -math.inf
        #: The lease as it was last read. Our own writes do not count, as in `observedRawRecord`.
        self.last_read: LeaseSpec | None = None
        #: How often we have renewed the long way, by a GET and an UPDATE.
        self.slow_paths = 0

    @property
    def leader(self) -> str:
        """Who holds the lease, as far as we know; empty if nobody does."""
        return self.observed.holder_identity or ""

    @property
    def is_leader(self) -> bool:
        """Whether that is us. It may have ended meanwhile, if we have not renewed it."""
        return self.leader == self.identity

    def try_acquire_or_renew(self, now: Instant) -> Steps:
        """One try at `now`, as drawn above; whether we lead."""
        if self.is_leader and self._is_lease_valid(now):
            record = self._record(now, continuing=self.observed)
            if self._is_written(record, (yield Call(Verb.RENEW, record))):
                return True
        at_seconds, found = yield Call(Verb.GET)
        if found is Outcome.MISSING:
            record = self._record(now, transitions=0)
            return self._is_written(record, (yield Call(Verb.CREATE, record)))
        if isinstance(found, Outcome):
            return False
        if found != self.last_read:
            self._observe(found, at_seconds)
            self.last_read = found
        if found.holder_identity and not self.is_leader and self._is_lease_valid(now):
            return False
        if self.is_leader:
            self.slow_paths += 1
            record = self._record(now, continuing=found)
        else:
            record = self._record(now, transitions=(found.lease_transitions or 0) + 1)
        return self._is_written(record, (yield Call(Verb.UPDATE, record)))

    def release(self, now: Instant) -> Steps:
        """Give the lease back, so that nobody has to wait for it; whether it is not ours any more.

        Unlike upstream's, this looks who holds it: a lease that was taken from us stays taken.
        """
        _, found = yield Call(Verb.GET)
        if isinstance(found, Outcome):
            return False
        if not self.is_leader or found.holder_identity != self.identity:
            return True
        moment = rfc3339_micro(now.epoch_seconds)
        record = LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=moment,
            renew_time=moment,
            lease_transitions=found.lease_transitions or 0,
        )
        return self._is_written(record, (yield Call(Verb.UPDATE, record)))

    def is_older_than(self, seconds: float, now: Instant) -> bool:
        """Whether we hold a lease that has not been renewed for longer than that."""
        return self.is_leader and now.monotonic_seconds - self.observed_at_seconds > seconds

    def _record(
        self, now: Instant, *, continuing: LeaseSpec | None = None, transitions: int = 0
    ) -> LeaseSpec:
        moment = rfc3339_micro(now.epoch_seconds)
        record = LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=self._lease_duration_seconds,
            acquire_time=moment,
            renew_time=moment,
            lease_transitions=transitions,
        )
        if continuing is None:
            return record
        return msgspec.structs.replace(
            record,
            acquire_time=continuing.acquire_time,
            lease_transitions=continuing.lease_transitions or 0,
        )

    def _is_written(self, record: LeaseSpec, answer: Answer) -> bool:
        if answer.result is not Outcome.DONE:
            return False
        self._observe(record, answer.at_seconds)
        return True

    def _observe(self, record: LeaseSpec, at_seconds: float) -> None:
        self.observed, self.observed_at_seconds = record, at_seconds

    def _is_lease_valid(self, now: Instant) -> bool:
        """Whether its time is not over; an age that is exactly the duration is too old."""
        duration_seconds = self.observed.lease_duration_seconds or 0
        return self.observed_at_seconds + duration_seconds > now.monotonic_seconds
