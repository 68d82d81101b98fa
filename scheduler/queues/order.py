"""The order of pods: by queue, then by job, then by task.

Shares change while pods wait: the order is computed anew whenever a pod is popped.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from scheduler.queues.amounts import dominant_share
from scheduler.queues.args import QueuesArgs, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.framework.types import QueuedPod
    from scheduler.queues.jobs import Job, Task
    from scheduler.queues.ledger import Ledger
    from scheduler.queues.objects import Queue
    from scheduler.queues.reservations import Reservations


class _Rank(IntEnum):
    """The first part of a key."""

    #: A gang whose members hold room goes on until it is complete, or fails; as does a job for
    #: which pods were evicted.
    IN_PROGRESS = 0
    ORDINARY = 1
    #: Pods without requests fill the gaps.
    BACKFILL = 2
    #: Pods that are no tasks of a job with a queue.
    OTHER = 3


class Order:
    """Computes the keys of queues, jobs and tasks. The least goes first.

    Between equals the creation decides, then the name.
    """

    def __init__(self, args: QueuesArgs, ledger: Ledger, reservations: Reservations) -> None:
        self._reservations: Final = reservations
        self._ledger: Final = ledger
        rules = args.rules
        self._by_share: Final = Rule.PROPORTION in args.queue_order and Rule.PROPORTION in rules
        keys: dict[Rule, Callable[[Job], float]] = {
            Rule.PRIORITY: lambda job: -ledger.priority_of(job),
            Rule.GANG: lambda job: job.is_ready,
            Rule.DRF: self.share_of_job,
        }
        self._job_keys: Final = [keys[rule] for rule in args.job_order if rule in rules]

    def key(self, queued: QueuedPod) -> tuple[object, ...]:
        """Return the key of a waiting pod; all keys can be compared."""
        pod = queued.pod_info
        job = self._ledger.job_of(pod)
        task = job.tasks.get(pod.uid) if job is not None else None
        queue = self._ledger.queue_of(job) if job is not None else None
        if job is None or task is None or queue is None:
            return _Rank.OTHER, -pod.priority, queued.timestamp
        return self._rank(job, task), *self.of_queue(queue), *self.of_job(job), job.task_order(task)

    def of_queue(self, queue: Queue) -> tuple[object, ...]:
        """Return the key of a queue."""
        share = self.share_of_queue(queue.name) if self._by_share else 0.0
        return share, queue.created, queue.name

    def of_job(self, job: Job) -> tuple[object, ...]:
        """Return the key of a job among the jobs of its queue."""
        return *(key(job) for key in self._job_keys), job.group.created, job.key

    def share_of_queue(self, name: str) -> float:
        """Return the largest part of a deserved amount that a queue has; scarce resources count."""
        share, contended = self._ledger.shares[name], self._ledger.contended
        scarce = {n: amount for n, amount in share.deserved.items() if n in contended}
        return dominant_share(share.allocated, scarce or share.deserved)

    def share_of_job(self, job: Job) -> float:
        """Return the largest part of the cluster's resources that a job has."""
        return dominant_share(job.allocated, self._ledger.total)

    def _rank(self, job: Job, task: Task) -> _Rank:
        if task.is_best_effort:
            return _Rank.BACKFILL
        reservation = self._reservations.get(task.uid)
        is_expected = reservation is not None and reservation.is_exclusive
        return _Rank.IN_PROGRESS if is_expected or job.is_in_progress else _Rank.ORDINARY
