"""The command `kubesched`: kube-scheduler's flags, one scheduler process.

Whatever is wrong at the start is one line on standard error and a non-zero exit, and so is the loss
of the lead; a signal to stop is a clean exit.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from scheduler.api import field
from scheduler.assembly.app import SchedulerApp
from scheduler.assembly.profiles import find_plugins_in_working_directory
from scheduler.cache import CacheCorruptedError
from scheduler.client import ClientError, connect
from scheduler.clock import SystemClock
from scheduler.config import ConfigError, default_config, load_config, validate_config
from scheduler.config.duration import Duration
from scheduler.flags.leader_election import leader_election_flags
from scheduler.flags.serving import serving_flags
from scheduler.flags.types import DURATION, VERBOSITY
from scheduler.leader_election.elector import LeaderElectionLost
from scheduler.plugins import SCHEME
from scheduler.queue import QueueError
from scheduler.runtime import FrameworkError
from scheduler.serving.options import ServingError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from scheduler.client import Connection
    from scheduler.clock import Clock
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.flags.leader_election import ElectionOverrides
    from scheduler.framework.interface import Plugin
    from scheduler.serving.options import ServingOptions

#: What can be said in one line; everything else is a bug, and shows its traceback.
_FAILURES: Final = (
    ClientError,
    ConfigError,
    FrameworkError,
    QueueError,
    CacheCorruptedError,
    LeaderElectionLost,
    ServingError,
)

_LEVELS: Final = (logging.WARNING, logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--kubeconfig", metavar="FILE", default="", help="How to reach the API server.")
@click.option("--master", metavar="URL", default="", help="The API server's address.")
@click.option(
    "--config", metavar="FILE", type=click.Path(path_type=Path), help="KubeSchedulerConfiguration."
)
@click.option(
    "--plugin",
    "plugins",
    metavar="MODULE:CLASS",
    multiple=True,
    help="A plugin of your own, or the name of an installed one; enabled in every profile that "
    "does not mention it. May be given more than once.",
)
@click.option(
    "--tie-break",
    type=click.Choice(["random", "first"]),
    default="random",
    show_default=True,
    help="Which of several best nodes to take.",
)
@click.option("--seed", type=int, help="Makes chance repeatable.")
@click.option(
    "--check-cache-every",
    metavar="DURATION",
    type=DURATION,
    callback=lambda context, option, duration: _more_than_nothing(duration),
    help="Compare the cache with the API's view so often, when idle, and log what differs.",
)
@click.option(
    "--pod-max-in-unschedulable-pods-duration",
    metavar="DURATION",
    type=DURATION,
    default="5m",
    show_default=True,
    help="A pod that has waited so long for an event is tried again all the same. Deprecated.",
)
@leader_election_flags
@serving_flags
@click.option("-v", "--v", "verbosity", type=VERBOSITY, default=0, help="Log verbosity, 0 to 4.")
@click.version_option(package_name="kubesched", message="kubesched %(version)s (Kubernetes v1.36)")
def main(
    kubeconfig: str,
    master: str,
    config: Path | None,
    plugins: tuple[str, ...],
    tie_break: str,
    seed: int | None,
    check_cache_every: Duration | None,
    pod_max_in_unschedulable_pods_duration: Duration,
    verbosity: int,
    election: ElectionOverrides,
    serving: ServingOptions,
) -> None:
    """Schedule pods as kube-scheduler v1.36 does."""
    _configure_logging(verbosity)
    find_plugins_in_working_directory()
    clock = SystemClock()
    try:
        serving.validate()
        settings = _settings(config, election)
        connection = connect(
            kubeconfig=kubeconfig or settings.client_connection.kubeconfig,
            master=master,
            clock=clock,
        )
        _run(
            _Orders(
                config=settings,
                connection=connection,
                clock=clock,
                plugins=(*_plugin_classes(), *plugins),
                seed=seed,
                tie_break=tie_break,
                check_cache_every_seconds=check_cache_every.seconds if check_cache_every else 0.0,
                max_in_unschedulable_pods_seconds=pod_max_in_unschedulable_pods_duration.seconds,
                serving=serving,
            )
        )
    except _FAILURES as error:
        click.echo(f"kubesched: {error}", err=True)
        raise SystemExit(1) from error


def run(*, plugins: Sequence[type[Plugin] | str] = (), args: Sequence[str] | None = None) -> None:
    """Run a scheduler with plugins of your own; the rest is said on the command line.

    `args` stands for the command line, by default the process's own.
    """
    # References survive the command line, classes are handed over beside it.
    main.main(args=None if args is None else list(args), prog_name="kubesched", obj=tuple(plugins))


def _plugin_classes() -> tuple[type[Plugin] | str, ...]:
    return click.get_current_context().find_object(tuple) or ()


def _more_than_nothing(duration: Duration | None) -> Duration | None:
    """A time that takes some. Raises `click.BadParameter`."""
    if duration is not None and duration <= Duration():
        raise click.BadParameter(f"{duration}: expected more than 0s")
    return duration


def _settings(path: Path | None, election: ElectionOverrides) -> KubeSchedulerConfiguration:
    """The configuration to run with; raises `ConfigError`."""
    config = election.applied_to(load_config(path, SCHEME) if path else default_config(SCHEME))
    errors: list[Exception] = list(validate_config(config, SCHEME))
    if config.extenders:
        errors.append(field.forbidden("extenders", "HTTP extenders are not built yet"))
    if errors:
        raise ConfigError(field.aggregate(errors))
    return config


@dataclass(frozen=True, kw_only=True)
class _Orders:
    """What the command line comes to."""

    config: KubeSchedulerConfiguration
    connection: Connection
    clock: Clock
    plugins: tuple[type[Plugin] | str, ...]
    seed: int | None
    tie_break: str
    check_cache_every_seconds: float
    max_in_unschedulable_pods_seconds: float
    serving: ServingOptions


def _run(orders: _Orders) -> None:
    async def run() -> None:
        app = SchedulerApp(
            orders.config,
            orders.connection,
            clock=orders.clock,
            plugins=orders.plugins,
            seed=orders.seed,
            tie_break=orders.tie_break,
            max_in_unschedulable_pods_seconds=orders.max_in_unschedulable_pods_seconds,
        )
        stopping = asyncio.Event()
        work = _run_and_serve(orders, app, stopping)
        await _until_stopped(app, work, stopping, orders.check_cache_every_seconds)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(run())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where there is one (CPython, but not on Windows): less work for each request."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _run_and_serve(orders: _Orders, app: SchedulerApp, stopping: asyncio.Event) -> None:
    if not orders.serving.enabled:
        await app.run()  # never returns
    # Here, so that a process that serves nothing does not load what it takes to serve.
    from scheduler.serving.serve import serve_securely

    async with serve_securely(
        orders.serving,
        orders.config,
        app,
        clock=orders.clock,
        is_shutting_down=stopping.is_set,
    ):
        await app.run()


async def _until_stopped(
    app: SchedulerApp,
    work: Coroutine[None, None, None],
    stopping: asyncio.Event,
    check_cache_every_seconds: float,
) -> None:
    """Run until SIGTERM or SIGINT; raises what the scheduler could not survive.

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
    if check_cache_every_seconds:
        checks = asyncio.ensure_future(app.compare_cache_every(check_cache_every_seconds))
    try:
        await running
    except asyncio.CancelledError:
        logging.getLogger("kubesched").info("Requested to terminate, exiting")
    except BaseExceptionGroup as group:
        known, bugs = group.split(_FAILURES)
        if bugs is not None or known is None:
            raise
        failure = _first(known)
        if isinstance(failure, LeaderElectionLost):
            logging.getLogger("kubesched").error("Leaderelection lost")
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
    logging.basicConfig(
        level=_LEVELS[min(verbosity, len(_LEVELS) - 1)],
        format="%(asctime)s %(levelname).1s %(name)s: %(message)s",
    )
