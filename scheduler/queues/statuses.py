"""Statuses: writes the status of groups and queues, as kube-batch writes it.

    group   phase (Pending, Running, Unknown), running, succeeded, failed, conditions
    queue   the number of groups by phase: pending, running, unknown

Writes run in the background, one object after another; of several changes the last is written. A
kind without the subresource `status` gets the fields in the object itself.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from scheduler.clock import rfc3339
from scheduler.framework.handle import ObjectNotFoundError
from scheduler.klog import V2
from scheduler.queues.jobs import TaskState
from scheduler.queues.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.framework.handle import Handle
    from scheduler.queues.jobs import Job

_log: Final = logging.getLogger(__name__)

_UNSCHEDULABLE: Final = "Unschedulable"


class Statuses:
    """Writes the statuses of the groups and queues that have changed."""

    def __init__(self, handle: Handle) -> None:
        self._handle: Final = handle
        self._ledger: Final = handle.shared(Ledger)
        #: The keys of groups, and the names of queues, whose status may have changed.
        self._changed: Final[dict[tuple[str, str], None]] = {}
        #: The statuses that were written, by kind and key.
        self._written: Final[dict[tuple[str, str], Mapping[str, Any]]] = {}
        self._conditions: Final[dict[str, Mapping[str, str]]] = {}
        self._is_writing = False
        self._transitions = 0
        #: The kinds whose objects could not be written.
        self._refused: Final[set[str]] = set()
        self._ledger.listeners.append(self)

    def unschedulable(self, job: Job, reason: str) -> None:
        """Set the condition of a gang that is not ready: why its next task has no node."""
        lacking = job.group.min_member - job.ready_count
        if lacking <= 0 or job.is_shadow:
            return
        message = f"{lacking}/{len(job.tasks)} tasks in gang unschedulable: {reason}"
        old = self._conditions.get(job.key)
        if old is not None and old["message"] == message:
            return
        self._transitions += 1
        self._conditions[job.key] = {
            "type": _UNSCHEDULABLE,
            "status": "True",
            "transitionID": str(self._transitions),
            "lastTransitionTime": rfc3339(self._handle.now()),
            "reason": "NotEnoughResources",
            "message": message,
        }
        self.on_change(job)

    # What the ledger reports.

    def on_change(self, job: Job, /) -> None:
        """Write the status of a group and of its queue soon."""
        queue = self._ledger.queue_of(job)
        if job.is_shadow or not job.group.kind or queue is None:
            return
        self._changed[job.group.kind, job.key] = None
        self._changed[queue.kind, queue.name] = None
        if not self._is_writing:
            self._is_writing = True
            self._handle.spawn(self._write_all(), "write the statuses of queues")

    def on_room(self, jobs: Iterable[Job], /) -> None:
        """Room changes no status."""

    def on_new_task(self, job: Job, /) -> None:
        """A new task is a change, too."""

    async def _write_all(self) -> None:
        try:
            while self._changed:
                kind, key = next(iter(self._changed))
                del self._changed[kind, key]
                status = self._status(key)
                if status is not None and self._written.get((kind, key)) != status:
                    self._written[kind, key] = status
                    await self._write(kind, key, status)
        finally:
            self._is_writing = False

    async def _write(self, kind: str, key: str, status: Mapping[str, Any]) -> None:
        namespace, _, name = key.rpartition("/")
        client = self._handle.api.client(kind)
        patch = {"status": status}
        try:
            try:
                await client.patch(name, patch, namespace=namespace, subresource="status")
            except ObjectNotFoundError:
                await client.patch(name, patch, namespace=namespace)
        except Exception as failure:  # noqa: BLE001 - the next change is written all the same
            level = V2 if kind in self._refused else logging.INFO
            self._refused.add(kind)
            pair = {"kind": kind, "object": key, "err": failure}
            _log.log(level, "Cannot write a status", pair)

    def _status(self, key: str) -> dict[str, Any] | None:
        """Return the status of the group, or the queue, of a key; None if it is gone."""
        if key in self._ledger.groups:
            job = self._ledger.jobs.get(key)
            return None if job is None else self._of_group(job)
        return self._of_queue(key) if key in self._ledger.queues else None

    def _of_group(self, job: Job) -> dict[str, Any]:
        condition = self._conditions.get(job.key)
        status = {
            "phase": self._phase(job),
            "running": sum(
                1 for t in job.in_state(TaskState.PLACED) if t.pod.pod.status.phase == "Running"
            ),
            "succeeded": job.succeeded,
            "failed": len(job.finished["Failed"]),
        }
        return {**status, "conditions": [condition]} if condition is not None else status

    def _phase(self, job: Job) -> str:
        bound = sum(1 for _ in job.in_state(TaskState.PLACED))
        if job.waits_since is not None and not job.is_ready and bound:
            return "Unknown"
        return "Running" if bound >= max(job.group.min_member, 1) else "Pending"

    def _of_queue(self, name: str) -> dict[str, Any]:
        counts = {"pending": 0, "running": 0, "unknown": 0}
        for key in self._ledger.groups:
            job = self._ledger.jobs.get(key)
            queue = self._ledger.queue_of(job) if job is not None else None
            if job is not None and queue is not None and queue.name == name:
                counts[self._phase(job).lower()] += 1
        return counts
