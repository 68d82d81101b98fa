"""A scheduler that is a command: its own process group, real time, and the last lines of output.

The command is a template: `{kubeconfig}` is replaced by a kubeconfig file for the API server,
`{config}` by a KubeSchedulerConfiguration file, `{port}` by a free port for metrics,
`{feature-gates}` by the case's gates (`Name=true,...`, empty without any). Cases that need
`{config}`, `{port}` or `{feature-gates}` are skipped if the command lacks it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import shlex
import shutil
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..clock import RealClock
from ..errors import InputError, TargetError
from .real_time import LOOK_SECONDS, until_quiet, why_not_in_real_time
from .target import configuration, serve_fake_server

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager

    from fakeapi import FakeApiServer

    from ..clock import Clock
    from ..format.case import Case
    from .target import Served, Surroundings, Target, TargetOptions

_KUBECONFIG: Final = "{kubeconfig}"
_CONFIG: Final = "{config}"
_PORT: Final = "{port}"
_GATES: Final = "{feature-gates}"
#: The program of our scheduler, and the features of its own plugins.
_OURS: Final = "kubesched"
_OWN_FEATURES: Final = frozenset({"flow", "queues"})
#: Below the range of ephemeral ports, so that no outgoing connection takes one meanwhile.
_PORTS: Final = range(20_000, 30_000)
_LOG_LINES_MAX: Final = 30
_LOG_BYTES_MAX: Final = 64 * 1024
#: The first line that Go prints of a crash; the stacks follow.
_CRASH: Final = re.compile(r"panic: |fatal error: ")
_TERMINATE_SECONDS: Final = 5.0


class CommandKind:
    """Starts a command for each case."""

    def __init__(self, options: TargetOptions) -> None:
        """Parse the command. Raises InputError if it cannot be run."""
        try:
            self._words = shlex.split(options.command)
        except ValueError as error:
            raise InputError(f"--target-command: {error}: {options.command}") from error
        if not any(_KUBECONFIG in word or _CONFIG in word for word in self._words):
            raise InputError(
                f"--target-command: expected {_KUBECONFIG} or {_CONFIG} in it, or the scheduler "
                f"cannot find the API server: {options.command}"
            )
        if shutil.which(self._words[0]) is None:
            raise InputError(f"--target-command: {self._words[0]}: no such command")
        self._options = options
        self._takes_config = any(_CONFIG in word for word in self._words)
        self._takes_gates = any(_GATES in word for word in self._words)
        self._takes_port = any(_PORT in word for word in self._words)
        if not options.metrics_url.startswith(("http://", "https://")):
            raise InputError(
                f"--metrics-url: expected http://... or https://..., got {options.metrics_url}"
            )

    def why_not(self, case: Case) -> str | None:
        """Return a reason to skip: a placeholder is missing, or the case waits too long.

        Or the case is about a plugin that only our scheduler has.
        """
        if case.feature in _OWN_FEATURES and Path(self._words[0]).name != _OURS:
            return f"belongs to the feature {case.feature}, a plugin of {_OURS}"
        if case.needs_config and not self._takes_config:
            return f"needs a configuration, and the command has no {_CONFIG}"
        if case.gates and not self._takes_gates:
            return f"needs feature gates, and the command has no {_GATES}"
        if case.reads_metrics and _PORT in self._options.metrics_url and not self._takes_port:
            return f"reads metrics, and the command has no {_PORT} to serve them on"
        return why_not_in_real_time(case, self._options)

    def new_clock(self) -> Clock:
        return RealClock()

    def serve(self, case: Case, *, clock: Clock, seed: int) -> AbstractAsyncContextManager[Served]:
        return serve_fake_server(case, clock=clock, seed=seed)

    @contextlib.asynccontextmanager
    async def run(self, surroundings: Surroundings) -> AsyncIterator[Target]:
        """Run the command while the block runs. Raises TargetError."""
        if surroundings.is_alone:
            await _until_unwatched(surroundings)
        watchers_before = surroundings.fake_server.statistics().watchers
        log = surroundings.directory / "target.log"
        with log.open("wb") as output, _reserved_port() as port:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._arguments(surroundings, port),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            except OSError as error:
                raise TargetError(f"did not start: {self._words[0]}: {error.strerror}") from error
            # The process group of this process ends with the run, see run/reaper.py.
            pid = str(process.pid)
            (surroundings.directory / "target.pid").write_text(pid, encoding="utf-8")
            url = self._options.metrics_url.replace(_PORT, str(port))
            target = _CommandTarget(self._options, surroundings, process, log, metrics_url=url)
            try:
                await target.wait_until_started(0 if surroundings.is_alone else watchers_before)
                yield target
            finally:
                await _stop(process)

    def _arguments(self, surroundings: Surroundings, port: int) -> list[str]:
        directory = surroundings.directory
        kubeconfig = surroundings.fake_server.write_kubeconfig(directory / "kubeconfig")
        config = directory / "config.yaml"
        whole = configuration(surroundings.config, kubeconfig)
        config.write_bytes(msgspec.yaml.encode(whole))
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in surroundings.gates.items())
        return [
            word.replace(_KUBECONFIG, str(kubeconfig))
            .replace(_CONFIG, str(config))
            .replace(_PORT, str(port))
            .replace(_GATES, gates)
            for word in self._words
        ]


class _CommandTarget:
    """A scheduler that runs as a process."""

    settles_exactly = False

    def __init__(
        self,
        options: TargetOptions,
        surroundings: Surroundings,
        process: Process,
        log: Path,
        *,
        metrics_url: str,
    ) -> None:
        self._options = options
        self._server: FakeApiServer = surroundings.fake_server
        self._clock = surroundings.clock
        self._process = process
        self._log = log
        self.patience_seconds = options.patience_seconds
        self.metrics_url = metrics_url

    async def wait_until_started(self, watchers_before: int) -> None:
        """Return when the scheduler watches the API server too, and is idle."""
        deadline = self._clock.monotonic() + self._options.start_seconds_max
        while self._server.statistics().watchers <= watchers_before:
            self._check_alive("did not start")
            if self._clock.monotonic() > deadline:
                limit = self._options.start_seconds_max
                raise TargetError(
                    f"opened no watch on the API server within {limit:g}s", self.log()
                )
            await self._clock.sleep(LOOK_SECONDS)
        await self.settle()

    async def settle(self) -> None:
        """Return when nothing has been written and nothing has happened for a while."""
        await until_quiet(
            self,
            self._server_state,
            clock=self._clock,
            quiet_seconds=self._options.quiet_seconds,
        )

    def check(self) -> None:
        """Raise TargetError if the process has ended."""
        self._check_alive("died")

    def log(self) -> tuple[str, ...]:
        """The last lines of its output; of a crash, its first lines."""
        with self._log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _LOG_BYTES_MAX))
            text = file.read().decode(errors="replace")
        lines = text.splitlines()
        start = next((n for n, line in enumerate(lines) if _CRASH.match(line)), -_LOG_LINES_MAX)
        return tuple(lines[start:][:_LOG_LINES_MAX])

    def _check_alive(self, otherwise: str) -> None:
        code = self._process.returncode
        if code is None:
            return
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        log = self.log()
        last = next((line for line in reversed(log) if line.strip()), "")
        cause = log[0] if log and _CRASH.match(log[0]) else last.strip()
        raise TargetError(f"{otherwise}: {how}{': ' if cause else ''}{cause}", log)

    def _server_state(self) -> tuple[int, int, int]:
        """Return counters that change as long as the scheduler is at work."""
        numbers = self._server.statistics()
        return (
            numbers.resource_version,
            numbers.watchers,
            numbers.requests_in_flight + numbers.undelivered_watch_events,
        )


@contextlib.contextmanager
def _reserved_port() -> Iterator[int]:
    """Reserve a free TCP port until the block ends, also from other suites on this machine.

    The UDP port of the same number is held meanwhile: only one process can, and the kernel frees it
    whatever ends the process. Raises TargetError.
    """
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
            if _takes(held, port) and _is_free(port):
                yield port
                return
    raise TargetError(f"no free port between {_PORTS.start} and {_PORTS.stop}")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        return _takes(probe, port)


def _takes(endpoint: socket.socket, port: int) -> bool:
    try:
        endpoint.bind(("", port))
    except OSError:
        return False
    return True


async def _until_unwatched(surroundings: Surroundings) -> None:
    """Return when the watches of an earlier process have ended, at the latest after a while."""
    deadline = surroundings.clock.monotonic() + _TERMINATE_SECONDS
    while (
        surroundings.fake_server.statistics().watchers and surroundings.clock.monotonic() < deadline
    ):
        await surroundings.clock.sleep(LOOK_SECONDS)


async def _stop(process: Process) -> None:
    """Terminate the process group, and kill it after a while."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _TERMINATE_SECONDS)
    # Processes that the command has started and left behind.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
