"""The command `kubesched-fakeapi`: start a server, run it until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fakeapi.access.users import SecurityError
from fakeapi.admission.selection import AdmissionError
from fakeapi.cli.actor_options import ActorOptions, actor_options
from fakeapi.cli.options import (
    FAULT_OPTIONS,
    SECURITY_OPTIONS,
    SERVER_OPTIONS,
    STATE_OPTIONS,
    StateOptions,
    fault_options_of,
    security_of,
    server_options_of,
    state_options_of,
)
from fakeapi.faults import FaultError
from fakeapi.kinds.built_in import RuntimeConfigError
from fakeapi.loading.manifests import LoadError
from fakeapi.server import FakeApiServer
from fakeapi.state import StateError
from fakeapi.state.recording import check_recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

#: The standard input, which is no file of that name.
_STANDARD_INPUT: Final = Path("-")


_OPTIONS: Final = [
    click.Option(
        ["--port"],
        default=0,
        show_default=True,
        type=click.IntRange(0, 65535),
        help="Port to listen on; 0 picks a free one.",
    ),
    click.Option(["--print-kubeconfig"], is_flag=True, help="Write only a kubeconfig to stdout."),
    click.Option(
        ["--kubeconfig-out"],
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write a kubeconfig to this file.",
    ),
    click.Option(
        ["--load"],
        metavar="FILE",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Manifests to start with: a YAML or JSON file, a directory, or - for the standard "
        "input; what `kubectl get -o yaml` prints will do. May be repeated.",
    ),
    click.Option(
        ["--seed"],
        type=int,
        help="Makes uids, generated names and random faults the same on every run.",
    ),
]


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[*_OPTIONS, *SERVER_OPTIONS, *FAULT_OPTIONS, *STATE_OPTIONS, *SECURITY_OPTIONS],
)
@click.version_option(package_name="kubesched", message="kubesched-fakeapi %(version)s")
@actor_options
def command(
    *,
    port: int,
    print_kubeconfig: bool,
    kubeconfig_out: Path | None,
    load: tuple[Path, ...],
    seed: int | None,
    actors: ActorOptions,
    **values: Any,
) -> None:
    """Run a Kubernetes API server for schedulers and tests, until SIGTERM or SIGINT."""
    if print_kubeconfig and kubeconfig_out is not None:
        raise click.UsageError("--print-kubeconfig and --kubeconfig-out exclude each other")
    read = [("--load", load), ("--faults", values["faults"])]
    options, faults = server_options_of(values), fault_options_of(values)
    security, state = security_of(values), state_options_of(values, loads=bool(load))
    _refuse_overwriting(
        [("--kubeconfig-out", kubeconfig_out), ("--fault-log", faults.log), *state.written],
        [
            *((flag, path) for flag, paths in read for path in paths),
            *state.read,
            *security.files,
        ],
    )
    if state.replay is not None:
        check_recording(state.replay)
    try:
        server = FakeApiServer(
            port=port,
            load=load,
            seed=seed,
            faults=faults,
            security=security,
            state=state.files,
            options=options,
        )
    except (AdmissionError, RuntimeConfigError) as error:
        raise click.UsageError(f"--{error}") from error
    running = actors.actors(server)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        work = _run(server, running, state, to_stdout=print_kubeconfig, to_file=kubeconfig_out)
        runner.run(work)


def _refuse_overwriting(
    written: Iterable[tuple[str, Path | None]], read: Iterable[tuple[str, Path | None]]
) -> None:
    """Refuse to write a file that another flag names, before any file is opened.

    Both are pairs of a flag and its file, None without one. Raises click.UsageError.
    """
    names: dict[Path, str] = {}
    for flag, path in read:
        if path is not None and path != _STANDARD_INPUT:
            names.setdefault(path.resolve(), flag)
    for flag, path in written:
        if path is None or (path.exists() and not path.is_file()):
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
    state: StateOptions,
    *,
    to_stdout: bool,
    to_file: Path | None,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with server, actors, _keeping_state(server, state, stop):
        if to_file is not None:
            server.write_kubeconfig(to_file)
        if to_stdout:
            click.echo(server.kubeconfig, nl=False)
        else:
            click.echo(server.url)
        sys.stdout.flush()
        await stop.wait()


@contextlib.asynccontextmanager
async def _keeping_state(
    server: FakeApiServer, state: StateOptions, stop: asyncio.Event
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
            await server.replay(path, speed=state.speed)
        except StateError as error:
            fail(error)

    server.state.on_failure = fail
    if state.files.snapshot is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _save, server)
    playing = asyncio.ensure_future(play(state.replay)) if state.replay is not None else None
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
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        click.echo(f"kubesched-fakeapi: {what}", err=True)
        sys.exit(1)
