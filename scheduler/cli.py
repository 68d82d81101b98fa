"""The command `kubesched`: kube-scheduler's flags, one scheduler process.

Whatever is wrong at the start is one line on standard error and a non-zero exit; a signal to stop
is a clean exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from scheduler.api import field
from scheduler.app import SchedulerApp
from scheduler.cache import CacheCorruptedError
from scheduler.client import ClientError, connect
from scheduler.clock import SystemClock
from scheduler.config import ConfigError, default_config, load_config, validate_config
from scheduler.config.duration import Duration
from scheduler.profiles import find_plugins_in_working_directory
from scheduler.queue import QueueError
from scheduler.runtime import FrameworkError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.client import Connection
    from scheduler.clock import Clock
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.framework.interface import Plugin

__all__ = ["main", "run"]

#: What can be said in one line; everything else is a bug, and shows its traceback.
_FAILURES: Final = (ClientError, ConfigError, FrameworkError, QueueError, CacheCorruptedError)

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
    callback=lambda context, option, text: _duration(text),
    help="Compare the cache with the API's view so often, when idle, and log what differs.",
)
@click.option(
    "-v", "--v", "verbosity", type=click.IntRange(min=0), default=0, help="Log verbosity, 0 to 4."
)
@click.version_option(package_name="kubesched", message="kubesched %(version)s (Kubernetes v1.36)")
def main(
    kubeconfig: str,
    master: str,
    config: Path | None,
    plugins: tuple[str, ...],
    tie_break: str,
    seed: int | None,
    check_cache_every: Duration | None,
    verbosity: int,
) -> None:
    """Schedule pods as kube-scheduler v1.36 does."""
    _configure_logging(verbosity)
    find_plugins_in_working_directory()
    clock = SystemClock()
    try:
        settings = _settings(config)
        connection = connect(
            kubeconfig=kubeconfig or settings.client_connection.kubeconfig,
            master=master,
            clock=clock,
        )
        _run(
            settings,
            connection,
            clock,
            plugins,
            seed,
            tie_break,
            check_cache_every.seconds if check_cache_every else 0.0,
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


def _duration(text: str | None) -> Duration | None:
    """A duration as configuration files have them; raises `click.BadParameter`."""
    if text is None:
        return None
    try:
        duration = Duration.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if duration <= Duration.parse("0s"):
        raise click.BadParameter(f"{text}: expected more than 0s")
    return duration


def _settings(path: Path | None) -> KubeSchedulerConfiguration:
    """The configuration to run with; raises `ConfigError`."""
    config = load_config(path) if path else default_config()
    errors: list[Exception] = list(validate_config(config))
    if config.extenders:
        errors.append(field.forbidden("extenders", "HTTP extenders are not built yet"))
    if errors:
        raise ConfigError(field.aggregate(errors))
    if path and config.leader_election.leader_elect:
        logging.getLogger("kubesched").info(
            "leaderElection: not built yet, running without; run one scheduler per schedulerName"
        )
    return config


def _run(
    config: KubeSchedulerConfiguration,
    connection: Connection,
    clock: Clock,
    plugins: Sequence[str],
    seed: int | None,
    tie_break: str,
    check_cache_every_seconds: float,
) -> None:
    context = click.get_current_context()
    classes: tuple[type[Plugin] | str, ...] = context.find_object(tuple) or ()

    async def serve() -> None:
        app = SchedulerApp(
            config,
            connection,
            clock=clock,
            plugins=(*classes, *plugins),
            seed=seed,
            tie_break=tie_break,
        )
        await _until_stopped(app, check_cache_every_seconds)

    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    asyncio.run(serve())


async def _until_stopped(app: SchedulerApp, check_cache_every_seconds: float) -> None:
    """Run until SIGTERM or SIGINT; raises what the scheduler could not survive.

    SIGUSR2 compares the cache with the API's view, and writes cache and queue to the log.
    """
    running = asyncio.ensure_future(app.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
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
        raise _first(known) from group
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
