"""When a request is made again: the one rule, for the client and for the dispatcher of writes.

                             reads    writes by `Repeating`
                                      AS_WANTED   IF_UNCHANGED   IF_NOT_SENT
    429                      as told  as told     as told        as told        the client,
    5xx that says when       as told  as told     as told        as told        at most ten times
    connection broke         1 s
    nobody listens                    soon        soon           soon           the dispatcher,
    connection broke                  soon        soon                          at most three
    500, 503, 504                     soon        soon                          times
    409 Conflict                      soon
    anything else, or too often: raised to whoever asked

"As told" is what Retry-After says, seconds or a date; a 429 without one means a second.
"Soon" is after 10, 50 and 250 ms: a server that restarts takes longer, one that stumbles does not.
A read that nothing above covers is the reflector's, which comes back with a growing pause.

A server that says when to come again has not carried out what it was asked, so this goes for writes
too that must not be made twice. (Should a 5xx lie: a binding names the pod's uid, and a pod that
has a node gets no second one.) Where the answer to such a write got lost, nobody knows; it is not
made again. Of a binding that fails so, the pod is asked whether it was made. If it says no, or
nothing, it is forgotten and put back in the queue, and the watch tells the truth: if it was bound
after all it is let go of, wherever it is by then.

Source: client-go `rest/with_retry.go`, `rest/request.go`, `util/retry`; `Retriable` in
`pkg/scheduler/util/utils.go`. Upstream's scheduler repeats nothing but status patches "soon", not
even these on a broken connection or a 504, takes no dates, and gives up at a 429 that does not say
when.
"""

from __future__ import annotations

import enum
import math
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from scheduler.client.errors import (
    Conflict,
    ConnectionFailed,
    ConnectionRefused,
    DecodeError,
    ServerError,
)

if TYPE_CHECKING:
    from scheduler.client.errors import ClientError

#: How often one request is sent again at most because the server says so, or on a broken read.
RETRIES_MAX: Final = 10

#: How long to wait after the connection of a read broke.
RESET_SECONDS: Final = 1.0

#: The pauses before a write is made a second, third and fourth time (client-go's default backoff).
SOON_SECONDS: Final = (0.01, 0.05, 0.25)

#: How long to wait after a 429 that does not say.
_TOO_MANY_SECONDS: Final = 1

#: Answers of a server that is having a bad moment.
_PASSING: Final = frozenset({500, 503, 504})


class Repeating(enum.Enum):
    """What making a write a second time would do."""

    #: Nothing: it says how things shall be.
    AS_WANTED = enum.auto()
    #: Nothing: it names the version it is meant for, and is refused once that has changed.
    IF_UNCHANGED = enum.auto()
    #: Harm, perhaps, unless it was not carried out the first time.
    IF_NOT_SENT = enum.auto()


def retry_after_seconds(header: str, *, now: float) -> int | None:
    """What a Retry-After header says, in whole seconds from `now` (since the epoch), rounded up."""
    if header.isdecimal():
        return int(header)
    try:
        when = parsedate_to_datetime(header)
        return max(0, math.ceil(when.timestamp() - now))
    except (ValueError, OverflowError):
        return None


def invited_seconds(status: int, header: str, *, now: float) -> int | None:
    """How long to wait before asking again; None if the server does not invite us to."""
    if status != 429 and status < 500:
        return None
    seconds = retry_after_seconds(header, now=now)
    return _TOO_MANY_SECONDS if seconds is None and status == 429 else seconds


def may_have_happened(error: ClientError) -> bool:
    """Whether a write that failed so may have been carried out all the same."""
    if isinstance(error, ConnectionRefused):
        return False
    return isinstance(error, ConnectionFailed | DecodeError | ServerError)


def is_worth_repeating(error: ClientError, repeating: Repeating) -> bool:
    """Whether a write that failed so may be made again soon."""
    if isinstance(error, ConnectionRefused):
        return True
    if repeating is Repeating.IF_NOT_SENT:
        return False
    if isinstance(error, ConnectionFailed):
        return error.reset
    if isinstance(error, Conflict):
        return repeating is Repeating.AS_WANTED
    return isinstance(error, ServerError) and error.status in _PASSING
