"""A scheduler in the suite's own process: real HTTP, virtual time, and an exact test for idleness.

The scheduler is a function, given by name and not imported here:

    async with function(kubeconfig=path, clock=clock, config=path_or_None, seed=0) as scheduler:
        scheduler.is_idle            # nothing to do until an object changes or time passes;
                                     # raises the scheduler's exception if it has failed
        scheduler.resource_versions  # the last version seen, by kind
        scheduler.check()            # checks its invariants; optional

A scheduler that can serve kube-scheduler's metrics has a keyword parameter `serve`. The function is
then called with `serve=True`, and the scheduler has

        scheduler.url                # http://127.0.0.1:PORT, to which /metrics is added

Without such a parameter cases that read metrics are skipped. Below that URL a scheduler can serve
`/debug/pods/NAMESPACE/NAME` as ours does: the story is part of a failure. A scheduler that takes
plugins of the user's has a keyword parameter `plugins`, a tuple of references `module:Class`, which
is passed if the user has named plugins. A function `check_plugins` of its module is called with
each plugin before the first case, in a tuple, and raises an error unless it is a plugin. A
scheduler with a keyword parameter `identity`, its name in a leader election, can be started beside
another scheduler: the step `start`. `kubesched@VERSION` is our scheduler with the keyword parameter
`scheduler_version`; a function `check_version` of its module is called with it before the first
case, and raises ValueError for a version that does not exist.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import importlib
import importlib.util
import inspect
import logging
import sys
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec

from ..clock import VirtualClock
from ..errors import InputError, NotSettled, TargetError
from .quiet import QuietLoop
from .target import configuration, serve_fake_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from fakeapi import FakeApiServer, Statistics

    from ..clock import Clock
    from ..format.case import Case
    from .target import Served, Surroundings, Target

_LOG_LINES_MAX: Final = 100
#: The packages of extras, by the feature whose plugin needs them.
_PACKAGES: Final = {"flow": "highspy"}
#: The level of a logger or handler each.
_Levels: TypeAlias = "list[tuple[logging.Logger | logging.Handler, int]]"
#: The real interval between two checks of a scheduler that waits for something outside.
_LOOKS_MAX: Final = 400
_LOOK_SECONDS: Final = 0.001
#: Checks without progress after which pending work must be waiting for time to pass.
_LOOKS_BEFORE_TIME: Final = 20
#: The virtual time that may pass while a scheduler settles: retries and rate limits are short.
_NUDGED_SECONDS_MAX: Final = 60.0


class InProcessScheduler(Protocol):
    """The result of the function's context manager."""

    @property
    def is_idle(self) -> bool:
        """True if nothing will happen until an object changes or time passes."""
        ...

    @property
    def resource_versions(self) -> Mapping[str, str]:
        """The last resource version seen, by kind."""
        ...


class RunInProcess(Protocol):
    """The function's type."""

    def __call__(
        self, *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int, **options: object
    ) -> AbstractAsyncContextManager[InProcessScheduler]:
        """Run a scheduler while the block runs.

        `serve` and `feature_gates` are passed only to a function with that parameter, for cases
        that need it; `plugins` only if the user has named some.
        """
        ...


class InProcessKind:
    """Starts the scheduler of a function in this process."""

    def __init__(
        self, module: str, function: str, *, plugins: tuple[str, ...] = (), version: str = ""
    ) -> None:
        """Find the function, the plugins and the version.

        Raises InputError if one of them does not exist.
        """
        reference = f"{module}:{function}"
        try:
            home = importlib.import_module(module)
            loaded = getattr(home, function)
        except (ImportError, AttributeError) as error:
            raise InputError(f"--in-process: {reference}: {error}") from error
        if not callable(loaded):
            raise InputError(f"--in-process: {reference}: expected a function")
        self._function: RunInProcess = loaded
        self._reference = reference
        parameters = inspect.signature(loaded).parameters
        self._serves = "serve" in parameters
        self._takes_gates = "feature_gates" in parameters
        self._takes_identity = "identity" in parameters
        if plugins and "plugins" not in parameters:
            raise InputError(f"--plugin: {reference} has no parameter plugins")
        self._takes_plugins = "plugins" in parameters
        self._check_plugins = getattr(home, "check_plugins", None)
        for plugin in plugins:
            _check_plugin(plugin, self._check_plugins, named_by="--plugin")
        self._plugins = plugins
        self._version = version
        if version:
            try:
                home.check_version(version)
            except ValueError as error:
                raise InputError(f"--in-process: kubesched@{version}: {error}") from error

    def why_not(self, case: Case) -> str | None:
        """Return a reason to skip: the function lacks a parameter, or Python a package."""
        if case.reads_metrics and not self._serves:
            return f"reads metrics, and {self._reference} has no parameter serve"
        if case.gates and not self._takes_gates:
            return f"needs feature gates, and {self._reference} has no parameter feature_gates"
        if case.plugins and not self._takes_plugins:
            return f"names plugins, and {self._reference} has no parameter plugins"
        if case.starts_schedulers and not self._takes_identity:
            return f"starts a second scheduler, and {self._reference} has no parameter identity"
        package = _PACKAGES.get(case.feature)
        if package is not None and importlib.util.find_spec(package) is None:
            return f"needs the package {package}, the extra {case.feature} of kubesched"
        return None

    def new_clock(self) -> Clock:
        return VirtualClock()

    def serve(self, case: Case, *, clock: Clock, seed: int) -> AbstractAsyncContextManager[Served]:
        return serve_fake_server(case, clock=clock, seed=seed)

    @contextlib.asynccontextmanager
    async def run(self, surroundings: Surroundings) -> AsyncIterator[Target]:
        """Run the scheduler while the block runs. Raises TargetError."""
        clock = surroundings.clock
        kubeconfig = surroundings.fake_server.write_kubeconfig(
            surroundings.directory / "kubeconfig"
        )
        config = None
        if surroundings.config is not None:
            config = surroundings.directory / "config.yaml"
            whole = configuration(surroundings.config, kubeconfig)
            config.write_bytes(msgspec.yaml.encode(whole))
        options: dict[str, object] = {"serve": True} if self._serves else {}
        for plugin in surroundings.plugins:
            try:
                _check_plugin(plugin, self._check_plugins, named_by="plugins")
            except InputError as error:
                # A mistake in one case ends that case only.
                raise TargetError(str(error)) from error
        if plugins := tuple(dict.fromkeys((*self._plugins, *surroundings.plugins))):
            options["plugins"] = plugins
        if self._takes_identity:
            options["identity"] = surroundings.name
        if surroundings.gates:
            options["feature_gates"] = surroundings.gates
        if self._version:
            options["scheduler_version"] = self._version
        with _capture_log(clock) as lines:
            async with contextlib.AsyncExitStack() as stack:
                running = self._function(
                    kubeconfig=kubeconfig,
                    clock=clock,
                    config=config,
                    seed=surroundings.seed,
                    **options,
                )
                try:
                    scheduler = await stack.enter_async_context(_translating(running, lines))
                except TargetError:
                    raise
                except Exception as error:
                    raise TargetError(f"did not start: {error}", tuple(lines)) from error
                yield _InProcessTarget(surroundings.fake_server, clock, scheduler, lines)


def _check_plugin(
    reference: str, check: Callable[[tuple[str, ...]], object] | None, *, named_by: str
) -> None:
    """Import the plugin at `module:Class`, so that a mistake ends the run and not each case.

    `check` is the scheduler's own, if it has one.
    """
    module, _, name = reference.partition(":")
    if not module or not name:
        raise InputError(f"{named_by}: expected MODULE:CLASS, got {reference!r}")
    # An installed command does not search the working directory by itself, as `python -m` does.
    if "" not in sys.path:
        sys.path.append("")
    try:
        getattr(importlib.import_module(module), name)
        if check is not None:
            check((reference,))
    except Exception as error:
        # A module runs as it is imported, and may raise anything.
        raise InputError(f"{named_by}: {reference}: {error}") from error


@contextlib.asynccontextmanager
async def _translating(
    running: AbstractAsyncContextManager[InProcessScheduler], lines: collections.deque[str]
) -> AsyncIterator[InProcessScheduler]:
    """Convert an error while the scheduler stops into a failure of the case, not of the suite."""
    scheduler = await running.__aenter__()
    try:
        yield scheduler
    finally:
        try:
            await running.__aexit__(None, None, None)
        except Exception as error:
            raise TargetError(f"failed: {_words(error)}", tuple(lines)) from error


class _InProcessTarget:
    """A scheduler that runs as a task of this event loop."""

    patience_seconds = 0.0
    settles_exactly = True

    def __init__(
        self,
        server: FakeApiServer,
        clock: Clock,
        scheduler: InProcessScheduler,
        lines: collections.deque[str],
    ) -> None:
        self._server = server
        self._clock = clock
        self._scheduler = scheduler
        self._lines = lines
        self._settled_version = -1

    @property
    def metrics_url(self) -> str | None:
        url = getattr(self._scheduler, "url", None)
        return f"{url.rstrip('/')}/metrics" if isinstance(url, str) and url else None

    async def settle(self) -> None:
        """Return when nothing can happen before an object changes or time passes."""
        looks = 0
        nudged_until = self._clock.now() + _NUDGED_SECONDS_MAX
        before: Statistics | None = None
        while not await self._is_settled():
            now = self._server.statistics()
            looks = looks + 1 if now == before else 0
            before = now
            if looks >= _LOOKS_BEFORE_TIME and self._nudge(nudged_until):
                looks = 0
            elif looks >= _LOOKS_BEFORE_TIME and self._server.faults.is_at_work:
                return  # while faults are active it cannot become idle, and need not
            elif looks >= _LOOKS_MAX:
                raise NotSettled("never came to rest", self.log())
            elif looks:
                await asyncio.sleep(_LOOK_SECONDS)

    def check(self) -> None:
        """Raise TargetError if the scheduler has failed or violates its own invariants."""
        self._ask_whether_idle()
        verify: Callable[[], None] | None = getattr(self._scheduler, "check", None)
        if verify is not None:
            try:
                verify()
            except AssertionError as error:
                raise TargetError(f"an invariant does not hold: {error}", self.log()) from error

    def log(self) -> tuple[str, ...]:
        """The last lines logged while it ran."""
        return tuple(self._lines)

    async def _is_settled(self) -> bool:
        """True if everything is idle and the scheduler has seen every object.

        A bookmark that has arrived proves that everything before it has arrived.
        """
        await _quiet()
        if not self._is_at_rest():
            return False
        version = self._server.resource_version
        if version == self._settled_version:
            return True
        self._server.send_bookmarks()
        await _quiet()
        if not self._is_at_rest() or self._server.resource_version != version:
            return False
        if not self._has_seen(version):
            return False
        self._settled_version = version
        return True

    def _has_seen(self, version: int) -> bool:
        """True if every change has been seen, or with active faults, every change that can be."""
        faults, versions = self._server.faults, self._scheduler.resource_versions
        kinds = faults.followed if faults.is_at_work else versions.keys()
        return all(_number(versions[kind]) >= version for kind in kinds if kind in versions)

    def _is_at_rest(self) -> bool:
        numbers = self._server.statistics()
        if numbers.requests_in_flight or numbers.undelivered_watch_events:
            return False
        # A scheduler whose request is held by a fault is not idle, but has nothing to do.
        return self._ask_whether_idle() or numbers.requests_held > 0

    def _ask_whether_idle(self) -> bool:
        try:
            return self._scheduler.is_idle
        except Exception as error:
            raise TargetError(f"failed: {_words(error)}", self.log()) from error

    def _nudge(self, until: float) -> bool:
        """Let time pass for pending work that waits for it: a retry, a rate limit."""
        assert isinstance(self._clock, VirtualClock), "time that is real is not advanced"
        due = self._clock.next_wake_up
        if due is None or due > until:
            return False
        self._clock.move_to(due)
        return True


async def _quiet() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, QuietLoop), "a scheduler in this process needs a QuietLoop"
    await loop.quiet()


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else -1


def _words(error: BaseException) -> str:
    """Return an error as one line; of a group, the first error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


class _Recorder(logging.Handler):
    """Keeps the last lines, with virtual timestamps.

    `levels` are those of the root logger and its other handlers before the first recorder.
    """

    def __init__(self, clock: Clock, levels: _Levels) -> None:
        super().__init__()
        self.levels = levels
        self.lines: collections.deque[str] = collections.deque(maxlen=_LOG_LINES_MAX)
        self._clock = clock
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{self._clock.monotonic():9.3f} {record.levelname[0]} {record.getMessage()}"
        self.lines.append(line)
        if record.exc_info:
            self.lines.extend(self._formatter.formatException(record.exc_info).splitlines())


@contextlib.contextmanager
def _capture_log(clock: Clock) -> Iterator[collections.deque[str]]:
    """Record the log while the block runs; blocks of several schedulers may overlap.

    Other handlers, such as pytest's, get no lines that they would not get without this one.
    """
    root = logging.getLogger()
    present = _recorders(root)
    levels: _Levels = [(root, root.level), *((one, one.level) for one in root.handlers)]
    if present:
        levels = present[0].levels
    recorder = _Recorder(clock, levels)
    if not present:
        for handler in root.handlers:
            handler.setLevel(max(handler.level, root.level))
        root.setLevel(logging.INFO)
    root.addHandler(recorder)
    try:
        yield recorder.lines
    finally:
        root.removeHandler(recorder)
        if not _recorders(root):
            for one, level in levels:
                one.setLevel(level)


def _recorders(root: logging.Logger) -> list[_Recorder]:
    return [handler for handler in root.handlers if isinstance(handler, _Recorder)]
