"""The decisions of a candidate: what goes beyond upstream's own cases (tests/upstream)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from scheduler.client import LeaseSpec
from scheduler.leader_election.acquire_or_renew import (
    Answer,
    Call,
    Candidacy,
    Instant,
    Outcome,
    Verb,
)

if TYPE_CHECKING:
    from scheduler.leader_election.acquire_or_renew import Steps

DONE, FAILED, MISSING = Outcome.DONE, Outcome.FAILED, Outcome.MISSING
START = Instant(1_767_225_600.25, 100.0)
AT_START = "2026-01-01T00:00:00.250000Z"
OTHERS = LeaseSpec(
    holder_identity="other",
    lease_duration_seconds=15,
    acquire_time=AT_START,
    renew_time=AT_START,
    lease_transitions=3,
)


def after(seconds: float) -> Instant:
    return Instant(START.epoch_seconds + seconds, START.monotonic_seconds + seconds)


def played(steps: Steps, now: Instant, *answers: LeaseSpec | Outcome) -> tuple[bool, list[Call]]:
    """How a try ends that meets these answers, and the calls that it makes."""
    *others, last = (Answer(now.monotonic_seconds, answer) for answer in answers)
    calls = [next(steps), *(steps.send(answer) for answer in others)]
    with pytest.raises(StopIteration) as end:
        steps.send(last)
    return bool(end.value.value), calls


def tried(
    candidacy: Candidacy, now: Instant, *answers: LeaseSpec | Outcome
) -> tuple[bool, list[Verb]]:
    leads, calls = played(candidacy.try_acquire_or_renew(now), now, *answers)
    return leads, [call.verb for call in calls]


def candidate() -> Candidacy:
    return Candidacy("me", lease_duration_seconds=15)


def leader() -> Candidacy:
    """One that has made the lease at the start."""
    candidacy = candidate()
    assert tried(candidacy, START, MISSING, DONE) == (True, [Verb.GET, Verb.CREATE])
    return candidacy


def test_the_first_record_is_upstreams() -> None:
    _, calls = played(candidate().try_acquire_or_renew(START), START, MISSING, DONE)
    assert calls[1].record == LeaseSpec(
        holder_identity="me",
        lease_duration_seconds=15,
        acquire_time=AT_START,
        renew_time=AT_START,
        lease_transitions=0,
    )


def test_a_renewal_keeps_since_when_it_leads() -> None:
    candidacy, now = leader(), after(2.5)
    leads, (call,) = played(candidacy.try_acquire_or_renew(now), now, DONE)
    assert (leads, call.verb) == (True, Verb.RENEW)
    assert call.record.acquire_time == AT_START
    assert call.record.renew_time == "2026-01-01T00:00:02.750000Z"
    assert candidacy.observed == call.record


def test_a_taken_lease_counts_one_transition_more_and_starts_anew() -> None:
    candidacy = candidate()
    assert tried(candidacy, START, OTHERS) == (False, [Verb.GET])
    leads, calls = played(candidacy.try_acquire_or_renew(after(15)), after(15), OTHERS, DONE)
    assert leads
    assert calls[1].record.lease_transitions == 4
    assert calls[1].record.acquire_time == "2026-01-01T00:00:15.250000Z"


@pytest.mark.parametrize(("seconds", "taken"), [(14.999, False), (15.0, True)])
def test_a_lease_ends_to_the_moment(seconds: float, *, taken: bool) -> None:
    candidacy = candidate()
    tried(candidacy, START, OTHERS)
    answers = (OTHERS, DONE) if taken else (OTHERS,)
    assert tried(candidacy, after(seconds), *answers)[0] == taken


def test_each_change_of_the_lease_makes_others_wait_anew() -> None:
    candidacy = candidate()
    tried(candidacy, START, OTHERS)
    renewed = LeaseSpec(
        holder_identity="other", lease_duration_seconds=15, renew_time="2026-01-01T00:00:10.5Z"
    )
    tried(candidacy, after(14), renewed)
    assert tried(candidacy, after(28), renewed) == (False, [Verb.GET])
    assert tried(candidacy, after(29), renewed, DONE)[0]


@pytest.mark.parametrize("year", ["2001", "2101"])
def test_row_41_what_the_record_says_about_time_is_for_people(year: str) -> None:
    candidacy = candidate()
    old = LeaseSpec(
        holder_identity="other",
        lease_duration_seconds=15,
        renew_time=f"{year}-01-01T00:00:00.000000Z",
    )
    assert tried(candidacy, START, old) == (False, [Verb.GET])
    assert tried(candidacy, after(14), old) == (False, [Verb.GET])
    assert tried(candidacy, after(15), old, DONE) == (True, [Verb.GET, Verb.UPDATE])


def test_how_long_it_lasts_is_what_its_holder_has_promised() -> None:
    candidacy = candidate()
    short = LeaseSpec(holder_identity="other", lease_duration_seconds=2)
    tried(candidacy, START, short)
    assert tried(candidacy, after(2), short, DONE)[0]


def test_a_leader_whose_write_got_lost_finds_that_it_leads() -> None:
    candidacy = candidate()
    assert tried(candidacy, START, MISSING, FAILED) == (False, [Verb.GET, Verb.CREATE])
    assert not candidacy.is_leader
    ours = LeaseSpec(holder_identity="me", lease_duration_seconds=15, lease_transitions=7)
    assert tried(candidacy, after(2), ours, DONE) == (True, [Verb.GET, Verb.UPDATE])
    assert candidacy.observed.lease_transitions == 7
    assert candidacy.slow_paths == 1


def test_a_leader_that_has_slept_through_its_lease_looks_first() -> None:
    candidacy = leader()
    assert tried(candidacy, after(15), OTHERS) == (False, [Verb.GET])
    assert (candidacy.is_leader, candidacy.leader) == (False, "other")


def test_a_lease_that_was_deleted_is_made_again() -> None:
    candidacy = leader()
    assert tried(candidacy, after(2), FAILED, MISSING, DONE) == (
        True,
        [Verb.RENEW, Verb.GET, Verb.CREATE],
    )
    assert candidacy.slow_paths == 0


def test_whoever_fails_to_look_does_not_lead_and_knows_no_more_than_before() -> None:
    candidacy = leader()
    assert tried(candidacy, after(2), FAILED, FAILED) == (False, [Verb.RENEW, Verb.GET])
    assert candidacy.is_leader
    assert candidacy.observed_at_seconds == START.monotonic_seconds


def test_a_released_lease_is_nobodys_for_a_second() -> None:
    candidacy, now = leader(), after(4)
    ours = candidacy.observed
    done, calls = played(candidacy.release(now), now, ours, DONE)
    assert done
    assert calls[1] == Call(
        Verb.UPDATE,
        LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time="2026-01-01T00:00:04.250000Z",
            renew_time="2026-01-01T00:00:04.250000Z",
            lease_transitions=0,
        ),
    )
    assert candidacy.leader == ""


def test_a_lease_that_was_taken_from_us_is_not_given_back_by_us() -> None:
    """Upstream's looks at the record it remembers alone, and would clear the other one's."""
    candidacy = leader()
    done, calls = played(candidacy.release(after(30)), after(30), OTHERS)
    assert (done, [call.verb for call in calls]) == (True, [Verb.GET])


def test_who_does_not_lead_is_never_too_late() -> None:
    candidacy = candidate()
    assert not candidacy.is_older_than(0, START)
    tried(candidacy, START, OTHERS)
    assert not candidacy.is_older_than(0, after(100))
    assert candidacy.observed_at_seconds != -math.inf
