"""Retries: the rules by which a request is sent again, and the one loop that applies them.

The rule, for the client's requests and for the writes of the dispatcher:

                            reads   writes, by `Retry` (IF_REFUSED: IF_NOT_SENT, and 500, 503)
                                    ALWAYS   IF_VERSION_CHECKED   IF_NOT_SENT
    429                     server  server   server               server       the client,
    5xx with Retry-After    server  server   server               server       at most ten
    connection reset        1 s                                                retries
    connection refused              short    short                short        the dispatcher,
    connection reset                short    short                             at most three
    500, 503, 504                   short    short                             retries
    409 Conflict                    short
    anything else, or no retries left: the error is raised

"server" is the delay in the header Retry-After, in seconds or as a date; 1 s for a 429 without one.
The client of a lease has a delay of its own in its place, and retries until its timeout.
"short" is 10, 50 and then 250 ms: enough for a passing fault, not for a server that restarts.
A read that fails otherwise is retried by the reflector, with growing delays.

A server that sends Retry-After has not executed the request, so a write that must not be executed
twice may be retried too. (If a 5xx claims this wrongly: a binding carries the pod's uid, and a pod
that has a node cannot get another one.) If the answer to such a write is lost, the outcome is
unknown and the write is not retried. After a binding that fails in this way the pod is read. If the
pod is not bound, or cannot be read, it is forgotten and goes back to the queue. If it is bound all
the same, the watch event removes it from the queue.

Source: client-go `rest/with_retry.go`, `rest/request.go`, `util/retry`; `Retriable` in
`pkg/scheduler/util/utils.go`. Upstream's scheduler retries with short delays only for status
patches, and not after a reset connection or a 504; it ignores dates in Retry-After, and does not
retry a 429 without that header.
"""

from __future__ import annotations

import enum
import logging
import math
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, TypeVar

from scheduler.client.errors import (
    ApiError,
    ClientError,
    Conflict,
    ConnectionFailed,
    ConnectionRefused,
    DecodeError,
    ServerError,
)
from scheduler.klog import V4

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scheduler.clock import Clock

_log: Final = logging.getLogger(__name__)

R = TypeVar("R")

#: The most retries of one request for Retry-After, or for a read whose connection was reset.
REQUEST_RETRIES_MAX: Final = 10

#: The delay before a read is retried whose connection was reset.
_RESET_DELAY_SECONDS: Final = 1.0

#: The delay after a 429 without Retry-After.
_TOO_MANY_REQUESTS_DELAY_SECONDS: Final = 1

#: The delays before the retries of a write (client-go's default backoff).
WRITE_RETRY_DELAYS_SECONDS: Final = (0.01, 0.05, 0.25)

#: The status codes of faults that often pass quickly.
_TRANSIENT: Final = frozenset({500, 503, 504})
_REFUSED: Final = frozenset({500, 503})


class Retry(enum.Enum):
    """The errors after which a write may be executed a second time."""

    #: After any: the write sets a state, and setting it twice changes nothing.
    ALWAYS = enum.auto()
    #: After any but a conflict: the write names the version of the object that it is meant for.
    IF_VERSION_CHECKED = enum.auto()
    #: Only if the first one was surely not executed, or after an answer 500 or 503: bindings, as
    #: of 1.37.
    IF_REFUSED = enum.auto()
    #: Only if the first one was surely not executed.
    IF_NOT_SENT = enum.auto()


async def repeat(
    call: Callable[[], Awaitable[R]],
    *,
    retries_max: int,
    delay_seconds: Callable[[ClientError, int], float | None],
    sleep: Callable[[float], Awaitable[None]],
) -> R:
    """Return the result of `call`, which is retried at most `retries_max` times.

    `delay_seconds(error, n)` returns the delay before retry `n`, counted from 0, or None if `error`
    is not worth a retry. Raises the last ClientError.
    """
    for n in range(retries_max):
        try:
            return await call()
        except ClientError as error:
            seconds = delay_seconds(error, n)
            if seconds is None:
                raise
            _log.log(V4, "retry in %g s: %s", seconds, error)
        await sleep(seconds)
    return await call()


async def repeat_write(write: Callable[[], Awaitable[R]], retry: Retry, clock: Clock) -> R:
    """Return the result of `write`, retried with short delays. Raises the last ClientError."""

    def delay_seconds(error: ClientError, n: int) -> float | None:
        return WRITE_RETRY_DELAYS_SECONDS[n] if is_retryable(error, retry) else None

    return await repeat(
        write,
        retries_max=len(WRITE_RETRY_DELAYS_SECONDS),
        delay_seconds=delay_seconds,
        sleep=clock.sleep,
    )


def request_retry_delay_seconds(error: ClientError, *, is_read: bool) -> float | None:
    """Return the client's own delay before it retries a request; None for no retry."""
    if isinstance(error, ApiError):
        return error.retry_delay_seconds
    if is_read and isinstance(error, ConnectionFailed) and error.reset:
        return _RESET_DELAY_SECONDS
    return None


def retry_after_seconds(header: str, *, now: float) -> int | None:
    """Parse a Retry-After header: whole seconds from `now` (since the epoch), rounded up."""
    if header.isdecimal():
        return int(header)
    try:
        when = parsedate_to_datetime(header)
        return max(0, math.ceil(when.timestamp() - now))
    except (ValueError, OverflowError):
        return None


def retry_delay_seconds(status: int, header: str, *, now: float) -> int | None:
    """Return the delay that an answer's Retry-After header demands; None for no retry."""
    if status != 429 and status < 500:
        return None
    seconds = retry_after_seconds(header, now=now)
    return _TOO_MANY_REQUESTS_DELAY_SECONDS if seconds is None and status == 429 else seconds


def may_have_happened(error: ClientError) -> bool:
    """Return True if a write that failed with `error` may have been executed all the same."""
    if isinstance(error, ConnectionRefused):
        return False
    return isinstance(error, ConnectionFailed | DecodeError | ServerError)


def is_retryable(error: ClientError, retry: Retry) -> bool:
    """Return True if a write that failed with `error` may be retried after a short delay."""
    if isinstance(error, ConnectionRefused):
        return True
    if retry is Retry.IF_NOT_SENT:
        return False
    if retry is Retry.IF_REFUSED:
        return isinstance(error, ServerError) and error.status in _REFUSED
    if isinstance(error, ConnectionFailed):
        return error.reset
    if isinstance(error, Conflict):
        return retry is Retry.ALWAYS
    return isinstance(error, ServerError) and error.status in _TRANSIENT
