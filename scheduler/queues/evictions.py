"""Evictions for a job: reclaim from other queues, then preemption within its own.

A plan has a node and victims for each task that the job lacks to be ready, and is made in the
snapshot, task by task. Either all these tasks have a node at the end, or nothing is evicted. The
victims of one task are found by the ordinary dry run (`scheduler.preemption`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.api.core import Pod
from scheduler.api.workloads import PodDisruptionBudget
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.extender import Victims
from scheduler.framework.failures import FrameworkError
from scheduler.framework.status import NodeToStatus, unschedulable
from scheduler.preemption import Candidate, Evaluator, Executor, VictimRules
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.executor import Preemptor
from scheduler.queues.args import Action
from scheduler.queues.reservations import Reservation
from scheduler.queues.victims import VictimSearch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.status import Status
    from scheduler.queues.jobs import Job, Task
    from scheduler.queues.parts import Parts
    from scheduler.snapshot.pod_info import PodInfo


class _Step(NamedTuple):
    """A task of a plan. `candidate` is None where it fits without evictions."""

    task: Task
    node_name: str
    candidate: Candidate | None

    @property
    def victims(self) -> Sequence[PodInfo]:
        return () if self.candidate is None else self.candidate.victims.pods


class Evictions:
    """Plans and starts evictions for the jobs of one profile."""

    def __init__(self, plugin_name: str, parts: Parts) -> None:
        self._parts: Final = parts
        self._handle, self._args, self._ledger, self._order, self._reservations = parts
        self._executor: Final = Executor(plugin_name, parts.handle)

    def is_running(self, uid: str) -> bool:
        """Return True while the victims of a pod are being evicted."""
        return self._executor.is_running_preemption(uid)

    def waits_for_victims(self, pod: PodInfo) -> bool:
        """Return True while a pod that was evicted for this one, or for its siblings, ends."""
        reservation = self._reservations.get(pod.uid)
        return reservation is not None and any(
            self._is_alive(victim)
            for sibling in self._reservations.of_job(reservation.job_key)
            for victim in sibling.victims
        )

    async def evict_for(
        self, job: Job, state: CycleState, statuses: NodeToStatus, *, has_its_share: bool
    ) -> tuple[str, Status | None] | None:
        """Evict for the next task of a job, and for the siblings that it is useless without.

        Within the queue alone if that has its share.
        Returns the node of the task, and a status if the evictions failed; None without a plan.
        """
        self._reservations.drop_job(job.key)
        for action in (Action.RECLAIM, Action.PREEMPT):
            if action not in self._args.actions or (has_its_share and action == Action.RECLAIM):
                continue
            search = VictimSearch(action, job, self._parts)
            steps = await self._plan(job, search, state, statuses, action=action)
            if any(step.victims for step in steps):
                return steps[0].node_name, await self._actuate(job, steps, action)
        return None

    async def _plan(
        self,
        job: Job,
        search: VictimSearch,
        state: CycleState,
        statuses: NodeToStatus,
        *,
        action: Action,
    ) -> list[_Step]:
        """Return the steps of a plan; none if not all tasks that are needed have a node."""
        tasks, needed = self._tasks(job, action)
        steps: list[_Step] = []
        snapshot = self._handle.snapshot
        with snapshot.unchanged_pods():
            for task in tasks:
                if len(steps) >= needed and not search.begin(task):
                    break
                step = await self._step(
                    search,
                    task,
                    state if not steps else CycleState(),
                    statuses if not steps else None,
                )
                if step is None:
                    break
                steps.append(step)
                search.place(task, step.victims)
                snapshot.remove_pods(step.node_name, step.victims)
                snapshot.add_pod(task.pod.assigned_to(step.node_name))
                await self._handle.let_others_run()
        return steps if len(steps) >= needed else []

    def _tasks(self, job: Job, action: Action) -> tuple[list[Task], int]:
        """Return the tasks of a plan in their order, and the number that must have a node.

        A job that is ready needs one. Members without requests find a node by themselves.
        """
        pending = job.pending()
        lacking = job.group.min_member - job.ready_count - job.best_effort_count
        needed = max(lacking, 1)
        if needed > len(pending):
            return [], 1
        all_at_once = (
            self._args.return_borrowed_room
            if action == Action.RECLAIM
            else not self._args.count_idle_room
        )
        return (pending if all_at_once else pending[:needed]), needed

    async def _step(
        self,
        search: VictimSearch,
        task: Task,
        state: CycleState,
        statuses: NodeToStatus | None,
    ) -> _Step | None:
        """Return a node for a task, with victims if it fits nowhere; None if there is none."""
        try:
            if statuses is None:
                node_name = self._fitting(task, state)
                if node_name is not None:
                    return _Step(task, node_name, None)
                # Evictions may help on any node.
                table = self._handle.snapshot.table
                statuses = NodeToStatus(table.names, table.row_of)
                statuses.absent_nodes_status = unschedulable()
            evaluator = self._evaluator(search)
            for largest_first in (False, True):
                if not search.begin(task, largest_first=largest_first):
                    break
                if search.ignores_idle_room:
                    candidates = self._covering(search, task, state)
                    chosen = await evaluator.best_of(state, task.pod, candidates)
                else:
                    chosen = await evaluator.choose(state, task.pod, statuses)
                if isinstance(chosen, Candidate):
                    return _Step(task, chosen.name, chosen)
        except FrameworkError:
            pass
        return None

    def _fitting(self, task: Task, state: CycleState) -> str | None:
        """Return the emptiest node on which a task fits as the snapshot is; None without one."""
        fits = self._handle.feasible_nodes(state, task.pod)
        if not len(fits) or not self._args.count_idle_room:
            return None
        free = np.ones(len(fits), dtype=np.float64)
        for name in filter(task.requests.get, task.requests):
            free = np.minimum(free, fits.unrequested(name) / np.maximum(fits.allocatable(name), 1))
        return fits.name(int(free.argmax()))

    def _covering(self, search: VictimSearch, task: Task, state: CycleState) -> list[Candidate]:
        """Return the nodes on which victims alone make room for a task."""
        nodes = self._handle.snapshot.nodes
        victims = [search.covering(node) for node in nodes]
        nodes = nodes.take(np.array([bool(pods) for pods in victims], dtype=np.bool_))
        victims = [pods for pods in victims if pods]
        if not victims or task.pod.spec.preemption_policy == "Never":
            return []
        worlds = self._handle.worlds(state, task.pod, nodes)
        numbers = np.repeat(np.arange(len(victims)), [len(pods) for pods in victims])
        worlds.remove_pods(numbers, [pod for pods in victims for pod in pods])
        rejections = worlds.run_filters()
        budgets = Budgets(self._handle.lister(PodDisruptionBudget).list())
        return [
            Candidate(name, Victims(pods, sum(budgets.violations([[pod] for pod in pods]))))
            for number, (name, pods) in enumerate(zip(nodes.names, victims, strict=True))
            if rejections is None or rejections.status(number) is None
        ]

    def _evaluator(self, search: VictimSearch) -> Evaluator:
        return Evaluator(
            self._handle,
            self._executor,
            offset_and_num_candidates=lambda nodes_total: (0, nodes_total),
            rules=VictimRules(
                is_eligible_pod=search.is_eligible,
                more_important_pod=search.more_important,
                ordered_score_funcs=search.score_funcs,
                any_priority=True,
            ),
        )

    async def _actuate(self, job: Job, steps: Sequence[_Step], action: Action) -> Status | None:
        """Reserve the nodes of a plan and evict the victims; return a status on failure."""
        label = action.value, self._handle.profile_name
        self._handle.metrics.queue_evictions[label] += sum(len(step.victims) for step in steps)
        for step in steps:
            self._reservations.add(
                Reservation(step.task.pod, job.key, step.node_name, tuple(step.victims))
            )
        for step in steps:
            if step.candidate is not None:
                preemptor = Preemptor.from_pod(step.task.pod)
                status = await self._executor.actuate(step.candidate, preemptor)
                if status is not None:
                    self._reservations.drop_job(job.key)
                    return status
        return None

    def _is_alive(self, pod: PodInfo) -> bool:
        current = self._handle.lister(Pod).get(pod.name, pod.namespace)
        return current is not None and current.metadata.uid == pod.uid
