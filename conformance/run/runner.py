"""Run many cases side by side and isolated from each other; outcomes are in the order of the cases.

In-process targets run in worker processes, one case at a time in each: a case is pure computation,
and a case that hangs or crashes takes only its worker with it. Commands mostly wait, so they run
side by side in this process, each with its own API server.

SIGINT and SIGTERM end the run with the outcomes until then. Whatever ends the run, none of its
processes and temporary files remain (reaper.py).
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ..errors import ConformanceError, InputError, first_error
from ..format.selection import Requirements
from ..format.version import SUITE_VERSION
from ..outcome import ALL_ASPECTS, Aspect, Outcome, Verdict, merged
from ..targets import target_kind
from ..targets.quiet import QuietLoop
from ..targets.target import TargetOptions
from .earlier import KnownFailures, with_known_bug
from .execution import run_case
from .reaper import run_folder
from .worker import Setup
from .worker_process import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from ..format.case import Case
    from ..targets.target import TargetKind

#: The least number of cases that makes starting a worker worthwhile.
_CASES_PER_WORKER: Final = 8
#: Commands per core that run at once: each mostly waits.
_COMMANDS_PER_CORE: Final = 2


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a run. `workers` of None is chosen; 0 runs all in this process, one by one.

    Only `aspects` count. Each case is run `repeat` times, with seeds that follow one another. A
    case that fails is run again up to `reruns` times, and passes if one of the runs does.

    A worker that exceeds its case's time limit by `grace_seconds` is killed. All events on the API
    servers are written to `event_log`, in the order of the cases (see event_log.py).
    """

    target: TargetOptions = TargetOptions()
    requirements: Requirements = Requirements(version=SUITE_VERSION)
    aspects: frozenset[Aspect] = ALL_ASPECTS
    known_failures: KnownFailures = KnownFailures()
    seed: int = 0
    repeat: int = 1
    reruns: int = 0
    timeout_seconds: float = 60.0
    grace_seconds: float = 10.0
    workers: int | None = None
    fail_fast: bool = False
    event_log: Path | None = None


class Interrupted(Exception):
    """A signal has ended the run. `outcomes` are the outcomes until then."""

    def __init__(self, number: signal.Signals, outcomes: list[Outcome]) -> None:
        super().__init__(f"ended by {number.name}")
        self.number = number
        self.outcomes = outcomes


def default_workers(settings: Settings, cases: int) -> int:
    """Return the default number of cases to run at once."""
    cores = os.cpu_count() or 1
    if settings.target.kubeconfig:
        return 1  # cases share the cluster's scheduler
    if settings.target.command:
        return min(cores * _COMMANDS_PER_CORE, cases)
    return max(1, min(cores, -(-cases // _CASES_PER_WORKER)))


def run_cases(
    cases: Sequence[Case],
    settings: Settings,
    on_outcome: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Run cases and return their outcomes in the same order; cases that did not run are left out.

    `on_outcome` is called with each outcome as soon as it is known. Raises InputError for a target
    that cannot be run at all, or an event log that cannot be written, and Interrupted after a
    signal.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(run_folder())
        if settings.event_log is not None:
            stack.enter_context(_gathered_in(settings.event_log, folder))
        runner = stack.enter_context(asyncio.Runner(loop_factory=QuietLoop))
        suite = _Suite(cases, settings, on_outcome, folder)
        return runner.run(suite.run())


@contextlib.contextmanager
def _gathered_in(target: Path, folder: Path) -> Iterator[None]:
    """Join the event logs of the cases into one at the end.

    Raises InputError if the joined file cannot be written.
    """
    try:
        whole = target.open("wb")
    except OSError as error:
        raise InputError(f"--event-log: {target}: {error.strerror or error}") from error
    with whole:
        try:
            yield
        finally:
            for part in sorted(folder.glob("*.jsonl")):
                with part.open("rb") as file:
                    shutil.copyfileobj(file, whole)


class _Turn(NamedTuple):
    """A run of a case: the index of the case, and the number of its earlier runs."""

    case: int
    number: int


class _Suite:
    """One run of many cases."""

    def __init__(
        self,
        cases: Sequence[Case],
        settings: Settings,
        on_outcome: Callable[[Outcome], None],
        folder: Path,
    ) -> None:
        self._cases = cases
        self._settings = settings
        self._on_outcome = on_outcome
        self._folder = folder
        self._waiting: collections.deque[_Turn] = collections.deque()
        self._runs: dict[int, list[Outcome]] = collections.defaultdict(list)
        self._outcomes: dict[int, Outcome] = {}
        self._ended_by: signal.Signals | None = None

    async def run(self) -> list[Outcome]:
        """Run all cases. Raises InputError and Interrupted."""
        settings = self._settings
        for index, case in enumerate(self._cases):
            reason = settings.requirements.why_not(case)
            if reason is None:
                self._waiting += [_Turn(index, number) for number in range(settings.repeat)]
            else:
                self._finish(index, case.outcome(Verdict.SKIPPED, reason=reason))
        # Raised outside of `except*`, which before Python 3.11.4 wraps even a single error.
        failed: ConformanceError | None = None
        loops = self._loops()
        with self._stopping_at_signals():
            try:
                async with asyncio.TaskGroup() as group:
                    for loop in loops:
                        group.create_task(loop)
            except* ConformanceError as errors:
                failed = first_error(errors)
        if failed is not None:
            raise failed
        outcomes = [self._outcomes[index] for index in sorted(self._outcomes)]
        if self._ended_by is not None:
            raise Interrupted(self._ended_by, outcomes)
        return outcomes

    def _loops(self) -> list[Coroutine[None, None, None]]:
        workers = self._settings.workers
        if workers is None:
            workers = default_workers(self._settings, len(self._waiting))
        if self._settings.target.in_real_time or workers == 0:
            kind = target_kind(self._settings.target)
            return [self._run_here(kind) for _ in range(max(1, workers))]
        return [self._run_in_worker() for _ in range(workers)]

    @contextlib.contextmanager
    def _stopping_at_signals(self) -> Iterator[None]:
        """Cancel the block at the first SIGINT or SIGTERM; the second one ends the process."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        watched = (signal.SIGINT, signal.SIGTERM)

        def stop(number: signal.Signals) -> None:
            self._ended_by = number
            for pending in watched:
                loop.remove_signal_handler(pending)
            task.cancel()

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        for number in watched:
            loop.add_signal_handler(number, stop, number)
        try:
            yield
        except asyncio.CancelledError:
            if self._ended_by is None:
                raise
            task.uncancel()
        finally:
            for number in watched:
                loop.remove_signal_handler(number)

    async def _run_here(self, kind: TargetKind) -> None:
        settings = self._settings
        while (turn := self._next()) is not None:
            outcome = await run_case(
                self._cases[turn.case],
                kind,
                seed=settings.seed + turn.number,
                timeout_seconds=settings.timeout_seconds,
                aspects=settings.aspects,
                log_path=self._log_path(turn),
                folder=self._folder,
            )
            self._record(turn, outcome)

    async def _run_in_worker(self) -> None:
        """Send cases to a worker, and replace a worker that is lost."""
        settings = self._settings
        while self._waiting:
            setup = Setup(
                options=settings.target,
                timeout_seconds=settings.timeout_seconds,
                aspects=settings.aspects,
                folder=str(self._folder),
            )
            async with WorkerProcess(setup, grace_seconds=settings.grace_seconds) as worker:
                while worker.is_alive and (turn := self._next()) is not None:
                    case = self._cases[turn.case]
                    seed, log_path = settings.seed + turn.number, self._log_path(turn)
                    self._record(turn, await worker.run(case, seed=seed, log_path=log_path))

    def _log_path(self, turn: _Turn) -> Path | None:
        if self._settings.event_log is None:
            return None
        return self._folder / f"{turn.case:06}-{turn.number:06}.jsonl"

    def _next(self) -> _Turn | None:
        return self._waiting.popleft() if self._waiting else None

    def _record(self, turn: _Turn, outcome: Outcome) -> None:
        """Keep the outcome of a run; the case is finished if it is not run again."""
        settings, runs = self._settings, self._runs[turn.case]
        runs.append(outcome)
        failed = sum(1 for run in runs if run.is_bad)
        if outcome.is_bad and failed == len(runs) and len(runs) <= settings.reruns:
            self._waiting.appendleft(_Turn(turn.case, turn.number + 1))
        elif len(runs) >= settings.repeat:
            self._finish(turn.case, merged(runs, one_pass_is_enough=settings.reruns > 0))

    def _finish(self, index: int, outcome: Outcome) -> None:
        # A worker does not know the file.
        case = self._cases[index]
        target = self._settings.target
        is_ours = target.is_ours
        version = self._settings.requirements.version
        outcome = with_known_bug(case.located(outcome), case, version, is_ours=is_ours)
        outcome = self._settings.known_failures.applied(outcome)
        self._outcomes[index] = outcome
        if self._settings.fail_fast and outcome.is_bad:
            self._waiting.clear()
        self._on_outcome(outcome)
