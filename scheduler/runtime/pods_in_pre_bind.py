"""Pods in PreBind. A preemption can cancel them.

Source: `pkg/scheduler/framework/runtime/pods_in_prebind_map.go`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Coroutine


class PodCanceled(Exception):
    """The message of `cancel_pod`. The cancellation of the plugins' work carries it."""

    @classmethod
    def from_cancellation(cls, canceled: asyncio.CancelledError) -> PodCanceled:
        """Return the reason of a cancellation; raise cancellations of another cause again."""
        for reason in canceled.args:
            if isinstance(reason, cls):
                return reason
        raise canceled


class _PodInPreBind:
    """A pod in PreBind; satisfies `scheduler.framework.handle.PodInPreBind`.

    running --cancel_pod--> canceled: the binding fails
       |----all done------> finished: it cannot be canceled any more
    """

    def __init__(self, work: Coroutine[None, None, Status | None]) -> None:
        self._work: Final = asyncio.ensure_future(work)
        self._cause: str | None = None

    def cancel_pod(self, message: str) -> bool:
        if self._work.done() and self._cause is None:
            return False
        if self._cause is None:
            self._cause = message
            self._work.cancel(PodCanceled(message))
        return True

    async def wait(self) -> Status | None:
        """Return the plugins' status, or an Error status if the pod was canceled.

        A plugin that ignores the cancellation does not change that. A cancellation of the caller
        stops the plugins and is raised again.
        """
        try:
            status = await self._work
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._cause is None or (task is not None and task.cancelling()):
                raise
            status = None
        if self._cause is not None and status is None:
            return Status(Code.ERROR, self._cause)
        return status


class PodsInPreBind:
    """All pods in PreBind, of every profile, by uid."""

    def __init__(self) -> None:
        self._pods: Final[dict[str, _PodInPreBind]] = {}

    def get(self, uid: str) -> _PodInPreBind | None:
        """Return the pod of this uid; None if it is not in PreBind."""
        return self._pods.get(uid)

    async def run(self, uid: str, work: Coroutine[None, None, Status | None]) -> Status | None:
        """Run the work of the PreBind plugins for a pod, which can be canceled meanwhile."""
        pod = self._pods[uid] = _PodInPreBind(work)
        try:
            return await pod.wait()
        finally:
            del self._pods[uid]
