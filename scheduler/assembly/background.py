"""Background work: coroutines of the scheduler and of its plugins, in one task group."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

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
            await work
        except Exception:  # noqa: BLE001 - code of a plugin
            _log.exception("Background work of a plugin failed: %s", name)
        finally:
            self._plugin_tasks -= 1


async def _raise(error: Exception) -> None:
    raise error
