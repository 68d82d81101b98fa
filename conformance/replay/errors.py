"""Errors that stop a replay before there is a report.

    ConformanceError
      InputError          exit status 2
        TraceError        trace.py: a file that cannot be read
      ReplayError         the run cannot go on; exit status 1
        ApiFailure        the API server refused a request or did not answer
        ProcessFailure    a process could not be started, or ended too early

`str()` of each is one line.
"""

from __future__ import annotations

from ..errors import ConformanceError

__all__ = ["ApiFailure", "ProcessFailure", "ReplayError"]


class ReplayError(ConformanceError):
    """The replay cannot go on. The text is one line with the reason."""


class ApiFailure(ReplayError):
    """A request was refused or got no answer. `status` is the HTTP code, 0 without an answer."""

    def __init__(self, problem: str, *, status: int = 0) -> None:
        super().__init__(problem)
        self.status = status


class ProcessFailure(ReplayError):
    """A process could not be started, or ended too early."""
