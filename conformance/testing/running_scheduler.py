"""A scheduler beside a `fakeapi.BackgroundServer`, in real time."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..clock import RealClock
from ..format.objects import Item, objects_of
from ..targets import target_kind
from ..targets.target import Surroundings
from .cluster import entries_given, with_plugins

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fakeapi import BackgroundServer, FakeApiServer

    from ..api import Json
    from ..targets.target import Target, TargetOptions


class RunningScheduler:
    """A scheduler that runs in the server's thread, or as a command. A context manager.

    `objects`, as of `Cluster`, exist before the scheduler starts. Entering returns when the
    scheduler watches the server. Raises InputError and TargetError.
    """

    def __init__(
        self,
        server: BackgroundServer,
        *,
        target: TargetOptions,
        plugins: Sequence[str | type] = (),
        config: Json | None = None,
        gates: Mapping[str, bool] | None = None,
        objects: Iterable[Json] = (),
        seed: int = 0,
    ) -> None:
        self._objects = [
            obj
            for entry in entries_given(objects)
            for obj in objects_of(msgspec.convert(entry, Item))
        ]
        self._server = server
        self._kind = target_kind(with_plugins(target, plugins))
        self._config = config
        self._gates = gates or {}
        self._seed = seed
        self._started = threading.Event()
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._target: Target | None = None

    def __enter__(self) -> RunningScheduler:
        """Start the scheduler."""
        self._server.load(self._objects)
        self._server.call(self._start)
        self._started.wait()
        self._raise_failure()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop the scheduler. Raises TargetError if it has failed."""
        self._server.call(lambda _: self._stopping.set())
        self._ended.wait()
        if kind is None:
            self._raise_failure()

    @property
    def url(self) -> str:
        """The URL of the scheduler's own port, with `/metrics` and `/debug/pods`."""
        url = self._running.metrics_url or ""
        return url.removesuffix("/metrics")

    def log(self) -> tuple[str, ...]:
        """The last lines of the scheduler's log."""
        return self._running.log()

    def check(self) -> None:
        """Raise TargetError if the scheduler has ended."""
        self._server.call(lambda _: self._running.check())

    @property
    def _running(self) -> Target:
        if self._target is None:
            raise RuntimeError("the scheduler is not running: use it inside `with`")
        return self._target

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _start(self, server: FakeApiServer) -> None:
        self._stopping = asyncio.Event()
        self._task = asyncio.create_task(self._run(server))

    async def _run(self, server: FakeApiServer) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="conformance-") as directory:
                surroundings = Surroundings(
                    server=server,
                    clock=RealClock(),
                    directory=Path(directory),
                    config=self._config,
                    gates=self._gates,
                    seed=self._seed,
                )
                async with self._kind.run(surroundings) as self._target:
                    self._started.set()
                    await self._stopping.wait()
                    self._target.check()
        except BaseException as failure:  # noqa: BLE001 - raised in the thread of the test
            self._failure = failure
        finally:
            self._started.set()
            self._ended.set()
