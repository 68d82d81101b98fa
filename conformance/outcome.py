"""The outcome of a case."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Outcome", "Verdict", "all_passed"]


class Verdict(enum.Enum):
    """The verdict on a case.

    FAILED: the scheduler did not do what the case expects. ERROR: the case could not be run to the
    end, because the scheduler died or hung, or because a step failed.
    """

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a case. `reason` is one line, `details` are more; `log` is the target's log."""

    area: str
    name: str
    source: str
    origin: str
    verdict: Verdict
    seconds: float = 0.0
    reason: str = ""
    details: tuple[str, ...] = ()
    log: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The identifier `area/name`."""
        return f"{self.area}/{self.name}"

    @property
    def is_bad(self) -> bool:
        """True for a failure or an error."""
        return self.verdict in (Verdict.FAILED, Verdict.ERROR)


def all_passed(outcomes: Iterable[Outcome]) -> bool:
    """Return True if no outcome is bad and at least one case has passed."""
    verdicts = [outcome.verdict for outcome in outcomes]
    return Verdict.PASSED in verdicts and not any(
        verdict in (Verdict.FAILED, Verdict.ERROR) for verdict in verdicts
    )
