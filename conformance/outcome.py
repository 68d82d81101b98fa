"""The outcome of a case, and the words in which cases and outcomes are counted."""

from __future__ import annotations

import enum
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Level(enum.Enum):
    """The level of a case: for every scheduler, or for schedulers with the case's feature."""

    CORE = "core"
    EXTENDED = "extended"


class Aspect(enum.Enum):
    """An aspect of a scheduler's behaviour that is judged and counted by itself.

    PLACEMENT: which pods get which nodes, and which pods are deleted. STATUS: conditions and other
    fields of the API objects. EVENTS: events and the attempts that they count. MESSAGES: the texts
    of conditions and events. REQUESTS: requests to the API server and to extenders. METRICS:
    counters. REQUEUE: the events that bring pods back into the queue.
    """

    PLACEMENT = "placement"
    STATUS = "status"
    EVENTS = "events"
    MESSAGES = "messages"
    REQUESTS = "requests"
    METRICS = "metrics"
    REQUEUE = "requeue"


ALL_ASPECTS: Final = frozenset(Aspect)


class Verdict(enum.Enum):
    """The verdict on a case, or on one aspect of it.

    FAILED: the scheduler did not meet an expectation. ERROR: the case could not be run to the end,
    because the scheduler died or hung, or because a step failed. KNOWN: the case failed, and is in
    the list of known failures or shows a known bug. SKIPPED: not judged.
    """

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    KNOWN = "known"
    SKIPPED = "skipped"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a case. `reason` is one line, `details` are more; `log` is the target's log.

    `origin` and `line` are the place of the case, and `text` is the case as its file has it. `step`
    is the place of the step that did not hold, with its line in the file. `aspects` are the
    verdicts on the aspects that the case judges; SKIPPED if the case ended before all expectations
    of an aspect were checked. If a case was run several times, `failed_runs` of all `runs` failed.
    """

    area: str
    name: str
    source: str
    origin: str
    line: int = 0
    description: str = ""
    labels: frozenset[str] = frozenset()
    level: Level = Level.CORE
    feature: str = ""
    verdict: Verdict
    aspects: dict[Aspect, Verdict] = {}
    seconds: float = 0.0
    reason: str = ""
    details: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    step: str = ""
    step_line: int = 0
    text: str = ""
    runs: int = 1
    failed_runs: int = 0

    @property
    def id(self) -> str:
        """The identifier `area/name`."""
        return f"{self.area}/{self.name}"

    @property
    def place(self) -> str:
        """The place of the case, `FILE:LINE`."""
        return f"{self.origin}:{self.line}" if self.line else self.origin

    @property
    def step_place(self) -> str:
        """The place of the step that did not hold, `FILE:LINE (steps[3])`; empty without one."""
        return f"{self.origin}:{self.step_line} ({self.step})" if self.step_line else ""

    @property
    def is_flaky(self) -> bool:
        """True if some runs failed and others did not."""
        return 0 < self.failed_runs < self.runs

    @property
    def is_bad(self) -> bool:
        """True for a failure or an error."""
        return self.verdict in (Verdict.FAILED, Verdict.ERROR)


def merged(outcomes: Sequence[Outcome], *, one_pass_is_enough: bool) -> Outcome:
    """Return one outcome of several runs of a case: a failure, unless one pass is enough."""
    bad = [outcome for outcome in outcomes if outcome.is_bad]
    good = [outcome for outcome in outcomes if not outcome.is_bad]
    chosen = (good or bad)[0] if one_pass_is_enough else (bad or good)[0]
    reason = chosen.reason
    if bad and good:
        reason = f"flaky, {len(bad)} of {len(outcomes)} runs failed: {bad[0].reason}"
    return msgspec.structs.replace(
        chosen,
        seconds=sum(outcome.seconds for outcome in outcomes),
        reason=reason,
        runs=len(outcomes),
        failed_runs=len(bad),
    )


def skip_reasons(outcomes: Iterable[Outcome]) -> Counter[str]:
    """Return the number of skipped cases by reason."""
    return Counter(outcome.reason for outcome in outcomes if outcome.verdict is Verdict.SKIPPED)


def by_area(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Return the outcomes of each area, in their order."""
    areas: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        areas.setdefault(outcome.area, []).append(outcome)
    return areas


def all_passed(outcomes: Iterable[Outcome]) -> bool:
    """Return True if no outcome is bad and at least one case has passed."""
    verdicts = [outcome.verdict for outcome in outcomes]
    return Verdict.PASSED in verdicts and not any(
        verdict in (Verdict.FAILED, Verdict.ERROR) for verdict in verdicts
    )
