"""The command `kubesched`: a scheduler process with kube-scheduler's flags.

An error at the start is one line on standard error and a non-zero exit, and so is a lost lease; a
signal to stop is a clean exit.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Final, NoReturn

import click

from scheduler.api import field
from scheduler.assembly.app import SchedulerApp
from scheduler.assembly.profiles import find_plugins_in_working_directory
from scheduler.cache import CacheCorruptedError
from scheduler.client import ClientError, connect
from scheduler.clock import SystemClock
from scheduler.config import (
    ConfigError,
    default_config,
    enabled_gates,
    load_config,
    validate_config,
)
from scheduler.config.feature_gates import parse_settings
from scheduler.flags.leader_election import leader_election_flags
from scheduler.flags.run import run_flags
from scheduler.flags.serving import serving_flags
from scheduler.flags.types import VERBOSITY
from scheduler.leader_election.elector import LeaderElectionLost
from scheduler.plugins import SCHEME
from scheduler.runtime import FrameworkError, PluginSetupError
from scheduler.serving.options import ServingError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from pathlib import Path

    from scheduler.client import Connection
    from scheduler.clock import Clock
    from scheduler.config import FeatureGates, KubeSchedulerConfiguration
    from scheduler.config.duration import Duration
    from scheduler.flags.leader_election import ElectionOverrides
    from scheduler.flags.run import RunOptions
    from scheduler.framework.interface import Plugin
    from scheduler.serving.options import ServingOptions

#: Errors shown in one line; any other exception is a bug and shows its traceback.
_FAILURES: Final = (
    ClientError,
    ConfigError,
    FrameworkError,
    CacheCorruptedError,
    LeaderElectionLost,
    ServingError,
)

_log: Final = logging.getLogger(__name__)

#: The verbosity from which pods, waits for the rate limit and certificates have their lines.
_DETAILED_VERBOSITY: Final = 2
_DETAILED: Final = (
    "scheduler.cycle",
    "scheduler.preemption",
    "scheduler.client.rest",
    "scheduler.serving.tls",
)
_DEBUG_VERBOSITY: Final = 4


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@run_flags
@leader_election_flags
@serving_flags
@click.option("-v", "--v", "verbosity", type=VERBOSITY, default=0, help="Log verbosity, 0 to 4.")
@click.version_option(package_name="kubesched", message="kubesched %(version)s (Kubernetes v1.36)")
def main(
    options: RunOptions, election: ElectionOverrides, serving: ServingOptions, verbosity: int
) -> None:
    """Schedule pods as kube-scheduler v1.36 does."""
    _configure_logging(verbosity)
    find_plugins_in_working_directory()
    clock = SystemClock()
    try:
        serving.validate()
        gates = enabled_gates(parse_settings(options.feature_gates))
        config = _configuration(options.config, election, gates)
        connection = connect(
            kubeconfig=options.kubeconfig or config.client_connection.kubeconfig,
            master=options.master,
            clock=clock,
        )
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run(config, connection, options, serving, clock, gates))
    except _FAILURES as error:
        # Profiles come from the file; plugins of the command line are refused before.
        is_of_file = isinstance(error, PluginSetupError) and str(error).startswith("initializing")
        file = f"{options.config}: " if is_of_file and options.config is not None else ""
        click.echo(f"kubesched: {file}{error}", err=True)
        raise SystemExit(1) from error


def run(*, plugins: Sequence[type[Plugin] | str] = (), args: Sequence[str] | None = None) -> None:
    """Run a scheduler with plugins of your own; `args` is the command line.

    Without `args` it is the process's own.
    """
    # The command line cannot hold classes, so that they are click's context object.
    main.main(args=None if args is None else list(args), prog_name="kubesched", obj=tuple(plugins))


def _plugin_classes() -> tuple[type[Plugin] | str, ...]:
    return click.get_current_context().find_object(tuple) or ()


def _configuration(
    path: Path | None, election: ElectionOverrides, gates: FeatureGates
) -> KubeSchedulerConfiguration:
    """Return the configuration of the file and the flags. Raises `ConfigError`."""
    scheme = SCHEME._replace(gates=gates)
    config = election.applied_to(load_config(path, scheme) if path else default_config(scheme))
    errors: list[Exception] = list(validate_config(config, scheme))
    if config.extenders:
        errors.append(field.forbidden("extenders", "HTTP extenders are not built yet"))
    if errors:
        raise ConfigError(f"{path}: {field.aggregate(errors)}" if path else field.aggregate(errors))
    return config


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop if it is installed (CPython, not on Windows): cheaper requests."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _run(
    config: KubeSchedulerConfiguration,
    connection: Connection,
    options: RunOptions,
    serving: ServingOptions,
    clock: Clock,
    gates: FeatureGates,
) -> None:
    app = SchedulerApp(
        config,
        connection,
        clock=clock,
        plugins=(*_plugin_classes(), *options.plugins),
        seed=options.seed,
        tie_break=options.tie_break,
        max_in_unschedulable_pods_seconds=options.pod_max_in_unschedulable_pods_duration.seconds,
        feature_gates=gates,
    )
    stopping = asyncio.Event()
    if serving.enabled:
        work = _serve_and_run(serving, config, app, clock, stopping)
    else:
        work = app.run()
    await _until_stopped(app, work, stopping, options.check_cache_every)


async def _serve_and_run(
    serving: ServingOptions,
    config: KubeSchedulerConfiguration,
    app: SchedulerApp,
    clock: Clock,
    stopping: asyncio.Event,
) -> NoReturn:
    # Imported here, so that a process that serves nothing does not load the server.
    from scheduler.serving.serve import serve_securely

    async with serve_securely(serving, config, app, clock=clock, is_shutting_down=stopping.is_set):
        await app.run()
    raise AssertionError("the scheduler never ends by itself")


async def _until_stopped(
    app: SchedulerApp,
    work: Coroutine[None, None, NoReturn],
    stopping: asyncio.Event,
    check_cache_every: Duration | None,
) -> None:
    """Run until SIGTERM or SIGINT; raise the failure that ended the scheduler.

    SIGUSR2 compares the cache with the API's view, and writes cache and queue to the log.
    """
    running = asyncio.ensure_future(work)

    def stop() -> None:
        stopping.set()
        running.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGUSR2, app.dump)
    checks = None
    if check_cache_every is not None:
        checks = asyncio.ensure_future(app.compare_cache_every(check_cache_every.seconds))
    try:
        await running
    except asyncio.CancelledError:
        _log.info("Requested to terminate, exiting")
    except BaseExceptionGroup as group:
        known, bugs = group.split(_FAILURES)
        if bugs is not None or known is None:
            raise
        failure = _first(known)
        if isinstance(failure, LeaderElectionLost):
            _log.error("Leaderelection lost")
        raise failure from group
    finally:
        if checks is not None:
            checks.cancel()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def _configure_logging(verbosity: int) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname).1s %(name)s: %(message)s")
    is_debug = verbosity >= _DEBUG_VERBOSITY
    logging.getLogger("scheduler").setLevel(logging.DEBUG if is_debug else logging.INFO)
    if is_debug:
        logging.getLogger().setLevel(logging.DEBUG)
    if verbosity < _DETAILED_VERBOSITY:
        for name in _DETAILED:
            logging.getLogger(name).setLevel(logging.WARNING)
