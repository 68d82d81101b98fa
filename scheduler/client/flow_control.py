"""The client's rate limit, and growing delays between retries.

`TokenBucket` is the rate limit (client-go's `qps` and `burst`), `Backoff` the growing delay. Both
use an injected clock, and the jitter an injected generator, so that a test knows every delay.
Source: `golang.org/x/time/rate`, client-go `util/flowcontrol/throttle.go`, apimachinery
`pkg/util/wait/backoff.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from scheduler.clock import Clock


class TokenBucket:
    """Allows `burst` requests at once, and `qps` per second in the long run.

    A request that finds the bucket empty takes a token in advance and waits until it is due, so
    requests are served in their order. A negative `qps` means no limit.
    """

    def __init__(self, *, qps: float, burst: int, clock: Clock) -> None:
        if qps >= 0 and (qps == 0 or burst < 1):
            raise ValueError(
                f"qps {qps}, burst {burst}: expected a positive qps with a positive burst, "
                "or a negative qps for no limit"
            )
        self._qps = qps
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._counted_at = clock.monotonic()

    async def take(self) -> float:
        """Wait for a token; return the seconds waited. A cancelled wait gives the token back."""
        if self._qps < 0:
            return 0.0
        now = self._clock.monotonic()
        self._tokens = min(float(self._burst), self._tokens + (now - self._counted_at) * self._qps)
        self._counted_at = now
        self._tokens -= 1.0
        if self._tokens >= 0:
            return 0.0
        seconds = -self._tokens / self._qps
        try:
            await self._clock.sleep(seconds)
        except BaseException:
            self._tokens += 1.0
            raise
        return seconds


@dataclass(slots=True, kw_only=True)
class Backoff:
    """A delay that doubles up to a cap, and is reset after a while without one.

    Each delay is its nominal length plus up to `jitter` times this length, so that the clients of
    one server spread out. By default 0.8 s, 1.6 s ... 30 s, each up to doubled by the jitter, and
    0.8 s again after two minutes without a delay. (client-go's comment promises the same; its
    code resets the delay every two minutes even while attempts keep failing.)
    """

    clock: Clock
    rng: random.Random
    initial_seconds: float = 0.8
    cap_seconds: float = 30.0
    factor: float = 2.0
    jitter: float = 1.0
    reset_seconds: float = 120.0
    _next_seconds: float = field(init=False)
    _paused_until: float = field(init=False)

    def __post_init__(self) -> None:
        self._next_seconds = self.initial_seconds
        self._paused_until = self.clock.monotonic()

    def step(self) -> float:
        """Return the delay in seconds; the next one will be longer."""
        now = self.clock.monotonic()
        if now - self._paused_until > self.reset_seconds:
            self._next_seconds = self.initial_seconds
        nominal = self._next_seconds
        self._next_seconds = min(nominal * self.factor, self.cap_seconds)
        seconds = nominal + self.rng.random() * self.jitter * nominal
        self._paused_until = now + seconds
        return seconds

    async def pause(self) -> None:
        """Sleep for one delay."""
        await self.clock.sleep(self.step())
