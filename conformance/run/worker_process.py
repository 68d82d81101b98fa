"""A worker process as the runner uses it: started, given cases, replaced when it is lost."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..errors import InputError
from ..outcome import Outcome, Verdict
from .worker import Order, Setup

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from ..format.case import Case

_START_SECONDS: Final = 60.0
_ANSWER_BYTES_MAX: Final = 1 << 24
_STDERR_LINES_MAX: Final = 40
_LAST_WORDS_SECONDS: Final = 1.0
#: A worker ends at once, unless its scheduler or a tool that measures it handles the signal.
_TERMINATE_SECONDS: Final = 5.0


class WorkerProcess:
    """A worker process, seen from the runner; an async context manager."""

    def __init__(self, setup: Setup, *, grace_seconds: float) -> None:
        self._setup = setup
        self._limit_seconds = setup.timeout_seconds + grace_seconds
        self._stderr: collections.deque[str] = collections.deque(maxlen=_STDERR_LINES_MAX)
        self.is_alive = False

    async def __aenter__(self) -> WorkerProcess:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"{__package__}.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_ANSWER_BYTES_MAX,
            # The terminal's Ctrl-C is for the runner, which ends its workers.
            start_new_session=True,
        )
        self._pid_file = Path(self._setup.folder) / f"{self._process.pid}.pid"
        self._pid_file.write_text(str(self._process.pid), encoding="utf-8")
        self._drain = asyncio.create_task(self._read_stderr(self._process))
        answer = await self._ask(self._setup, _START_SECONDS)
        if answer is None:
            await self.__aexit__()
            last = self._stderr[-1] if self._stderr else "it wrote nothing"
            raise InputError(f"a worker process did not start: {last}")
        error = msgspec.json.decode(answer, type=dict[str, str | None])["error"]
        if error is not None:
            await self.__aexit__()
            raise InputError(error)
        self.is_alive = True
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _TERMINATE_SECONDS)
            self._process.kill()
        await self._process.wait()
        self._pid_file.unlink(missing_ok=True)
        await self._drain

    async def run(self, case: Case, *, seed: int, log_path: Path | None) -> Outcome:
        """Run a case in the worker. The loss of the worker is an outcome too."""
        order = Order(
            area=case.area,
            origin=case.origin,
            line=case.line,
            case=case.raw,
            seed=seed,
            log_path="" if log_path is None else str(log_path),
        )
        answer = await self._ask(order, self._limit_seconds)
        if answer is not None:
            return msgspec.json.decode(answer, type=Outcome)
        self.is_alive = False
        reason = await self._obituary(self._limit_seconds)
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
