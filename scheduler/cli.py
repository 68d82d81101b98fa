"""The command `kubesched`: a scheduler process with kube-scheduler's flags.

An error at the start is one line on standard error and a non-zero exit, and so is a lost lease; a
signal to stop is a clean exit. While the API server cannot be reached, the process waits.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.metadata
import logging
import os
import platform
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from scheduler.api import field
from scheduler.assembly.app import SchedulerApp
from scheduler.assembly.core import SchedulerOptions
from scheduler.assembly.profiles import find_plugins_in_working_directory, with_extenders
from scheduler.assembly.shadow import ShadowOptions
from scheduler.cache import CacheCorruptedError
from scheduler.client import CA_ROTATION, ClientError, connect_process
from scheduler.clock import SystemClock
from scheduler.config import ConfigError, default_config, load_config, validate_config
from scheduler.config.encode import config_yaml
from scheduler.flags.flag_set import FlagSet, UsageError
from scheduler.flags.options import parse_flags
from scheduler.flags.policy import translated_policy
from scheduler.flags.table import flags_of
from scheduler.klog import V1, V2, LogOptions, configure
from scheduler.leader_election.elector import LeaderElectionLost
from scheduler.loop_monitor import LoopMonitor
from scheduler.plugins import SCHEME
from scheduler.runtime import FrameworkError, PluginSetupError
from scheduler.serving.options import ServingError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from scheduler.api.duration import Duration
    from scheduler.clock import Clock
    from scheduler.config import KubeSchedulerConfiguration, SchedulerVersion, Scheme
    from scheduler.flags.options import Options
    from scheduler.framework.interface import Plugin

    PluginReferences = Sequence[type[Plugin] | str]

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

_COMMAND: Final = "kubesched"


def main() -> NoReturn:
    """Run the process's command line; ends by SystemExit."""
    run()
    raise SystemExit(0)


def run(*, plugins: PluginReferences = (), args: Sequence[str] | None = None) -> None:
    """Run a scheduler with plugins of your own; `args` is the command line.

    Without `args` it is the process's own. An error raises SystemExit.
    """
    # Gates and versions have warnings and errors before the options of the log are known.
    configure(LogOptions())
    try:
        options = parse_flags(sys.argv[1:] if args is None else args, command=_COMMAND)
        if options.values.boolean("help"):
            _print(_help_text(options.effective_version.scheduler))
            return
        if (version := options.values.text("version")) != "false":
            text = _version_text(options.reported_version, is_raw=version == "raw")
            _print(f"{text}\n")
            return
        logs = options.logs
        # These raise UsageError for an invalid value, before anything starts.
        _ = options.seed, options.tie_break, options.check_cache_every, options.shadow_log
    except UsageError as error:
        sys.stderr.write(f"Error: {error}\n")
        raise SystemExit(1) from error
    except ConfigError as error:
        _fail(error)
    configure(logs)
    for name, text in options.values.texts().items():
        _log.log(V1, 'FLAG: --%s="%s"', name, text)
    try:
        _run_process(options, plugins)
    except _FAILURES as error:
        # Profiles come from the file; plugins of the command line are refused before.
        is_of_file = isinstance(error, PluginSetupError) and str(error).startswith("initializing")
        path = options.config_file
        _fail(error, f"{path}: " if is_of_file and path is not None else "")


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _fail(error: Exception, where: str = "") -> NoReturn:
    _log.error("command failed", {"err": f"{where}{error}"})
    raise SystemExit(1) from error


def _help_text(version: SchedulerVersion) -> str:
    return (
        f"Schedule pods as kube-scheduler v{version.label} does.\n\n"
        f"Usage:\n  {_COMMAND} [flags]\n\n{FlagSet(flags_of(version)).help_text()}"
    )


def _version_text(version: str, *, is_raw: bool) -> str:
    own = importlib.metadata.version("kubesched")
    if not is_raw:
        return f"kubesched {own} (Kubernetes {version})"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f'kubesched.Info{{Version:"{own}", GitVersion:"{version}", PythonVersion:"{python}"}}'


def _run_process(options: Options, plugins: PluginReferences) -> None:
    find_plugins_in_working_directory()
    clock = SystemClock()
    serving = options.serving
    serving.validate()
    metrics = options.metrics
    config = _configuration(options)
    connection = connect_process(
        kubeconfig=config.client_connection.kubeconfig,
        master=options.values.string("master"),
        clock=clock,
        follows_authority=CA_ROTATION in options.gates,
    )
    translation = translated_policy(options, config, connection, clock=clock)
    version = options.effective_version.scheduler
    written, comments = config, ""
    if translation is not None:
        config = _validated(translation.config, options)
        written, comments = _validated(translation.modern, options), translation.comments()
        plugins = (*plugins, *translation.plugins)
    chosen = SchedulerOptions(
        plugins=(*plugins, *options.values.strings("plugin")),
        seed=options.seed,
        tie_break=options.tie_break,
        max_in_unschedulable_pods_seconds=options.max_in_unschedulable_pods_seconds,
        feature_gates=options.gates,
        effective_version=options.effective_version,
        metrics_options=metrics,
        shadow=_shadow(options),
    )
    app = SchedulerApp(config, connection, clock=clock, options=chosen)
    if _log.isEnabledFor(V2):
        _log.log(V2, "Using component config", {"config": config_yaml(config, version)})
    if path := options.values.string("write-config-to"):
        _write_config(Path(path), comments + config_yaml(written, version))
        return
    if options.serving.enabled:
        # Imported here, so that a process that serves nothing does not load the server, and before
        # the loop runs, which the import would hold for half a second.
        importlib.import_module("scheduler.serving.serve")
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_run(config, options, app, clock))


def _shadow(options: Options) -> ShadowOptions | None:
    """Return the options of shadow mode; None without it. Raises `ConfigError`."""
    if not options.values.boolean("shadow"):
        return None
    path = options.shadow_log
    if path in ("", "-"):
        return ShadowOptions(sys.stdout.buffer if path else None)
    try:
        # The file is open as long as the process lives.
        return ShadowOptions(Path(path).open("ab"))
    except OSError as error:
        raise ConfigError(f"open {path}: {(error.strerror or '').lower()}") from error


def _write_config(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"open {path}: {(error.strerror or '').lower()}") from error
    _log.info("Wrote configuration", {"file": str(path)})


def _configuration(options: Options) -> KubeSchedulerConfiguration:
    """Return the configuration of the file and the flags. Raises `ConfigError`."""
    path = options.config_file
    scheme = _scheme(options)
    config = options.apply_to(load_config(path, scheme) if path else default_config(scheme))
    return _validated(config, options)


def _scheme(options: Options) -> Scheme:
    return SCHEME._replace(gates=options.gates, version=options.effective_version.scheduler)


def _validated(config: KubeSchedulerConfiguration, options: Options) -> KubeSchedulerConfiguration:
    path = options.config_file
    errors: list[Exception] = [*validate_config(config, _scheme(options))]
    if errors:
        raise ConfigError(f"{path}: {field.aggregate(errors)}" if path else field.aggregate(errors))
    return with_extenders(config)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop if it is installed (CPython, not on Windows): cheaper requests."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _run(
    config: KubeSchedulerConfiguration, options: Options, app: SchedulerApp, clock: Clock
) -> None:
    _log.info("Starting Kubernetes Scheduler", {"version": options.reported_version})
    stopping = asyncio.Event()
    if options.serving.enabled:
        work = _serve_and_run(config, options, app, clock, stopping)
    else:
        work = app.run()
    await _until_stopped(app, work, stopping, options.check_cache_every)


async def _serve_and_run(
    config: KubeSchedulerConfiguration,
    options: Options,
    app: SchedulerApp,
    clock: Clock,
    stopping: asyncio.Event,
) -> NoReturn:
    from scheduler.serving.serve import serve_securely

    async with serve_securely(
        options.serving,
        config,
        app,
        clock=clock,
        is_shutting_down=stopping.is_set,
        gates=options.gates,
        flags=options.values.texts(),
    ):
        await app.run()
    raise AssertionError("the scheduler never ends by itself")


async def _until_stopped(
    app: SchedulerApp,
    work: Coroutine[None, None, NoReturn],
    stopping: asyncio.Event,
    check_cache_every: Duration | None,
) -> None:
    """Run until SIGTERM or SIGINT; raise the failure that ended the scheduler.

    The second signal ends the process at once, with status 1, as upstream's.
    SIGUSR2 compares the cache with the API's view, and writes cache and queue to the log.
    """
    running = asyncio.ensure_future(work)
    app.on_synced = _spare_the_collector

    def stop() -> None:
        if stopping.is_set():
            # Another cancellation would interrupt the closing of connections.
            os._exit(1)
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
        async with LoopMonitor().watching(app.metrics):
            await running
    except asyncio.CancelledError:
        _log.info("Requested to terminate, exiting")
    except BaseExceptionGroup as group:
        failures, bugs = group.split(_FAILURES)
        if bugs is not None or failures is None:
            raise
        failure = _first(failures)
        if isinstance(failure, LeaderElectionLost):
            _log.error("Leaderelection lost")
        raise failure from group
    finally:
        if checks is not None:
            checks.cancel()


#: Of the youngest generation; Python's default is 700.
_OBJECTS_BETWEEN_COLLECTIONS: Final = 5000


def _spare_the_collector() -> None:
    """Take what the first lists have made out of the garbage collector's sight.

    These objects are freed when nothing refers to them, as before. With 150,000 pods a collection
    would hold the event loop for half a second. Next to nothing that a pod leaves behind is in
    cycles: the collector, which takes a tenth of the time by default, looks less often.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
