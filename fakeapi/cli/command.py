"""The command line: `kubesched-fakeapi` starts a server and runs it until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fakeapi.access.errors import SecurityError
from fakeapi.cli.actor_options import ActorOptions, actor_options
from fakeapi.cli.admission_options import admission_options
from fakeapi.cli.file_options import refuse_overwriting
from fakeapi.cli.security_options import security_options
from fakeapi.cli.state_options import StateOptions, state_options
from fakeapi.faults import FaultError
from fakeapi.loading.manifests import LoadError
from fakeapi.server import DEFAULT_EVENT_LOG_SIZE, FakeApiServer
from fakeapi.state import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakeapi.actors import Actors
    from fakeapi.admission.selection import Selection
    from fakeapi.security.options import Security

#: How many objects come before the newest are looked through, and how often the older ones are.
_GARBAGE_THRESHOLDS = (200_000, 50)
#: Half of what fits into SQLite's integers: whatever happens then, versions do not outgrow them.
_VERSION_MAX = 2**62


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=0,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 picks a free one.",
)
@click.option("--print-kubeconfig", is_flag=True, help="Write only a kubeconfig to stdout.")
@click.option(
    "--kubeconfig-out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a kubeconfig to this file.",
)
@click.option(
    "--load",
    "load",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Manifests to start with: a YAML or JSON file, a directory, or - for the standard input; "
    "what `kubectl get -o yaml` prints will do. May be repeated.",
)
@click.option(
    "--event-log-size",
    default=DEFAULT_EVENT_LOG_SIZE,
    show_default=True,
    type=click.IntRange(min=1),
    help="Changes of each resource that a watch may go back.",
)
@click.option(
    "--taint-nodes-by-condition",
    is_flag=True,
    help="Taint new nodes as not ready, as a cluster with a node controller does: short for "
    "--enable-admission-plugins=TaintNodesByCondition.",
)
@click.option(
    "--managed-fields/--no-managed-fields",
    default=True,
    show_default=True,
    help="Record who wrote which field; without, only of objects that are applied.",
)
@click.option(
    "--seed",
    type=int,
    help="Makes uids, generated names and faults by chance the same on every run.",
)
@click.option(
    "--initial-resource-version",
    type=click.IntRange(1, _VERSION_MAX),
    help="Where versions begin; by default at the time of day, so that they grow over restarts.",
)
@click.option(
    "--faults",
    "faults",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Faults to inject: YAML (fakeapi/faults/README.md), or a log of --fault-log whose faults "
    "are injected again, at the same requests. May be repeated.",
)
@click.option(
    "--fault-log",
    metavar="FILE.jsonl",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write each injected fault to this file, as JSON lines.",
)
@click.option(
    "--admin-endpoint/--no-admin-endpoint",
    default=True,
    show_default=True,
    help="Serve /_fakeapi/faults, where faults can be set and taken away.",
)
@actor_options
@admission_options
@state_options
@security_options
def command(
    *,
    host: str,
    port: int,
    print_kubeconfig: bool,
    kubeconfig_out: Path | None,
    load: tuple[Path, ...],
    event_log_size: int,
    taint_nodes_by_condition: bool,
    managed_fields: bool,
    seed: int | None,
    initial_resource_version: int | None,
    faults: tuple[Path, ...],
    fault_log: Path | None,
    admin_endpoint: bool,
    actors: ActorOptions,
    state: StateOptions,
    security: Security,
    admission: Selection,
) -> None:
    """Run a Kubernetes API server for schedulers and tests, until SIGTERM or SIGINT."""
    if print_kubeconfig and kubeconfig_out is not None:
        raise click.UsageError("--print-kubeconfig and --kubeconfig-out exclude each other")
    refuse_overwriting(
        [("--kubeconfig-out", kubeconfig_out), ("--fault-log", fault_log), *state.written],
        [
            *_named(("--load", load), ("--faults", faults), ("--stages", actors.stages)),
            *state.read,
            *security.files,
        ],
    )
    state.check()
    server = FakeApiServer(
        host=host,
        port=port,
        load=load,
        event_log_size=event_log_size,
        admission_plugins=admission.plugins,
        enable_admission_plugins=admission.enable,
        disable_admission_plugins=admission.disable,
        taint_nodes_by_condition=taint_nodes_by_condition,
        managed_fields=managed_fields,
        seed=seed,
        initial_resource_version=initial_resource_version,
        faults=faults,
        fault_log=fault_log,
        admin_endpoint=admin_endpoint,
        state=state.files,
        security=security,
    )
    with _abandoned_on_failure(server):
        running = actors.actors(server)
    # What is stored lives long and has no cycles: looking for garbage in it often is wasted time.
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        work = _run(server, running, state, to_stdout=print_kubeconfig, to_file=kubeconfig_out)
        runner.run(work)


def _named(*given: tuple[str, tuple[Path, ...]]) -> list[tuple[str, Path]]:
    """Each of the files with the flag it came by."""
    return [(flag, path) for flag, paths in given for path in paths]


@contextlib.contextmanager
def _abandoned_on_failure(server: FakeApiServer) -> Iterator[None]:
    """What goes wrong before the server is entered costs none of its files."""
    try:
        yield
    except BaseException:
        server.abandon()
        raise


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where there is one (CPython, but not on Windows): less work for each request."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _run(
    server: FakeApiServer,
    actors: Actors,
    state: StateOptions,
    *,
    to_stdout: bool,
    to_file: Path | None,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with server, actors, state.running(server, stop):
        if to_file is not None:
            server.write_kubeconfig(to_file)
        if to_stdout:
            click.echo(server.kubeconfig, nl=False)
        else:
            click.echo(server.url)
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    """The entry point: errors of use exit with 2, all others with 1 and one line on stderr."""
    try:
        command()
    except (LoadError, FaultError, StateError, SecurityError) as error:
        click.echo(f"kubesched-fakeapi: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        click.echo(f"kubesched-fakeapi: {what}", err=True)
        sys.exit(1)
