"""The command `kubesched-fakeapi`: start a server, run it until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import math
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fakeapi.access.users import SecurityError
from fakeapi.admission.selection import AdmissionError
from fakeapi.cli.actor_options import ActorOptions
from fakeapi.cli.options import click_options, files_of, values_of
from fakeapi.faults import FaultError, FaultOptions
from fakeapi.kinds.built_in import RuntimeConfigError
from fakeapi.loading.manifests import LoadError
from fakeapi.security.options import Security
from fakeapi.server import FakeApiServer, ServerOptions
from fakeapi.state import StateError
from fakeapi.state.keeper import StateFiles
from fakeapi.state.recording import check_recording
from fakeapi.types.option import file_option, option

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

#: The standard input, which is no file of that name.
_STANDARD_INPUT: Final = Path("-")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """Port, first objects and seed of a server, and the output of the command."""

    port: int = option(0, "Port to listen on; 0 picks a free one.", minimum=0, maximum=65535)
    print_kubeconfig: bool = option(False, "Write only a kubeconfig to stdout.")
    kubeconfig_out: Path | None = file_option("Write a kubeconfig to this file.", written=True)
    kubeconfig_for: tuple[str, ...] = option(
        (),
        "Write the kubeconfig of a user to this file, with a new certificate if the server has "
        "--tls, else with the user's token. May be repeated.",
        metavar="USER=FILE",
    )
    load: tuple[Path, ...] = option(
        (),
        "Manifests to start with: a YAML or JSON file, a directory, or - for the standard input; "
        "what `kubectl get -o yaml` prints will do. May be repeated.",
        type=Path,
        metavar="FILE",
    )
    seed: int | None = option(
        None, "Makes uids, generated names and random faults the same on every run.", type=int
    )

    @property
    def kubeconfigs_of_users(self) -> list[tuple[str, Path]]:
        """Pairs of a user and a file. Raises click.UsageError."""
        pairs = []
        for text in self.kubeconfig_for:
            user, _, file = text.partition("=")
            if not user or not file:
                raise click.UsageError(f"--kubeconfig-for: expected USER=FILE, got {text}")
            pairs.append((user, Path(file)))
        return pairs


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """A recording to replay once the server listens."""

    replay: Path | None = file_option(
        "Repeat the changes of a recording, once the server listens.", metavar="FILE.jsonl"
    )
    speed: float | None = option(
        None,
        "Divide the pauses of the recording by this number, by default 1; 0 leaves none.",
        type=float,
        minimum=0,
    )

    def check(self) -> None:
        """Raise click.UsageError for an impossible speed."""
        if self.speed is not None and self.replay is None:
            raise click.UsageError("--speed is for --replay")
        if self.speed is not None and not math.isfinite(self.speed):
            raise click.UsageError("--speed: expected a finite number; 0 is all at once")


_GROUPS: Final = {
    "start": StartOptions,
    "options": ServerOptions,
    "faults": FaultOptions,
    "state": StateFiles,
    "replay": ReplayOptions,
    "security": Security,
    "actors": ActorOptions,
}


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]}, params=click_options(_GROUPS)
)
@click.version_option(package_name="kubesched", message="kubesched-fakeapi %(version)s")
def command(**given: object) -> None:
    """Run a Kubernetes API server for schedulers and tests, until SIGTERM or SIGINT."""
    values = values_of(_GROUPS, given)
    of_users = (("--kubeconfig-for", path) for _, path in values["start"].kubeconfigs_of_users)
    written = (*files_of(values, written=True), *of_users)
    _refuse_overwriting(written, files_of(values, written=False))
    _serve(**values)


def _serve(
    *,
    start: StartOptions,
    replay: ReplayOptions,
    state: StateFiles,
    actors: ActorOptions,
    **options: Any,
) -> None:
    """Run a server; the other options are its own."""
    if start.print_kubeconfig and start.kubeconfig_out is not None:
        raise click.UsageError("--print-kubeconfig and --kubeconfig-out exclude each other")
    if state.keep_uids and not start.load:
        raise click.UsageError("--keep-uids is for --load")
    replay.check()
    actors.check()
    if replay.replay is not None:
        check_recording(replay.replay)
    try:
        server = FakeApiServer(
            port=start.port, load=start.load, seed=start.seed, state=state, **options
        )
    except (AdmissionError, RuntimeConfigError) as error:
        raise click.UsageError(f"--{error}") from error
    running = actors.actors(server)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_run(server, running, start, replay))


def _refuse_overwriting(
    written: Iterable[tuple[str, Path]], read: Iterable[tuple[str, Path]]
) -> None:
    """Refuse to write a file that another flag names, before any file is opened.

    Both are pairs of a flag and its file. Raises click.UsageError.
    """
    names: dict[Path, str] = {}
    for flag, path in read:
        if path != _STANDARD_INPUT:
            names.setdefault(path.resolve(), flag)
    for flag, path in written:
        if path.exists() and not path.is_file():
            continue  # /dev/stderr and the like may be written to by several
        other = names.setdefault(path.resolve(), flag)
        if other != flag:
            raise click.UsageError(f"{flag} would write over {path}, which is the file of {other}")


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop, which is faster, if uvloop is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _run(
    server: FakeApiServer,
    actors: AbstractAsyncContextManager[object],
    start: StartOptions,
    replay: ReplayOptions,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with server, actors, _keeping_state(server, replay, stop):
        if start.kubeconfig_out is not None:
            server.write_kubeconfig(start.kubeconfig_out)
        for user, path in start.kubeconfigs_of_users:
            server.write_kubeconfig(path, user=user)
        if start.print_kubeconfig:
            click.echo(server.kubeconfig, nl=False)
        else:
            click.echo(server.url)
        sys.stdout.flush()
        await stop.wait()


@contextlib.asynccontextmanager
async def _keeping_state(
    server: FakeApiServer, replay: ReplayOptions, stop: asyncio.Event
) -> AsyncIterator[None]:
    """Save snapshots on SIGUSR1, replay a recording, and stop if the state cannot be kept.

    Raises StateError at the end for the first failure.
    """
    failures: list[StateError] = []

    def fail(error: StateError) -> None:
        failures.append(error)
        stop.set()

    async def play(path: Path) -> None:
        try:
            await server.replay(path, speed=1.0 if replay.speed is None else replay.speed)
        except StateError as error:
            fail(error)

    server.state.on_failure = fail
    if server.state.files.snapshot is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _save, server)
    playing = asyncio.ensure_future(play(replay.replay)) if replay.replay is not None else None
    try:
        yield
    finally:
        if playing is not None:
            playing.cancel()
            await asyncio.wait([playing])
    if failures:
        raise failures[0]


def _save(server: FakeApiServer) -> None:
    """Save a snapshot on a signal; a failure does not stop the server."""
    try:
        server.save_snapshot()
    except StateError as error:
        click.echo(f"kubesched-fakeapi: {error}", err=True)


def run() -> None:
    """Run the command: usage errors exit with 2, others with 1 and one line on stderr."""
    try:
        command()
    except (LoadError, FaultError, StateError, SecurityError) as error:
        click.echo(f"kubesched-fakeapi: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        place = error.filename or ("standard output" if error.errno == errno.ENOSPC else "")
        problem = ": ".join(filter(None, (place, error.strerror or str(error))))
        if error.errno == errno.EADDRINUSE:
            problem += "; --port 0 picks a free one"
        click.echo(f"kubesched-fakeapi: {problem}", err=True)
        sys.exit(1)
