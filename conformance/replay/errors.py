"""What can stop a replay before there is anything to report.

Exception
  TraceError        trace.py: a file that cannot be read; exit status 2
  ReplayError       the run cannot go on; exit status 1
    ApiFailure      the API server refused a request or did not answer
    ProcessFailure  a process could not be started, or ended too early
"""

from __future__ import annotations

__all__ = ["ApiFailure", "ProcessFailure", "ReplayError"]


class ReplayError(Exception):
    """The replay cannot go on; the text is one line that says why."""


class ApiFailure(ReplayError):
    """A request was refused or got no answer. `status` is the HTTP code, 0 without an answer."""

    def __init__(self, problem: str, *, status: int = 0) -> None:
        super().__init__(problem)
        self.status = status


class ProcessFailure(ReplayError):
    """A process could not be started, or ended too early."""
