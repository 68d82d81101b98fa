"""The scheduler under test: started against a server, asked whether it has come to rest, stopped.

    TargetOptions --target_kind--> InProcessKind | CommandKind --run--> Target

A target in this process shares the suite's virtual clock, and "at rest" is exact: no task can run,
no request is under way, every watch has delivered all there is. All traffic is real HTTP all the
same. A target that is a command runs in real time, and "at rest" means that it has written nothing
for a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from .errors import InputError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from fakeapi import FakeApiServer

    from .api import Json
    from .case import Case
    from .clock import Clock

__all__ = [
    "OUR_SCHEDULER",
    "Surroundings",
    "Target",
    "TargetKind",
    "TargetOptions",
    "configuration",
    "target_kind",
]

#: The scheduler this suite comes with, by reference: the suite itself knows no scheduler.
OUR_SCHEDULER: Final = "scheduler.testing.in_process:run_in_process"


class TargetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to test, and how patiently. `command` is a template; without it `in_process` is run.

    `quiet_seconds` without a write count as rest; `patience_seconds` is how long an expectation may
    take to come true; both matter to commands only, as do the others. In `metrics_url`, `{port}` is
    the port that the command was given.
    """

    command: str = ""
    in_process: str = OUR_SCHEDULER
    quiet_seconds: float = 0.5
    patience_seconds: float = 10.0
    start_seconds_max: float = 60.0
    real_seconds_max: float = 20.0
    metrics_url: str = "https://127.0.0.1:{port}/metrics"


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a scheduler is started with."""

    server: FakeApiServer
    clock: Clock
    directory: Path
    config: Json | None
    seed: int
    reads_metrics: bool = False
    """Whether the case will read the scheduler's metrics: it should serve them, if it can."""


class Target(Protocol):
    """A scheduler that is running. All methods raise TargetError if it is not any more."""

    @property
    def patience_seconds(self) -> float:
        """How long, in real time, an expectation may take to come true after a settle."""
        ...

    @property
    def settles_exactly(self) -> bool:
        """Whether settling is exact, and so cheap that it can be done after every write."""
        ...

    @property
    def metrics_url(self) -> str | None:
        """Where it serves its metrics, if it does; asked for only by cases that read them."""
        ...

    async def settle(self) -> None:
        """Return once the scheduler has done all it can. Raises NotSettled if it never has."""
        ...

    async def advance(self, seconds: float) -> None:
        """Let time pass for it."""
        ...

    def check(self) -> None:
        """Raise TargetError if the scheduler has died, or says that it is in disorder."""
        ...

    def log(self) -> tuple[str, ...]:
        """The last lines of what it says about itself."""
        ...


class TargetKind(Protocol):
    """Starts targets of one kind."""

    def why_not(self, case: Case) -> str | None:
        """Why a case cannot be run on such a target; None if it can."""
        ...

    def new_clock(self) -> Clock:
        """The clock for a case: the server and, if it may, the target run on it."""
        ...

    def run(self, surroundings: Surroundings) -> AbstractAsyncContextManager[Target]:
        """Run the scheduler until the block is left. Raises TargetError if it does not start."""
        ...


def target_kind(options: TargetOptions) -> TargetKind:
    """The kind of target that is asked for. Raises InputError for one that cannot be."""
    from .command_target import CommandKind
    from .in_process_target import InProcessKind

    if options.command:
        return CommandKind(options)
    module, _, function = options.in_process.partition(":")
    if not module or not function:
        raise InputError(f"--in-process: expected MODULE:FUNCTION, got {options.in_process!r}")
    return InProcessKind(module, function)


def configuration(config: Json | None, kubeconfig: Path) -> Json:
    """A whole KubeSchedulerConfiguration: the case's part and how to reach the server.

    Nobody is elected, unless the case asks for it.
    """
    own = config or {}
    connection = own.get("clientConnection")
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **own,
        "clientConnection": {
            **(connection if isinstance(connection, dict) else {}),
            "kubeconfig": str(kubeconfig),
            # kube-scheduler would send protobuf, which the fake API server does not read.
            "contentType": "application/json",
            "acceptContentTypes": "application/json",
        },
        "leaderElection": own.get("leaderElection", {"leaderElect": False}),
    }
