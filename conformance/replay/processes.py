"""The processes of a replay: started, stopped, and measured.

    start --> running --stop: SIGTERM--> stopping --exits, or SIGKILL after 10 s--> reaped: Usage
                 |
                 +--exits by itself--> reaped: `failure` raises ProcessFailure

Only the parent reaps, with wait4, so that the kernel's usage data of each process is read exactly
once. Output goes to a file: no pipe can fill up, and a failure can be quoted.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from ..errors import ProcessFailure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..clock import Clock

_POLL_SECONDS: Final = 0.05
_PATIENCE_SECONDS: Final = 10.0
#: `ru_maxrss` is in KiB but for macOS, where it is in bytes.
_MAXRSS_BYTES: Final = 1 if sys.platform == "darwin" else 1024


class Usage(NamedTuple):
    """The resources that a process has used."""

    user_seconds: float
    system_seconds: float
    peak_rss_bytes: int

    @property
    def cpu_seconds(self) -> float:
        """User and system time."""
        return self.user_seconds + self.system_seconds


def own_usage() -> Usage:
    """Return the resources that this process has used so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(used.ru_utime, used.ru_stime, used.ru_maxrss * _MAXRSS_BYTES)


class Child:
    """A child process. `stop` ends it in any case. Raises ProcessFailure."""

    def __init__(self, name: str, command: Sequence[str], output: Path, clock: Clock) -> None:
        self.name: Final = name
        self.output: Final = output
        self._clock: Final = clock
        self._usage: Usage | None = None
        self._peak_rss_bytes = 0
        try:
            with output.open("wb") as file:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            why = error.strerror or str(error)
            raise ProcessFailure(f"{name}: cannot start {command[0]}: {why}") from error

    async def first_line(self, seconds: float) -> str:
        """Wait for the first line of output and return it. Raises ProcessFailure."""
        deadline = self._clock.now() + seconds
        while True:
            line, end, _ = self.output.read_text(encoding="utf-8", errors="replace").partition("\n")
            if end:
                return line
            if self._reap():
                raise ProcessFailure(self._epitaph())
            if self._clock.now() > deadline:
                raise ProcessFailure(f"{self.name} has said nothing for {seconds:g} s")
            await self._clock.sleep(_POLL_SECONDS)

    async def failure(self) -> NoReturn:
        """Wait until the process ends by itself, which is an error. Raises ProcessFailure."""
        while not self._reap():
            await self._clock.sleep(_POLL_SECONDS)
        raise ProcessFailure(self._epitaph())

    async def stop(self) -> Usage:
        """End the process, if it has not ended yet, and return its usage. May be called again."""
        self._peak_rss_bytes = self._high_water_bytes() or self._peak_rss_bytes
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._reap():
                break
            self._signal(number)
            deadline = self._clock.now() + _PATIENCE_SECONDS
            while not self._reap() and self._clock.now() < deadline:
                await self._clock.sleep(_POLL_SECONDS)
        if self._usage is None:
            raise ProcessFailure(f"{self.name} cannot be ended")
        self._signal(signal.SIGKILL)  # processes that it has started and left behind
        peak_rss_bytes = self._peak_rss_bytes or self._usage.peak_rss_bytes
        return self._usage._replace(peak_rss_bytes=peak_rss_bytes)

    def _reap(self) -> bool:
        """Return True if the process has ended; its usage is then recorded."""
        if self._usage is None:
            pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self._usage = Usage(used.ru_utime, used.ru_stime, used.ru_maxrss * _MAXRSS_BYTES)
        return self._usage is not None

    def _signal(self, number: int) -> None:
        """Send a signal to the whole process group, which the process leads."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _high_water_bytes(self) -> int:
        """Return its maximum memory; 0 if it has ended or the system does not provide it.

        Better than `ru_maxrss`, which starts with the parent's memory at the fork.
        """
        with contextlib.suppress(OSError):
            for line in (
                Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8").splitlines()
            ):
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        return 0

    def _epitaph(self) -> str:
        lines = self.output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return f"{self.name} ended with status {self._process.returncode}{last}"
