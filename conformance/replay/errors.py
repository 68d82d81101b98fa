"""Errors that stop a replay before there is a report.

    ConformanceError
      InputError          exit status 2
        TraceError        trace.py: a file that cannot be read
      RequestFailed       the API server refused a request or did not answer; exit status 1
      ReplayError         the run cannot go on; exit status 1
        ProcessFailure    a process could not be started, or ended too early

`str()` of each is one line.
"""

from __future__ import annotations

from ..errors import ConformanceError

__all__ = ["ProcessFailure", "ReplayError"]


class ReplayError(ConformanceError):
    """The replay cannot go on. The text is one line with the reason."""


class ProcessFailure(ReplayError):
    """A process could not be started, or ended too early."""
