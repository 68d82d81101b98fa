"""Jobs that have ended are deleted after `ttlSecondsAfterFinished`.

Source: pkg/controller/ttlafterfinished of Kubernetes v1.36.3.
"""

from __future__ import annotations

from fakeapi.actors.conditions import condition_of
from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.resources import JOBS
from fakeapi.types import times
from fakeapi.types.objects import is_deleting, mapping, text

__all__ = ["FinishedJobs"]


class FinishedJobs(Controller):
    """Deletes Jobs, their pods before them, once their time is over."""

    name = "ttl-after-finished-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._jobs = self.follow(JOBS)

    async def sync(self, key: str) -> None:
        """Delete a Job, or come back when it is to be. Raises ActorApiError."""
        job = self._jobs.objects.get(key)
        seconds = mapping((job or {}).get("spec")).get("ttlSecondsAfterFinished")
        if job is None or is_deleting(job) or not isinstance(seconds, int):
            return
        for kind in ("Complete", "Failed"):
            condition = condition_of(job, kind)
            if condition.get("status") == "True":
                ended = times.epoch_seconds(text(condition.get("lastTransitionTime")))
                left = ended + seconds - self.clock.now()
                if left > 0:
                    self.queue.add_after(key, left)
                else:
                    await self.delete(JOBS, job, propagationPolicy="Foreground")
                return
