"""What can go wrong, by who is at fault.

    ConformanceError
        InputError          the caller: a case file or an option that makes no sense
        StepFailed          the case: the API server refused one of its steps
        ExpectationFailed   the scheduler: it did not do what the case expects
        TargetError         the scheduler: it did not start, or it died
            NotSettled      it never came to rest
        NotObservable       nobody: it does not show what the case asks about

All but InputError are verdicts on one case and stop only that case. `str()` is one line.
"""

from __future__ import annotations

from typing import TypeVar

__all__ = [
    "ConformanceError",
    "ExpectationFailed",
    "InputError",
    "NotObservable",
    "NotSettled",
    "StepFailed",
    "TargetError",
    "first_error",
]

E = TypeVar("E", bound=Exception)


class ConformanceError(Exception):
    """The root of the tree."""


class InputError(ConformanceError):
    """A case file, a pattern or a command that cannot be used."""


class StepFailed(ConformanceError):
    """A step of a case could not be carried out."""


class ExpectationFailed(ConformanceError):
    """Something is not as the case expects.

    `details` are lines for a person: what was expected, what is there, and the pod's story.
    """

    def __init__(self, summary: str, details: tuple[str, ...] = ()) -> None:
        super().__init__(summary)
        self.details = details


class TargetError(ConformanceError):
    """The scheduler under test is not there, or not any more. `log` is its last lines."""

    def __init__(self, message: str, log: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.log = log


class NotSettled(TargetError):
    """The scheduler under test is still busy after all the time it was given."""


class NotObservable(ConformanceError):
    """The scheduler under test serves no metrics that would tell: the case is skipped."""


def first_error(group: BaseExceptionGroup[E]) -> E:
    """The first error of a group, however deep in groups of groups it lies."""
    error = group.exceptions[0]
    return first_error(error) if isinstance(error, BaseExceptionGroup) else error
