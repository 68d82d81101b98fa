"""Background work: coroutines of the scheduler and of its plugins.

A running scheduler has it in one task group, a scheduler in virtual time after each cycle.
"""

from __future__ import annotations

import asyncio
import logging
import types
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

_log: Final = logging.getLogger(__name__)


class BackgroundTasks:
    """Starts coroutines in `group`, which must be set before the first pod is scheduled.

    An exception of the scheduler's own work stops the scheduler.
    """

    def __init__(self) -> None:
        self.group: asyncio.TaskGroup | None = None
        self._plugin_tasks = 0

    @property
    def is_idle(self) -> bool:
        """True if no work of a plugin is under way."""
        return not self._plugin_tasks

    def spawn(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None] | None:
        """Start the scheduler's own work; None if the scheduler is stopping."""
        assert self.group is not None, "work is started only while the scheduler runs"
        try:
            return self.group.create_task(work, name=name)
        except RuntimeError:
            # The group is shutting down.
            work.close()
            return None

    def spawn_for_plugin(self, work: Coroutine[None, None, None], name: str) -> None:
        """Start work of a plugin. Its exceptions are logged and do not stop the scheduler."""
        self._plugin_tasks += 1
        task = self.spawn(self._run_for_plugin(work, name), name)
        if task is None:
            work.close()
        else:
            # A task that is cancelled before its first step never starts the work.
            task.add_done_callback(lambda _: work.close())

    def fail(self, error: Exception) -> None:
        """Stop the scheduler with this error."""
        self.spawn(_raise(error), "failure")

    async def _run_for_plugin(self, work: Coroutine[None, None, None], name: str) -> None:
        try:
            await _logged(work, name)
        finally:
            self._plugin_tasks -= 1


async def _raise(error: Exception) -> None:
    raise error


async def _logged(work: Coroutine[Any, Any, None], name: str) -> None:
    try:
        await work
    except Exception:  # noqa: BLE001 - code of a plugin
        _log.exception("Background work of a plugin failed: %s", name)


class BackgroundWork:
    """Keeps coroutines until `run`, which is called after each cycle in virtual time.

    Work that waits becomes a task of the event loop; other work costs no turn of it.
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
            task = asyncio.get_running_loop().create_task(_rest_of(work, waits_for))
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


async def _rest_of(work: Coroutine[Any, Any, None], waits_for: Any) -> None:
    """Run the rest of a started coroutine; a task takes no generator since Python 3.12."""
    await _resumed(work, waits_for)


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
