"""The scheduler under test: started for a server, observed until it is idle, stopped.

    TargetOptions --target_kind--> InProcessKind | CommandKind --run--> Target

A target in this process shares the suite's virtual clock, and "idle" is exact: no task can run, no
request is in flight, every watch has delivered all events. All traffic is real HTTP. A target that
is a command runs in real time, and "idle" means that it has not written for a while.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from fakeapi import FakeApiServer, HandledRequest, Kind, ObjectChange, ServerOptions

from ..api import ApiClient, Json
from ..connection import Connection
from ..errors import InputError
from ..format.steps import FIRST_SCHEDULER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from pathlib import Path

    from ..clock import Clock
    from ..format.case import Case

#: Before a version: our scheduler as it decides in that version.
OUR_SCHEDULER_AS: Final = "kubesched@"
#: Our scheduler, by reference: the suite imports no scheduler.
OUR_SCHEDULER: Final = "scheduler.testing.in_process:run_in_process"
#: The versions as which our scheduler decides.
OUR_VERSIONS: Final = ("1.34", "1.35", "1.36", "1.37")


#: Rules that taint devices, in the versions that kube-schedulers but v1.36 read. Without the list
#: kube-scheduler v1.37 does not start.
_TAINT_RULES: Final = (
    "resource.k8s.io/v1/devicetaintrules=true",
    "resource.k8s.io/v1alpha3/devicetaintrules=true",
)
#: As in upstream's scheduler tests: no controller would remove the finalizers.
_OPTIONS: Final = ServerOptions(
    disable_admission_plugins=["StorageObjectInUseProtection", "PodGroupProtection"],
    runtime_config=_TAINT_RULES,
)
#: The kinds behind alpha gates have alpha versions, in v1.35 others.
_ALPHA_OPTIONS: Final = dataclasses.replace(
    _OPTIONS,
    runtime_config=(
        *_TAINT_RULES,
        "api/alpha=true",
        "scheduling.k8s.io/v1alpha1/workloads=true",
    ),
)


class TargetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The target and its time limits.

    `command` is a template, `kubeconfig` the file of a running cluster with a scheduler, `context`
    a context in the file; without command and kubeconfig `in_process` is run: `MODULE:FUNCTION`, or
    `kubesched@1.35` for our scheduler as it decides in that version.

    `plugins` (`module:Class`) are added to the profiles of the scheduler in process.
    `quiet_seconds` without a write count as idle; an expectation must hold within
    `patience_seconds`. Both, and the fields below, are for commands only. In `metrics_url`,
    `{port}` is the command's port.
    """

    command: str = ""
    kubeconfig: str = ""
    context: str = ""
    in_process: str = OUR_SCHEDULER
    plugins: tuple[str, ...] = ()
    quiet_seconds: float = 0.5
    patience_seconds: float = 10.0
    #: Less than the default time limit of a case, so that the reason is the missing watch.
    start_seconds_max: float = 40.0
    real_seconds_max: float = 20.0
    metrics_url: str = "https://127.0.0.1:{port}/metrics"

    def __post_init__(self) -> None:
        given: tuple[object, ...] = self.plugins
        classes = [plugin for plugin in given if isinstance(plugin, type)]
        if classes:
            names = ", ".join(f'"{each.__module__}:{each.__qualname__}"' for each in classes)
            raise TypeError(f'plugins: expected texts "module:Class", got a class; write {names}')

    @property
    def scheduler_version(self) -> str:
        """The version as which our scheduler decides; empty for its default."""
        is_named = self.in_process.startswith(OUR_SCHEDULER_AS)
        return self.in_process.removeprefix(OUR_SCHEDULER_AS) if is_named else ""

    @property
    def is_ours(self) -> bool:
        """True if our scheduler runs in this process."""
        is_named = self.in_process == OUR_SCHEDULER or bool(self.scheduler_version)
        return is_named and not self.in_real_time

    @property
    def in_real_time(self) -> bool:
        """True if the scheduler has a clock of its own."""
        return bool(self.command or self.kubeconfig)


class Source(Protocol):
    """The API server of a case, as far as its changes and requests can be followed."""

    @property
    def url(self) -> str: ...

    @property
    def kinds(self) -> Iterable[Kind]:
        """The kinds of objects that have another form in changes than in the API."""
        ...

    def listening(
        self,
        *,
        on_change: Callable[[ObjectChange], None],
        on_request: Callable[[HandledRequest], None],
    ) -> AbstractContextManager[None]:
        """Call back with each change and each request while the block runs."""
        ...


class Served(NamedTuple):
    """The API server of a case: a client, and the server itself if the suite has started it.

    With `shares_nodes` there are nodes that the case has not made, and its pods avoid them.
    """

    api: ApiClient
    source: Source
    server: FakeApiServer | None = None
    shares_nodes: bool = False


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The surroundings in which a scheduler is started.

    `name` differs for schedulers that run together, as does `directory`. `is_alone` is false if
    others run already.
    """

    #: None in a running cluster.
    server: FakeApiServer | None
    clock: Clock
    directory: Path
    config: Json | None
    gates: Mapping[str, bool]
    seed: int
    #: Plugins of the case's own, for a scheduler in this process.
    plugins: tuple[str, ...] = ()
    name: str = FIRST_SCHEDULER
    is_alone: bool = True

    @property
    def fake_server(self) -> FakeApiServer:
        """The server, which a scheduler that the suite starts has in any case."""
        assert self.server is not None, "the suite starts a server before it starts a scheduler"
        return self.server


class Target(Protocol):
    """A running scheduler. All methods raise TargetError if it has ended."""

    @property
    def patience_seconds(self) -> float:
        """The real time within which an expectation must hold after a settle."""
        ...

    @property
    def settles_exactly(self) -> bool:
        """True if settling is exact, and cheap enough to do after every write."""
        ...

    @property
    def metrics_url(self) -> str | None:
        """The URL of the scheduler's metrics, read only for cases that need them."""
        ...

    async def settle(self) -> None:
        """Return when the scheduler has nothing left to do. Raises NotSettled after some time."""
        ...

    def check(self) -> None:
        """Raise TargetError if the scheduler has ended or violates its invariants."""
        ...

    def log(self) -> tuple[str, ...]:
        """The last lines of the scheduler's log."""
        ...


class TargetKind(Protocol):
    """Starts targets of one kind."""

    def why_not(self, case: Case) -> str | None:
        """Return a reason why the case cannot be run on such a target, or None."""
        ...

    def new_clock(self) -> Clock:
        """Return the clock of a case, for the server and, if possible, the target."""
        ...

    def serve(self, case: Case, *, clock: Clock, seed: int) -> AbstractAsyncContextManager[Served]:
        """Serve an API without objects while the block runs."""
        ...

    def run(self, surroundings: Surroundings) -> AbstractAsyncContextManager[Target]:
        """Run the scheduler while the block runs. Raises TargetError if it does not start."""
        ...


@contextlib.asynccontextmanager
async def serve_fake_server(case: Case, *, clock: Clock, seed: int) -> AsyncIterator[Served]:
    """Run an API server of a case's own while the block runs."""
    options = _ALPHA_OPTIONS if case.gates else _OPTIONS
    async with (
        FakeApiServer(clock=clock, seed=seed, options=options) as server,
        ApiClient(Connection(server.url)) as api,
    ):
        yield Served(api, server, server)


def read_configuration(path: Path, *, option: str) -> Json:
    """Read a KubeSchedulerConfiguration, or a part of one. Raises InputError."""
    try:
        return msgspec.yaml.decode(path.read_bytes(), type=Json)
    except OSError as error:
        raise InputError(f"{option}: {path}: {error.strerror or error}") from error
    except msgspec.MsgspecError as error:
        raise InputError(f"{option}: {path}: {error}") from error


def configuration(config: Json | None, kubeconfig: Path) -> Json:
    """Return a whole KubeSchedulerConfiguration: the case's part, and the connection.

    Leader election is off unless the case enables it.
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
        },
        "leaderElection": own.get("leaderElection", {"leaderElect": False}),
    }
