"""What became of a case."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Outcome", "Verdict", "all_passed"]


class Verdict(enum.Enum):
    """How a case ended.

    FAILED: the scheduler did not do what is expected. ERROR: it could not be asked, because it
    died, hung, or because a step of the case could not be carried out.
    """

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One case's result. `reason` is one line, `details` more of them; `log` is the target's."""

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
        """The case's `area/name`."""
        return f"{self.area}/{self.name}"

    @property
    def is_bad(self) -> bool:
        """Whether it speaks against the scheduler, or the case."""
        return self.verdict in (Verdict.FAILED, Verdict.ERROR)


def all_passed(outcomes: Iterable[Outcome]) -> bool:
    """Whether nothing is bad, and at least one case has passed."""
    verdicts = [outcome.verdict for outcome in outcomes]
    return Verdict.PASSED in verdicts and not any(
        verdict in (Verdict.FAILED, Verdict.ERROR) for verdict in verdicts
    )
