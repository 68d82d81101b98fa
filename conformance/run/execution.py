"""Run one case: a new API server, the case's objects, a new scheduler, the steps.

Every failure is part of the outcome. Only errors that stop the whole suite are raised.
"""

from __future__ import annotations

import asyncio
import traceback
from typing import TYPE_CHECKING

from ..clock import RealClock
from ..errors import ConformanceError, ExpectationFailed, InputError, NotObservable, TargetError
from ..judge.tally import Tally
from ..outcome import ALL_ASPECTS, Aspect, Verdict
from .event_log import event_log
from .running import Progress, started

if TYPE_CHECKING:
    from pathlib import Path

    from ..format.case import Case
    from ..outcome import Outcome
    from ..targets.target import TargetKind
    from .running import Observer


async def run_case(
    case: Case,
    kind: TargetKind,
    *,
    seed: int,
    timeout_seconds: float = 60.0,
    aspects: frozenset[Aspect] = ALL_ASPECTS,
    log_path: Path | None = None,
    folder: Path | None = None,
) -> Outcome:
    """Run a case and return its outcome. `timeout_seconds` is real time.

    Only `aspects` count. The events on the API server are written to `log_path`, see
    event_log.py. The case's temporary files are below `folder`, by default the system's.
    """
    with event_log(log_path, case.id) as log:
        tally = Tally(case, aspects)
        if tally.is_empty:
            reason = "judges other aspects: " + ", ".join(sorted(a.value for a in tally.unjudged))
            return case.outcome(Verdict.SKIPPED, reason=reason)
        outcome = await run_case_with(
            log, case, kind, seed=seed, timeout_seconds=timeout_seconds, tally=tally, folder=folder
        )
        log.end(outcome)
    return outcome


async def run_case_with(
    observer: Observer,
    case: Case,
    kind: TargetKind,
    *,
    seed: int,
    timeout_seconds: float,
    tally: Tally | None = None,
    folder: Path | None = None,
) -> Outcome:
    """Run a case as `run_case` does, with an observer; without a tally all aspects count.

    Raises InputError for a target on which no case can be run.
    """
    skipped = kind.why_not(case)
    if skipped is not None:
        return case.outcome(Verdict.SKIPPED, reason=skipped)
    real = RealClock()
    begun = real.monotonic()
    tally = Tally(case, ALL_ASPECTS) if tally is None else tally
    progress = Progress()
    starting = started(
        case, kind, seed=seed, observer=observer, tally=tally, progress=progress, folder=folder
    )
    error: ConformanceError | None = None
    try:
        async with asyncio.timeout(timeout_seconds):
            async with starting as running:
                await running.carry_out(case.steps)
    except ExpectationFailed:
        pass  # the tally has it
    except TimeoutError:
        error = TargetError(f"still running after {timeout_seconds:g}s")
    except InputError:
        raise
    except ConformanceError as failure:
        error = failure
    except Exception as bug:  # noqa: BLE001 - a bug is the outcome of one case
        lines = "".join(traceback.format_exception(bug)).splitlines()
        error = TargetError(f"broke off: {type(bug).__name__}: {bug}", tuple(lines))
    return _judged(case, progress, tally, error, real.monotonic() - begun)


def _judged(
    case: Case,
    progress: Progress,
    tally: Tally,
    error: ConformanceError | None,
    seconds: float,
) -> Outcome:
    """Return the outcome of a case that was run to its end, or to an error."""
    aspects = tally.verdicts()
    if error is None and not tally.failures:
        return case.outcome(Verdict.PASSED, seconds=seconds, aspects=aspects)
    if isinstance(error, NotObservable) and not tally.failures:
        return case.outcome(Verdict.SKIPPED, seconds=seconds, reason=str(error))
    if error is None or isinstance(error, NotObservable):
        verdict, reason, step = Verdict.FAILED, tally.reason, tally.gravest.where
    else:
        where = f"{progress.where}: " if progress.where else ""
        verdict, reason, step = Verdict.ERROR, f"{where}{error}", progress.where
    return case.outcome(
        verdict,
        seconds=seconds,
        reason=reason,
        details=(*tally.lines(), *progress.story),
        log=(error.log if isinstance(error, TargetError) else ()) or progress.log,
        aspects=aspects,
        step=step,
    )
