"""Waking: which jobs are tried again, and when.

A job whose next task fits nowhere waits until there is more room: a pod with a node is gone, a node
has changed, or a gang has given up the nodes that it held. A job whose queue has its deserved
amounts waits until the queue has less.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from scheduler.queues.amounts import has_all
from scheduler.queues.args import Action
from scheduler.queues.jobs import Job, TaskState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.queues.parts import Parts


class Waking:
    """Activates the next tasks of jobs that may go on."""

    def __init__(self, parts: Parts) -> None:
        self._handle, self._args, self._ledger, _, self._reservations = parts
        self._numbers: Final = itertools.count(1)
        #: The jobs whose next task fits nowhere, by the number of the failure.
        self._failed: Final[dict[str, int]] = {}
        #: When each gang began to hold nodes, as such a number.
        self._held_since: Final[dict[str, int]] = {}
        self._waits_for_share: Final[set[str]] = set()
        #: What queues had beyond their shares at the last change.
        self._excess: Mapping[tuple[str, str], float] = {}
        #: What queues may have now, and the state that it was computed for.
        self._limits: Final[dict[str, Mapping[str, float]]] = {}
        self._limits_as_of: object = None
        self._ledger.listeners.append(self)

    # What the plugin reports.

    def failed(self, job: Job) -> None:
        """Let a job wait for room."""
        self._failed[job.key] = next(self._numbers)
        self._waits(job)
        self._wake_for_share()

    def wait_for_share(self, job: Job) -> None:
        """Let a job wait until its queue has less than it deserves."""
        self._waits_for_share.add(job.key)
        self._waits(job)

    def _waits(self, job: Job) -> None:
        if job.waits_since is None:
            job.waits_since = self._handle.now()

    def is_sharing(self, job: Job) -> bool:
        """Return True if a job waits for the share of its queue."""
        return job.key in self._waits_for_share

    def has_its_share(self, queue_name: str) -> bool:
        """Return True if a queue has all that it deserves.

        With `releaseUnfitGangs` it may borrow what jobs that fit nowhere cannot use.
        """
        if not self._args.release_unfit_gangs or not self._failed:
            limit = self._ledger.shares[queue_name].deserved
        else:
            limit = self._limit(queue_name)
        return has_all(self._ledger.shares[queue_name].allocated, limit)

    def _limit(self, queue_name: str) -> Mapping[str, float]:
        """Return what a queue deserves if jobs of others that fit nowhere ask for nothing."""
        state = self._ledger.version, frozenset(self._failed)
        if self._limits_as_of != state:
            self._limits_as_of = state
            self._limits.clear()
        if queue_name not in self._limits:
            jobs = (self._ledger.jobs[key] for key in self._failed if key in self._ledger.jobs)
            owners = ((job.key, self._ledger.queue_of(job)) for job in jobs)
            others = {key for key, of in owners if of is not None and of.name != queue_name}
            self._limits[queue_name] = self._ledger.limits(others)[queue_name]
        return self._limits[queue_name]

    def placed(self, job: Job) -> None:
        """Try the next task of a job, one of which has a node now."""
        self._failed.pop(job.key, None)
        if job.is_in_progress:
            self._held_since.setdefault(job.key, next(self._numbers))
        else:
            job.waits_since = None
            self._held_since.pop(job.key, None)
            self._wake_for_excess()
        self._activate((job,))

    def released(self, job: Job) -> None:
        """Try the jobs again that failed while a gang held nodes, or all after another failure."""
        since = self._held_since.get(job.key)
        if not any(job.in_state(TaskState.RESERVED)):
            self._held_since.pop(job.key, None)
        others = [
            other
            for other in self._ledger.jobs.values()
            if other is not job and (since is None or self._failed.get(other.key, 0) > since)
        ]
        is_given_up = since is not None and self._args.release_unfit_gangs
        self._activate(others if is_given_up else (*others, job))

    # What the ledger reports.

    def on_room(self, jobs: Iterable[Job], /) -> None:
        """Try jobs again: there is more room for them."""
        self._activate(jobs)

    def on_new_task(self, job: Job, /) -> None:
        """Try a job that has a new task, unless an earlier one waits for room."""
        if job.key not in self._failed:
            self._activate((job,))

    def on_change(self, job: Job, /) -> None:
        """Take note that the tasks of a job have changed."""
        for reservation in self._reservations.of_job(job.key):
            task = job.tasks.get(reservation.pod.uid)
            if task is None or task.state != TaskState.PENDING:
                self._reservations.drop(reservation.pod.uid)
                # A gang that is in progress may give its nodes up, and gets them reserved again.
                if task is None or not (reservation.is_exclusive or job.is_in_progress):
                    self._activate(self._ledger.jobs.values())
        if not job.tasks:
            self._failed.pop(job.key, None)
            self._waits_for_share.discard(job.key)
            self._held_since.pop(job.key, None)
        self._wake_for_share()
        if not job.is_in_progress:
            self._wake_for_excess()

    def _wake_for_excess(self) -> None:
        """Try the jobs again that wait for room, if a queue has come to more than its share.

        The nodes that a gang holds until it is complete do not count: two gangs that do not fit
        would wake one another for ever.
        """
        if self._held_since:
            return
        if not self._failed or Action.RECLAIM not in self._args.actions:
            self._excess = {}
            return
        before, self._excess = self._excess, self._ledger.excess()
        if all(amount <= before.get(key, 0) for key, amount in self._excess.items()):
            return
        waiting = (self._ledger.jobs.get(key) for key in self._failed)
        self._activate(job for job in waiting if job is not None and self._has_a_claim(job))

    def _has_a_claim(self, job: Job) -> bool:
        """Return True if the queue of a job has less than it deserves."""
        queue = self._ledger.queue_of(job)
        share = self._ledger.shares.get(queue.name) if queue is not None else None
        return share is not None and not has_all(share.allocated, share.deserved)

    def _wake_for_share(self) -> None:
        """Try the jobs again whose queue has less than it deserves."""
        awake: list[Job] = []
        for key in sorted(self._waits_for_share):
            job = self._ledger.jobs.get(key)
            queue = self._ledger.queue_of(job) if job is not None else None
            if job is None or queue is None or not job.tasks:
                self._waits_for_share.discard(key)
            elif not self.has_its_share(queue.name):
                self._waits_for_share.discard(key)
                awake.append(job)
        self._activate(awake)

    def _activate(self, jobs: Iterable[Job]) -> None:
        """Activate the next task of each job, and the tasks without requests."""
        pods = {}
        for job in jobs:
            head = job.head
            if head is not None:
                pods[head.pod.key] = head.pod
            for task in job.best_effort:
                pods[task.pod.key] = task.pod
        if pods:
            self._handle.activate(pods)
