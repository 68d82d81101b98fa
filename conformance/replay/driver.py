"""Run a replay: an API server and a scheduler, each in a process of its own, and the history.

    start server --> start scheduler --> create nodes --> create pods --> settled --> list --> stop
                          |                  |  (16 at once; a watch records what happens)  |
                          +--- ends by itself ---> ProcessFailure        timeout ----------+

With `--time history` all writes are made at the history's times instead (`timed.py`).

Settled means that every pod is bound or reported unschedulable and no pod has changed for a while.
The server has a process of its own because all three parts need a core at times: in the driver's
process it would slow down the creation of pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ..api import ApiClient
from ..connection import Connection
from ..errors import ConformanceError, InputError, ReplayError, first_error
from ..format.reading import name_of
from .held import NODES, PODS, HeldNode, HeldPod
from .processes import Child, Usage, own_usage
from .recording import Recorder
from .timed import play_in_time
from .verify import Evidence, Violation, verify

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from ..api import Json
    from ..clock import Clock
    from .history import History, Write

#: Upstream's default is 50 requests a second: far below the capacity of one machine.
_REQUESTS_PER_SECOND: Final = 100_000
#: Large enough that a watch that falls behind need not list again.
_EVENT_LOG_SIZE: Final = 200_000
_START_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1
_CATCH_UP_SECONDS: Final = 30.0
_KUBECONFIG: Final = "{kubeconfig}"
_CONFIG: Final = "{config}"
#: Our own scheduler, in the replay's own interpreter. `-P` ignores a folder named `scheduler` in
#: the user's working directory.
KUBESCHED: Final = (
    *(sys.executable, "-P", "-m", "scheduler"),
    *("--kubeconfig", _KUBECONFIG, "--config", _CONFIG, "--secure-port", "0"),
)
_SERVER_COMMAND: Final = (sys.executable, "-P", "-m", "fakeapi")


@dataclass(frozen=True)
class Settings:
    """Options of a replay.

    `config` is a part of a KubeSchedulerConfiguration; upstream's defaults fill the rest.
    `target_command` is the scheduler's command line. Files replace `{kubeconfig}` and `{config}` in
    it; the configuration names the kubeconfig. Raises InputError without either placeholder.
    `timeout_seconds` covers everything from the first node to the end of scheduling, but for the
    time of a history that is played `in_time`.
    """

    target_command: tuple[str, ...] = KUBESCHED
    config: Json = field(default_factory=dict)
    concurrency: int = 16
    timeout_seconds: float = 600.0
    settle_seconds: float = 2.0
    in_time: bool = False

    def __post_init__(self) -> None:
        if not any(_KUBECONFIG in word or _CONFIG in word for word in self.target_command):
            raise InputError(
                f"--target-command: expected {_KUBECONFIG} or {_CONFIG} in it, or the scheduler "
                f"cannot find the API server: {' '.join(self.target_command)}"
            )


class Counts(NamedTuple):
    """The progress of a replay, in pods."""

    created: int
    bound: int
    unschedulable: int


@dataclass
class Timeline:
    """The times of the phases, in seconds of the clock."""

    started: float = 0.0
    ready: float = 0.0
    nodes_created: float = 0.0
    pods_created: float = 0.0
    settled: float = 0.0
    ended: float = 0.0


@dataclass
class Run:
    """The result of a replay. `missing` are pods without a decision at the timeout."""

    history: History
    settings: Settings
    recorder: Recorder
    evidence: Evidence = field(default_factory=lambda: Evidence((), (), ()))
    timeline: Timeline = field(default_factory=Timeline)
    usage: dict[str, Usage] = field(default_factory=dict)
    timed_out: bool = False
    missing: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    created: int = 0
    deleted: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)

    def note(self, write: Write) -> None:
        """Note a write of a history that is played in time."""
        is_pod, name = write.object["kind"] == "Pod", name_of(write.object)
        if write.is_creation:
            self.created += is_pod
        elif write.patch is None and is_pod:
            self.deleted.add(name)
        else:
            self.changed.add(name)

    @property
    def counts(self) -> Counts:
        """The progress of the run."""
        return Counts(self.created, self.recorder.bound, self.recorder.unschedulable)


async def replay(
    history: History,
    settings: Settings,
    *,
    clock: Clock,
    show: Callable[[Counts], None] = lambda _: None,
) -> Run:
    """Replay a history and verify the result. `show` gets the progress. Raises ReplayError."""
    run = Run(history, settings, Recorder((pod.name for pod in history.pods), clock))
    run.timeline.started = clock.now()
    with tempfile.TemporaryDirectory(prefix="kubesched-replay-") as folder:
        async with _process(run, "the API server", _server(Path(folder), clock)) as server:
            url = await server.first_line(_START_SECONDS)
            run.timeline.ready = clock.now()
            scheduler = _scheduler(Path(folder), settings, clock)
            async with (
                _process(run, "the scheduler", scheduler),
                ApiClient(Connection(url), connections_max=settings.concurrency + 1) as client,
            ):
                await _drive(run, client, server, scheduler, clock, show)
    run.timeline.ended = clock.now()
    run.usage["the replay"] = own_usage()
    run.violations = tuple(verify(history, run.evidence))
    return run


def _server(folder: Path, clock: Clock) -> Child:
    options = ("--kubeconfig-out", str(folder / "kubeconfig"))
    log_size = ("--event-log-size", str(_EVENT_LOG_SIZE))
    command = (*_SERVER_COMMAND, *options, *log_size)
    return Child("the API server", command, folder / "server.log", clock)


def _scheduler(folder: Path, settings: Settings, clock: Clock) -> Child:
    kubeconfig, config = str(folder / "kubeconfig"), folder / "scheduler.yaml"
    config.write_bytes(msgspec.yaml.encode(scheduler_config(kubeconfig, settings)))
    command = [
        word.replace(_KUBECONFIG, kubeconfig).replace(_CONFIG, str(config))
        for word in settings.target_command
    ]
    return Child("the scheduler", command, folder / "scheduler.log", clock)


def scheduler_config(kubeconfig: str, settings: Settings) -> Json:
    """Return the whole configuration: without a limit on requests or leader election."""
    return {
        **settings.config,
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": kubeconfig,
            "qps": _REQUESTS_PER_SECOND,
            "burst": _REQUESTS_PER_SECOND,
        },
        "leaderElection": {"leaderElect": False},
    }


@contextlib.asynccontextmanager
async def _process(run: Run, name: str, child: Child) -> AsyncIterator[Child]:
    """Run a process while the block runs; afterwards its usage is in the run."""
    try:
        yield child
    finally:
        run.usage[name] = await child.stop()


async def _drive(
    run: Run,
    client: ApiClient,
    server: Child,
    scheduler: Child,
    clock: Clock,
    show: Callable[[Counts], None],
) -> None:
    """Create the objects and wait, with watchers in the background; then list the result."""
    recorder = run.recorder
    await recorder.start(client)
    # Raised outside of `except*`, which before Python 3.11.4 wraps even a single error.
    failed: ConformanceError | None = None
    try:
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(recorder.run(client))
            shown = group.create_task(_report(run, clock, show))
            guards = [group.create_task(child.failure()) for child in (server, scheduler)]
            await _create_and_settle(run, client, clock)
            for guard in guards:
                guard.cancel()
            # The watchers have stopped before the lists are read.
            await scheduler.stop()
            nodes, pods = (
                await client.listing(NODES, HeldNode),
                await client.listing(PODS, HeldPod),
            )
            await _caught_up(recorder, pods.items, clock)
            watch.cancel()
            shown.cancel()
    except* ConformanceError as failures:
        failed = first_error(failures)
    if failed is not None:
        raise failed
    missing = recorder.undecided - run.deleted
    run.missing = tuple(pod.name for pod in run.history.pods if pod.name in missing)
    gone = frozenset(run.deleted | recorder.preempted)
    placements, changed = recorder.placements, frozenset(run.changed)
    run.evidence = Evidence(nodes.items, pods.items, placements, gone, changed)
    show(run.counts)


async def _create_and_settle(run: Run, client: ApiClient, clock: Clock) -> None:
    """Run the part that the timeout covers."""
    timeline, settings = run.timeline, run.settings
    for other in run.history.others:
        await client.create_unless_there(other)
    if settings.in_time:
        timeline.nodes_created = clock.now()
        await play_in_time(run.history, client, run.recorder, clock, on_write=run.note)
    try:
        async with asyncio.timeout(settings.timeout_seconds):
            if not settings.in_time:
                await _create_all(run, client, clock)
            timeline.pods_created = clock.now()
            run.recorder.undecided -= run.deleted
            await _settled(run.recorder, settings.settle_seconds, clock)
    except TimeoutError:
        run.timed_out = True
    timeline.settled = clock.now()
    timeline.nodes_created = timeline.nodes_created or timeline.settled
    timeline.pods_created = timeline.pods_created or timeline.settled


async def _create_all(run: Run, client: ApiClient, clock: Clock) -> None:
    """Create the nodes and then the pods, as fast as possible."""
    concurrency = run.settings.concurrency
    await _each(client.create, (node.object for node in run.history.nodes), concurrency)
    run.timeline.nodes_created = clock.now()

    async def create_pod(pod: Json) -> None:
        await client.create(pod)
        run.created += 1

    await _each(create_pod, (pod.object for pod in run.history.pods), concurrency)


async def _each(
    work: Callable[[Json], Awaitable[object]], objects: Iterable[Json], concurrency: int
) -> None:
    """Apply a function to each object, some at a time, started in order."""
    waiting = iter(objects)

    async def take() -> None:
        for obj in waiting:  # shared: each worker takes the next
            await work(obj)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(take())


async def _settled(recorder: Recorder, settle_seconds: float, clock: Clock) -> None:
    """Return when every pod has a decision and no pod has changed for a while."""
    while recorder.undecided or clock.now() - recorder.last_change_seconds < settle_seconds:
        await clock.sleep(_POLL_SECONDS)


async def _caught_up(recorder: Recorder, pods: Sequence[HeldPod], clock: Clock) -> None:
    """Return when the watch has reached the state of the list. Raises ReplayError."""
    newest = max((int(pod.metadata.resource_version) for pod in pods), default=0)
    deadline = clock.now() + _CATCH_UP_SECONDS
    while recorder.version < newest:
        if clock.now() > deadline:
            raise ReplayError(f"the watch of pods has fallen behind: {recorder.version}, {newest}")
        await clock.sleep(_POLL_SECONDS)


async def _report(run: Run, clock: Clock, show: Callable[[Counts], None]) -> None:
    while True:
        show(run.counts)
        await clock.sleep(_POLL_SECONDS)
