"""Run many cases side by side and isolated from each other; outcomes are in the order of the cases.

In-process targets run in worker processes, one case at a time in each: a case is pure computation,
and a case that hangs or crashes takes only its worker with it. Commands mostly wait, so they run
side by side in this process, each with its own API server.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..errors import ConformanceError, InputError, first_error
from ..outcome import Outcome, Verdict
from ..targets import target_kind
from ..targets.quiet import QuietLoop
from ..targets.target import TargetOptions
from .execution import run_case
from .worker import Order, Setup

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Iterator, Sequence

    from ..format.case import Case
    from ..targets.target import TargetKind

__all__ = ["Settings", "default_workers", "run_cases"]

#: The least number of cases that makes starting a worker worthwhile.
_CASES_PER_WORKER: Final = 8
#: Commands per core that run at once: each mostly waits.
_COMMANDS_PER_CORE: Final = 2
_START_SECONDS: Final = 60.0
_ANSWER_BYTES_MAX: Final = 1 << 24
_STDERR_LINES_MAX: Final = 40
_LAST_WORDS_SECONDS: Final = 1.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a run. `workers` of None is chosen; 0 runs all in this process, one by one.

    A worker that exceeds its case's time limit by `grace_seconds` is killed. All events on the API
    servers are written to `event_log`, in the order of the cases (see event_log.py).
    """

    target: TargetOptions = TargetOptions()
    seed: int = 0
    timeout_seconds: float = 60.0
    grace_seconds: float = 10.0
    workers: int | None = None
    fail_fast: bool = False
    event_log: Path | None = None


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
    that cannot be run at all, or an event log that cannot be written.
    """
    with contextlib.ExitStack() as stack:
        logs = None
        if settings.event_log is not None:
            logs = stack.enter_context(_gathered_in(settings.event_log, len(cases)))
        runner = stack.enter_context(asyncio.Runner(loop_factory=QuietLoop))
        return runner.run(_Suite(cases, settings, on_outcome, logs).run())


@contextlib.contextmanager
def _gathered_in(target: Path, count: int) -> Iterator[Sequence[Path]]:
    """Give each case a file, and join them into one at the end, leaving out missing ones.

    Raises InputError if the joined file cannot be written.
    """
    try:
        whole = target.open("wb")
    except OSError as error:
        raise InputError(f"--event-log: {target}: {error.strerror or error}") from error
    with whole, tempfile.TemporaryDirectory(prefix="conformance-") as directory:
        parts = [Path(directory) / f"{index}.jsonl" for index in range(count)]
        try:
            yield parts
        finally:
            for part in parts:
                if part.exists():
                    with part.open("rb") as file:
                        shutil.copyfileobj(file, whole)


class _Suite:
    """One run of many cases."""

    def __init__(
        self,
        cases: Sequence[Case],
        settings: Settings,
        on_outcome: Callable[[Outcome], None],
        logs: Sequence[Path] | None,
    ) -> None:
        self._cases = cases
        self._settings = settings
        self._on_outcome = on_outcome
        self._logs = logs
        self._waiting = collections.deque(range(len(cases)))
        self._outcomes: dict[int, Outcome] = {}

    async def run(self) -> list[Outcome]:
        settings = self._settings
        workers = settings.workers
        if workers is None:
            workers = default_workers(settings, len(self._cases))
        if settings.target.in_real_time or workers == 0:
            kind = target_kind(settings.target)
            loops = [self._run_here(kind) for _ in range(max(1, workers))]
        else:
            loops = [self._run_in_worker() for _ in range(workers)]
        # Raised outside of `except*`, which before Python 3.11.4 wraps even a single error.
        failed: ConformanceError | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for loop in loops:
                    group.create_task(loop)
        except* ConformanceError as errors:
            failed = first_error(errors)
        if failed is not None:
            raise failed
        return [self._outcomes[index] for index in sorted(self._outcomes)]

    async def _run_here(self, kind: TargetKind) -> None:
        settings = self._settings
        while (index := self._next()) is not None:
            outcome = await run_case(
                self._cases[index],
                kind,
                seed=settings.seed,
                timeout_seconds=settings.timeout_seconds,
                log_path=self._log_path(index),
            )
            self._record(index, outcome)

    async def _run_in_worker(self) -> None:
        """Send cases to a worker, and replace a worker that is lost."""
        while self._waiting:
            async with _Worker(self._settings) as worker:
                while worker.is_alive and (index := self._next()) is not None:
                    log_path = self._log_path(index)
                    self._record(index, await worker.run(self._cases[index], log_path))

    def _log_path(self, index: int) -> Path | None:
        return self._logs[index] if self._logs is not None else None

    def _next(self) -> int | None:
        return self._waiting.popleft() if self._waiting else None

    def _record(self, index: int, outcome: Outcome) -> None:
        self._outcomes[index] = outcome
        if self._settings.fail_fast and outcome.is_bad:
            self._waiting.clear()
        self._on_outcome(outcome)


class _Worker:
    """A worker process, seen from the runner; an async context manager."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stderr: collections.deque[str] = collections.deque(maxlen=_STDERR_LINES_MAX)
        self.is_alive = False

    async def __aenter__(self) -> _Worker:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"{__package__}.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_ANSWER_BYTES_MAX,
        )
        self._drain = asyncio.create_task(self._read_stderr(self._process))
        setup = Setup(
            options=self._settings.target,
            seed=self._settings.seed,
            timeout_seconds=self._settings.timeout_seconds,
        )
        if await self._ask(setup, _START_SECONDS) is None:
            await self.__aexit__()
            last = self._stderr[-1] if self._stderr else "it said nothing"
            raise InputError(f"a worker process did not start: {last}")
        self.is_alive = True
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._drain

    async def run(self, case: Case, log_path: Path | None) -> Outcome:
        """Run a case in the worker. If the worker is lost, that is the outcome."""
        limit = self._settings.timeout_seconds + self._settings.grace_seconds
        order = Order(
            area=case.area,
            origin=case.origin,
            line=case.line,
            case=case.raw,
            log_path="" if log_path is None else str(log_path),
        )
        answer = await self._ask(order, limit)
        if answer is not None:
            return msgspec.json.decode(answer, type=Outcome)
        self.is_alive = False
        reason = await self._obituary(limit)
        # Its last output may still be in the pipe.
        await asyncio.wait([self._drain], timeout=_LAST_WORDS_SECONDS)
        return case.outcome(Verdict.ERROR, reason=reason, log=tuple(self._stderr))

    async def _ask(self, question: msgspec.Struct, limit_seconds: float) -> bytes | None:
        """Send one line and read one; None after the time limit or at the end of the output."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(limit_seconds):
                stdin.write(msgspec.json.encode(question) + b"\n")
                await stdin.drain()
                return await stdout.readline() or None
        return None

    async def _obituary(self, limit_seconds: float) -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                code = await self._process.wait()
                how = f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"
                return f"the scheduler took the worker process down: {how}"
        return f"hung: no answer in {limit_seconds:g}s"

    async def _read_stderr(self, process: Process) -> None:
        assert process.stderr is not None
        with contextlib.suppress(ValueError):  # a line beyond the limit
            async for line in process.stderr:
                self._stderr.append(line.decode(errors="replace").rstrip())
