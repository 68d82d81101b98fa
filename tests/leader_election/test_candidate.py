"""One candidate for a lease: the cases beyond upstream's own (tests/upstream)."""

import math
from collections.abc import Coroutine
from typing import NamedTuple, cast

import pytest
from msgspec.structs import replace

from scheduler.client import Conflict, ConnectionFailed, LeaseSpec, NotFound
from scheduler.clock import Clock
from scheduler.leader_election.candidate import Candidate
from scheduler.leader_election.lease_lock import LeaseLock

START = 1_767_225_600.25
AT_START = "2026-01-01T00:00:00.250000Z"
OTHERS = LeaseSpec(
    holder_identity="other",
    lease_duration_seconds=15,
    acquire_time=AT_START,
    renew_time=AT_START,
    lease_transitions=3,
)
DONE = "done"
FAILED = ConnectionFailed("no answer")
CHANGED = Conflict(409, "Conflict", "it has changed")
MISSING = NotFound(404, "NotFound", "no lease")

Answer = LeaseSpec | Exception | str


class Call(NamedTuple):
    verb: str
    record: LeaseSpec = LeaseSpec()


class StoppedClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.passed_seconds = 0.0

    def now(self) -> float:
        return START + self.passed_seconds

    def monotonic(self) -> float:
        return 100.0 + self.passed_seconds


class ScriptedLock:
    """Gives the answers of a script, and notes the calls."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.calls: list[Call] = []

    async def get(self) -> LeaseSpec:
        answer = self._answer(Call("GET"))
        assert isinstance(answer, LeaseSpec)
        return answer

    async def create(self, record: LeaseSpec) -> None:
        self._answer(Call("CREATE", record))

    async def update(self, record: LeaseSpec) -> None:
        self._answer(Call("UPDATE", record))

    def _answer(self, call: Call) -> Answer:
        self.calls.append(call)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Tried(Candidate):
    """A candidate on a scripted lock."""

    def __init__(self) -> None:
        self.lock, self.clock = ScriptedLock(), StoppedClock()
        super().__init__(
            cast("LeaseLock", self.lock),
            identity="me",
            lease_duration_seconds=15,
            clock=cast("Clock", self.clock),
        )

    def play(
        self, work: Coroutine[None, None, bool], seconds: float, *answers: Answer
    ) -> tuple[bool, list[Call]]:
        """Run a try so many seconds after the start; return its result, and its calls."""
        self.clock.passed_seconds = seconds
        self.lock.answers, self.lock.calls = [*answers], []
        # The lock never waits, so that the work needs no event loop.
        with pytest.raises(StopIteration) as end:
            work.send(None)
        assert not self.lock.answers, "there were fewer calls than answers"
        return end.value.value, self.lock.calls


def tried(candidate: Tried, seconds: float, *answers: Answer) -> tuple[bool, list[str]]:
    leads, calls = candidate.play(candidate.try_acquire_or_renew(), seconds, *answers)
    return leads, [call.verb for call in calls]


def candidate() -> Tried:
    return Tried()


def leader() -> Tried:
    """One that has made the lease at the start."""
    tested = candidate()
    assert tried(tested, 0, MISSING, DONE) == (True, ["GET", "CREATE"])
    return tested


def test_a_leader_whose_write_got_lost_finds_that_it_leads() -> None:
    tested = candidate()
    assert tried(tested, 0, MISSING, FAILED) == (False, ["GET", "CREATE"])
    assert not tested.is_leader
    ours = LeaseSpec(holder_identity="me", lease_duration_seconds=15, lease_transitions=7)
    assert tried(tested, 2, ours, DONE) == (True, ["GET", "UPDATE"])
    assert tested.observed.lease_transitions == 7
    assert tested.slow_paths == 1


def test_a_lease_that_was_deleted_is_made_again() -> None:
    tested = leader()
    assert tried(tested, 2, FAILED, MISSING, DONE) == (
        True,
        ["UPDATE", "GET", "CREATE"],
    )
    assert tested.slow_paths == 0


def test_a_failed_get_changes_nothing_and_does_not_lead() -> None:
    tested = leader()
    assert tried(tested, 2, FAILED, FAILED) == (False, ["UPDATE", "GET"])
    assert tested.is_leader
    assert tested.observed_at_seconds == 100


def chosen(candidate: Tried, seconds: float, *answers: Answer) -> tuple[bool, list[Call]]:
    return candidate.play(candidate.try_coordinated_renew(), seconds, *answers)


OURS = LeaseSpec(
    holder_identity="me",
    lease_duration_seconds=5,
    renew_time=AT_START,
    strategy="OldestEmulationVersion",
)


@pytest.mark.parametrize(
    "answer",
    [MISSING, FAILED, OTHERS, replace(OURS, preferred_holder="other")],
    ids=["no lease", "no answer", "another holder", "end of term"],
)
def test_a_candidate_that_is_not_chosen_writes_nothing(answer: Answer) -> None:
    assert chosen(candidate(), 1, answer) == (False, [Call("GET")])


def test_a_released_lease_has_no_holder_for_a_second() -> None:
    tested = leader()
    done, calls = tested.play(tested.release(), 4, tested.observed, DONE)
    assert done
    assert calls[1] == Call(
        "UPDATE",
        LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time="2026-01-01T00:00:04.250000Z",
            renew_time="2026-01-01T00:00:04.250000Z",
            lease_transitions=0,
        ),
    )
    assert tested.leader == ""


def test_a_lease_that_was_taken_from_us_is_not_given_back_by_us() -> None:
    """Upstream's looks at the record it remembers alone, and would clear the other one's."""
    tested = leader()
    done, calls = tested.play(tested.release(), 30, OTHERS)
    assert (done, [call.verb for call in calls]) == (True, ["GET"])


def test_a_release_that_meets_a_conflict_is_not_tried_again_before_1_37() -> None:
    tested = leader()
    with pytest.raises(Conflict):
        tested.play(tested.release(), 4, tested.observed, CHANGED)
    assert [call.verb for call in tested.lock.calls] == ["GET", "UPDATE"]


def test_a_release_that_meets_a_conflict_is_tried_again_with_the_lease_of_then() -> None:
    """The renewal that was under way at the end has been made, though its answer was not read."""
    tested = leader()
    renewed = replace(tested.observed, renew_time="2026-01-01T00:00:03.250000Z")
    answers = (tested.observed, CHANGED, renewed, DONE)
    done, calls = tested.play(tested.release_despite_conflicts(), 4, *answers)
    assert (done, [call.verb for call in calls]) == (True, ["GET", "UPDATE"] * 2)
    assert tested.leader == ""


@pytest.mark.parametrize(
    ("answers", "result"),
    [([FAILED], False), ([OTHERS], True)],
    ids=["no answer", "another holder"],
)
def test_a_release_after_a_conflict_may_come_too_late(answers: list[Answer], result: bool) -> None:
    tested = leader()
    done, _ = tested.play(tested.release_despite_conflicts(), 4, tested.observed, CHANGED, *answers)
    assert done is result


def test_a_candidate_that_does_not_lead_is_never_too_late() -> None:
    tested = candidate()
    assert not tested.is_older_than(0)
    tried(tested, 0, OTHERS)
    tested.clock.passed_seconds = 100
    assert not tested.is_older_than(0)
    assert tested.observed_at_seconds != -math.inf
