"""The tree of errors, ordered by cause.

    ConformanceError
        InputError          the caller: an invalid case file or option
        RequestFailed       the case: the API server refused a request of the suite
        ExpectationFailed   the scheduler: it did not meet an expectation of the case
        TargetError         the scheduler: it did not start, or it died
            NotSettled      it never became idle
        NotObservable       no fault: the scheduler does not expose what the case checks
        ReplayError         a replay cannot go on
            ProcessFailure  a process could not be started, or ended too early

All but InputError and ReplayError are verdicts on one case and stop only that case. `str()` is one
line.
"""

from __future__ import annotations

from typing import TypeVar

E = TypeVar("E", bound=Exception)


class ConformanceError(Exception):
    """The root of the tree."""


class InputError(ConformanceError):
    """An invalid case file, pattern or command."""


class RequestFailed(ConformanceError):
    """The API server refused a request or did not answer.

    `status` is the HTTP code, 0 without an answer.
    """

    def __init__(self, problem: str, *, status: int = 0) -> None:
        super().__init__(problem)
        self.status = status


class ExpectationFailed(ConformanceError):
    """An expectation does not hold.

    `details` are lines for people: the expected value, the actual value, and the pod's history.
    """

    def __init__(self, summary: str, details: tuple[str, ...] = ()) -> None:
        super().__init__(summary)
        self.details = details


class TargetError(ConformanceError):
    """The scheduler under test is not running. `log` are the last lines of its output."""

    def __init__(self, message: str, log: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.log = log


class NotSettled(TargetError):
    """The scheduler under test is still busy after the time limit."""


class NotObservable(ConformanceError):
    """The scheduler under test serves no metrics for the case; the case is skipped."""


class ReplayError(ConformanceError):
    """The replay cannot go on. The text is one line with the reason."""


class ProcessFailure(ReplayError):
    """A process could not be started, or ended too early."""


def first_error(group: BaseExceptionGroup[E]) -> E:
    """Return the first error of an exception group, which may be nested."""
    error = group.exceptions[0]
    return first_error(error) if isinstance(error, BaseExceptionGroup) else error
