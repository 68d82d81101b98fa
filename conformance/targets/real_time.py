"""Rules for schedulers with a clock of their own: cases they cannot run, and rest as silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import NotSettled

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..clock import Clock
    from ..format.case import Case
    from .target import Target, TargetOptions

LOOK_SECONDS: Final = 0.02
#: The longest time for which a scheduler may be at work after the last change.
_SETTLE_SECONDS_MAX: Final = 60.0


def why_not_in_real_time(case: Case, options: TargetOptions) -> str | None:
    """Return a reason to skip: the case needs a virtual clock, or waits too long."""
    if case.exact_time:
        return "needs a clock that the suite moves"
    if case.seconds > options.real_seconds_max:
        return (
            f"needs {case.seconds:g}s of real time, --real-time-max is "
            f"{options.real_seconds_max:g}s"
        )
    return None


async def until_quiet(
    target: Target, state: Callable[[], object], *, clock: Clock, quiet_seconds: float
) -> None:
    """Return once a state is unchanged for a while. Raises TargetError, also for endless changes.

    `state` returns a value that differs after each change.
    """
    now = clock.monotonic()
    deadline, quiet_since, before = now + _SETTLE_SECONDS_MAX, now, state()
    while now - quiet_since < quiet_seconds:
        await clock.sleep(LOOK_SECONDS)
        target.check()
        now, after = clock.monotonic(), state()
        if after != before:
            quiet_since, before = now, after
        if now > deadline:
            raise NotSettled(f"never came to rest in {_SETTLE_SECONDS_MAX:g}s", target.log())
