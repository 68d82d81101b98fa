"""Processes of a real cluster: killed, started again, and gone when the test run is gone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

#: Runs a command that the kernel kills when the thread that started it ends (PR_SET_PDEATHSIG).
_BOUND_TO_PARENT: Final = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])"
)
_END_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 0.02
_LOG_CHARACTERS_MAX: Final = 3000
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


class Process:
    """A program with its log, in a process group of its own; it may be started several times.

    Start it in a thread that lives as long as the cluster: the kernel kills it with that thread.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.log = name, log
        #: The number of starts.
        self.starts = 0
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._ended_cpu_seconds = 0.0

    def start(self) -> None:
        """Start the program; its output is appended to the log."""
        assert not self.is_running, f"{self.name} runs already"
        prefix = [sys.executable, "-c", _BOUND_TO_PARENT] if sys.platform == "linux" else []
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*prefix, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                start_new_session=True,
            )
        self.starts += 1

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        process = self._process
        if process is None:
            return None
        if process.returncode is None:
            # The kernel keeps the times of a process that has ended until it is waited for.
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            if os.waitid(os.P_PID, process.pid, options) is not None:
                self._ended_cpu_seconds += self._cpu_seconds_now()
                process.wait()
        return process.returncode

    @property
    def is_running(self) -> bool:
        return self._process is not None and self.status is None

    @property
    def cpu_seconds(self) -> float:
        """User and system time of all starts."""
        return (self._cpu_seconds_now() if self.is_running else 0.0) + self._ended_cpu_seconds

    @property
    def output(self) -> str:
        """The log so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once, as `kill -9` does."""
        if self.is_running:
            self.signal(signal.SIGKILL)
            self.wait(_END_SECONDS)

    def stop(self) -> int | None:
        """End the process by SIGTERM, by SIGKILL if it takes long; return the exit status."""
        if self.is_running:
            self.signal(signal.SIGTERM)
            try:
                self.wait(_END_SECONDS)
            except TimeoutError:
                self.kill()
        return self.status

    def restart(self) -> None:
        """Kill the process, and start it again with the same arguments."""
        self.kill()
        self.start()

    def wait(self, seconds: float) -> int:
        """Wait until the process has ended; return the exit status. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while (status := self.status) is None:
            if time.monotonic() > end:
                raise TimeoutError(f"{self.name} has not ended: {self.last_output}")
            time.sleep(_LOOK_SECONDS)
        return status

    @property
    def last_output(self) -> str:
        """The end of the log."""
        return self.output[-_LOG_CHARACTERS_MAX:]

    def _cpu_seconds_now(self) -> float:
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return 0.0
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / _TICKS_PER_SECOND
