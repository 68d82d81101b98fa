"""Count, for each aspect of a case, the expectations that were checked and that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..format.expectation import Expectation
from ..format.steps import in_order
from ..outcome import Aspect, Verdict
from .expect import aspects_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..format.case import Case
    from .expect import Unmet


class Failure(NamedTuple):
    """A failed expectation, with the place of its step."""

    where: str
    unmet: Unmet

    @property
    def line(self) -> str:
        """The failure as one line."""
        return f"{self.where}: {self.unmet.subject}: {self.unmet.problem}"


class Tally:
    """The verdicts on the aspects of one case. Only the aspects in `judged` count."""

    def __init__(self, case: Case, judged: frozenset[Aspect]) -> None:
        self._judged = judged
        self._unchecked: dict[str, frozenset[Aspect]] = {
            step.where: aspects_of(step.action)
            for step in in_order(case.steps)
            if isinstance(step.action, Expectation)
        }
        self._all = frozenset[Aspect]().union(*self._unchecked.values())
        self.failures: list[Failure] = []

    @property
    def is_empty(self) -> bool:
        """True if no expectation of the case belongs to an aspect that counts."""
        return bool(self._all) and not self._all & self._judged

    @property
    def unjudged(self) -> frozenset[Aspect]:
        """The aspects of the case that do not count."""
        return self._all - self._judged

    def judges_all(self, expected: Expectation) -> bool:
        """True if all aspects of an expectation count."""
        return aspects_of(expected) <= self._judged

    @property
    def reason(self) -> str:
        """The failures as one line: the first, or the first about placement; the number of all."""
        others = len(self.failures) - 1
        return f"{self.gravest.line} (and {others} more)" if others else self.gravest.line

    @property
    def gravest(self) -> Failure:
        """The first failure about placement, or else the first one."""
        return min(self.failures, key=lambda each: each.unmet.aspect is not Aspect.PLACEMENT)

    def lines(self) -> list[str]:
        """Return the failures as lines; a single failure is the reason, and not repeated."""
        lines: list[str] = []
        shown: tuple[str, ...] = ()
        for failure in self.failures:
            if len(self.failures) > 1:
                lines.append(f"{failure.unmet.aspect.value}: {failure.line}")
            if failure.unmet.lines != shown:
                shown = failure.unmet.lines
                lines += shown
        return lines

    def judged(self, unmet: Iterable[Unmet]) -> list[Unmet]:
        """Return the unmet expectations whose aspects count."""
        return [mismatch for mismatch in unmet if mismatch.aspect in self._judged]

    def record(self, where: str, unmet: Sequence[Unmet]) -> None:
        """Record the result of an expectation: its failures in the aspects that count."""
        self._unchecked.pop(where, None)
        self.failures += [Failure(where, mismatch) for mismatch in unmet]

    def verdicts(self) -> dict[Aspect, Verdict]:
        """Return the verdicts on the case's aspects; SKIPPED for aspects not fully checked."""
        failed = {failure.unmet.aspect for failure in self.failures}
        unchecked = frozenset[Aspect]().union(*self._unchecked.values())
        return {
            aspect: Verdict.FAILED
            if aspect in failed
            else Verdict.SKIPPED
            if aspect in unchecked
            else Verdict.PASSED
            for aspect in Aspect
            if aspect in self._all & self._judged
        }
