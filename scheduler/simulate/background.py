"""The background work of a scheduler in virtual time: it runs after the cycle that starts it."""

from __future__ import annotations

import asyncio
import logging
import types
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

_log: Final = logging.getLogger(__name__)


class BackgroundWork:
    """Keeps coroutines until `run`. Work that waits becomes a task of the event loop.

    Work that does not wait costs no turn of the event loop.
    """

    def __init__(self) -> None:
        #: Work that has not begun; that of a plugin has a name.
        self._started: Final[deque[tuple[Coroutine[Any, Any, None], str]]] = deque()
        #: The work that waits, for time or for an event.
        self.waiting: Final[set[asyncio.Task[None]]] = set()
        self._failures: Final[list[BaseException]] = []

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._started.append((work, ""))

    def spawn_for_plugin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._started.append((work, name))

    def fail(self, error: Exception) -> None:
        """Raise the error."""
        raise error

    def run(self) -> None:
        """Run the work as far as it does not wait, in the order in which it was started.

        Raises the errors of work that has waited.
        """
        if self._failures:
            raise self._failures.pop()
        while self._started:
            work, name = self._started.popleft()
            if name:
                work = _logged(work, name)
            try:
                waits_for = work.send(None)
            except StopIteration:
                continue
            task = asyncio.get_running_loop().create_task(_resumed(work, waits_for))
            self.waiting.add(task)
            task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Cancel the work that waits, and drop the work that has not begun."""
        while self._started:
            self._started.popleft()[0].close()
        for task in self.waiting:
            task.cancel()
        await asyncio.gather(*self.waiting, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.waiting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failures.append(error)


async def _logged(work: Coroutine[Any, Any, None], name: str) -> None:
    try:
        await work
    except Exception:  # noqa: BLE001 - code of a plugin
        _log.exception("Background work of a plugin failed: %s", name)


@types.coroutine
def _resumed(work: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """Run the rest of a started coroutine, which waits for a future."""
    try:
        yield waits_for
    except BaseException as error:  # noqa: BLE001 - a cancellation is for the coroutine
        try:
            waits_for = work.throw(error)
        except StopIteration:
            return
        yield waits_for
    yield from work
