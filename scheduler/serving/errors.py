"""What can go wrong with the scheduler's own port.

    ServingError                 the port cannot be served as asked; the process does not start
    |-- AuthenticationError      a request's credentials are no good, or nobody can judge them
    `-- AuthorizationError       nobody can say whether a request may be answered

The last two end with the request: 401 and 500, and a line in the log.
"""

from __future__ import annotations


class ServingError(Exception):
    """The base of everything this package raises on purpose; one line that says what is wrong."""


class AuthenticationError(ServingError):
    """Credentials came and could not be accepted; the client is told no more than that."""


class AuthorizationError(ServingError):
    """The question whether a request is allowed found no answer."""
