"""A server in a thread of its own, for programs without an event loop, or with another one.

    with BackgroundServer(load=["nodes.yaml"]) as server:
        subprocess.run(["kubectl", "--server", server.url, "get", "nodes"], check=True)

The server lives in the thread's event loop; calls from other threads run in that loop.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from fakeapi.server import FakeApiServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from fakeapi.server import Statistics
    from fakeapi.store.journal import HandledRequest
    from fakeapi.types.objects import Json

T = TypeVar("T")


class BackgroundServer:
    """A `FakeApiServer` in a thread; a context manager with the same keywords.

    Entering raises the errors of the server's start.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fakeapi", daemon=True)
        self._stopping = asyncio.Event()
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._server: FakeApiServer | None = None

    def __enter__(self) -> BackgroundServer:
        """Start the server, and wait until clients can connect."""
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server, and wait for its end. Raises StateError if its state cannot be saved."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    @property
    def url(self) -> str:
        return self._running.url

    @property
    def kubeconfig(self) -> str:
        return self._running.kubeconfig

    @property
    def requests(self) -> tuple[HandledRequest, ...]:
        """The newest answered requests, oldest first; see `FakeApiServer.requests`."""
        return self.call(lambda server: server.requests)

    def load(self, objects: Iterable[Json | str | Path]) -> int:
        """Store objects, from files and directories too; return their number."""
        listed = list(objects)
        return self.call(lambda server: server.load(listed))

    def statistics(self) -> Statistics:
        return self.call(lambda server: server.statistics())

    def call(self, function: Callable[[FakeApiServer], T]) -> T:
        """Call a function with the server, in the server's thread; return its result."""

        async def ask() -> T:
            return function(self._running)

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result()

    @property
    def _running(self) -> FakeApiServer:
        if self._server is None:
            raise RuntimeError("the server is not running: use it inside `with`")
        return self._server

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        try:
            async with FakeApiServer(**self._options) as self._server:
                self._started.set()
                await self._stopping.wait()
        except BaseException as failure:  # noqa: BLE001 - raised in the thread that started the server
            self._failure = failure
        finally:
            self._server = None
            self._started.set()
