"""Starvation: nodes are reserved for a large job that small ones would keep from its room for ever.

The first job in the order that has waited for long, and fits nowhere, gets reservations for all
tasks that it needs, on nodes that could hold them if they were empty. As pods there end, only pods
that fit beside the reserved ones are placed. One job at a time has such a reservation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.failures import FrameworkError
from scheduler.queues.args import Rule
from scheduler.queues.jobs import TaskState
from scheduler.queues.reservations import Reservation
from scheduler.snapshot.columns import World

if TYPE_CHECKING:
    from scheduler.queues.jobs import Job, Task
    from scheduler.queues.parts import Parts
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.pod_info import PodInfo


class Starvation:
    """Reserves nodes for the first job that starves."""

    def __init__(self, parts: Parts) -> None:
        self._handle, args, self._ledger, self._order, self._reservations = parts
        self._after_seconds: Final = args.reservation_after_seconds
        self._releases_gangs: Final = args.release_unfit_gangs
        self._by_priority: Final = Rule.PRIORITY in args.rules
        self._by_share: Final = Rule.PROPORTION in args.rules

    async def failed(self, job: Job) -> None:
        """Reserve nodes for a job that fits nowhere, if it is its turn."""
        if not self._starves(job) or self._is_taken():
            return
        if any(self._goes_before(other, job) for other in self._ledger.jobs.values()):
            return
        # A gang that does not fit gives up the nodes that it holds.
        held = [*job.in_state(TaskState.RESERVED)] if self._releases_gangs else []
        needed = max(job.group.min_member - job.ready_count, 1)
        for task in (*held, *job.pending()[:needed]):
            node_name = self._node_for(task)
            if node_name is None:
                self._reservations.drop_job(job.key)
                return
            self._reservations.add(Reservation(task.pod, job.key, node_name, is_exclusive=False))
            await self._handle.let_others_run()

    def yields_to(self, job: Job) -> bool:
        """Return True if the job that starves leaves reserved room to another one.

        Within a queue to one of higher priority. Else to one whose queue has less than it deserves,
        if the other queue has not.
        """
        ledger = self._ledger
        key = next((r.job_key for r in self._reservations if not r.is_exclusive), "")
        starving = ledger.jobs.get(key)
        if starving is None:
            return False
        if ledger.queue_of(starving) == ledger.queue_of(job):
            return self._by_priority and ledger.priority_of(job) > ledger.priority_of(starving)
        return self._by_share and ledger.has_a_claim(job) and not ledger.has_a_claim(starving)

    def _starves(self, job: Job) -> bool:
        since = job.waits_since
        return (
            self._after_seconds > 0
            and since is not None
            and self._handle.now() - since >= self._after_seconds
        )

    def _is_taken(self) -> bool:
        return any(not reservation.is_exclusive for reservation in self._reservations)

    def _goes_before(self, other: Job, job: Job) -> bool:
        """Return True if another job starves, too, and goes first."""
        if other is job or not self._starves(other) or other.head is None:
            return False
        return self._key(other) < self._key(job)

    def _key(self, job: Job) -> tuple[object, ...]:
        queue = self._ledger.queue_of(job)
        return (
            (1,) if queue is None else (0, *self._order.of_queue(queue), *self._order.of_job(job))
        )

    def _node_for(self, task: Task) -> str | None:
        """Return the emptiest node that could hold a task if it had no pods."""
        nodes = self._handle.snapshot.nodes
        try:
            state = CycleState()
            self._handle.feasible_nodes(state, task.pod)  # fills the state by PreFilter
            worlds = self._handle.worlds(state, task.pod, nodes)
            numbers: list[World] = []
            pods: list[PodInfo] = []
            for world, on_node in enumerate(nodes.pods):
                numbers += [World(world)] * len(on_node)
                pods += on_node.values()
            worlds.remove_pods(numbers, pods)
            rejections = worlds.run_filters()
        except FrameworkError:
            return None
        fits: IntArray = (
            np.arange(len(nodes)) if rejections is None else np.flatnonzero(rejections.passed)
        )
        if not len(fits):
            return None
        lacking = np.zeros(len(fits), dtype=np.float64)
        for name, amount in task.requests.items():
            if not amount:
                continue
            lacking = np.maximum(lacking, (amount - nodes.unrequested(name)[fits]) / amount)
        return nodes.name(int(fits[int(lacking.argmin())]))
