"""A job: the tasks of one group, by their states."""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from scheduler.queues.amounts import Amounts, add, shared
from scheduler.queues.objects import Group, seconds_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from scheduler.api.core import Pod
    from scheduler.snapshot.pod_info import PodInfo

#: The priority of a pod without one, as in kube-batch.
_DEFAULT_TASK_PRIORITY: Final = 1


class TaskState(IntEnum):
    """The state of a task."""

    PENDING = 0
    #: A node that Reserve has been called for; the pod is not bound yet.
    RESERVED = 1
    PLACED = 2
    #: A node, and a time of deletion.
    RELEASING = 3


class Task:
    """A pod of a job."""

    __slots__ = ("created", "is_best_effort", "pod", "priority", "requests", "state", "uid")

    def __init__(self, pod: PodInfo, state: TaskState) -> None:
        self.pod: Final = pod
        self.uid: Final = pod.uid
        self.state: Final = state
        self.requests: Final[Amounts] = shared(pod.requests.resources)
        #: True for a pod that requests nothing: backfill places it.
        self.is_best_effort: Final = not any(self.requests.values())
        priority = pod.spec.priority
        self.priority: Final = _DEFAULT_TASK_PRIORITY if priority is None else priority
        self.created: Final = seconds_of(pod.pod.metadata)


class Job:
    """A group of a queue, or the shadow group of pods without one."""

    def __init__(self, group: Group, *, is_shadow: bool, by_priority: bool) -> None:
        self.group = group
        self.is_shadow: Final = is_shadow
        self.key: Final = group.key
        self.tasks: Final[dict[str, Task]] = {}
        #: What the tasks request that have a node, or want one; none that are being deleted.
        self.allocated: Final[dict[str, float]] = {}
        self.pending_requests: Final[dict[str, float]] = {}
        self._counts: Final = dict.fromkeys(TaskState, 0)
        self._best_effort: Final[dict[str, Task]] = {}
        #: The uids of finished pods that were seen, by phase.
        self.finished: Final[dict[str, set[str]]] = {"Succeeded": set(), "Failed": set()}
        #: Since when the next task waits for a node, or for the share; None if not. Epoch seconds.
        self.waits_since: float | None = None
        self._by_priority: Final = by_priority
        #: The pending tasks with requests in their order; also tasks that are no longer pending.
        self._line: Final[list[tuple[tuple[float, float, str], str]]] = []

    def set(self, task: Task) -> None:
        """Add a task, or replace the one with its uid."""
        old = self.tasks.get(task.uid)
        self._count(old, -1)
        self.tasks[task.uid] = task
        self._count(task, 1)
        is_pending = task.state == TaskState.PENDING and not task.is_best_effort
        if is_pending and (old is None or old.state != TaskState.PENDING):
            heapq.heappush(self._line, (self.task_order(task), task.uid))

    def remove(self, uid: str) -> None:
        """Remove a task; a no-op if there is none."""
        self._count(self.tasks.pop(uid, None), -1)

    def _count(self, task: Task | None, sign: int) -> None:
        if task is None:
            return
        self._counts[task.state] += sign
        if task.state == TaskState.PENDING and task.is_best_effort:
            if sign > 0:
                self._best_effort[task.uid] = task
            else:
                del self._best_effort[task.uid]
        elif task.state == TaskState.PENDING:
            add(self.pending_requests, task.requests, sign)
        elif task.state != TaskState.RELEASING:
            add(self.allocated, task.requests, sign)

    def task_order(self, task: Task) -> tuple[float, float, str]:
        """Return the place of a task among its siblings; the least goes first."""
        return (-task.priority if self._by_priority else 0), task.created, task.uid

    @property
    def head(self) -> Task | None:
        """The pending task with requests that goes first; the others wait behind it."""
        while self._line:
            task = self.tasks.get(self._line[0][1])
            if task is not None and task.state == TaskState.PENDING:
                return task
            heapq.heappop(self._line)
        return None

    @property
    def best_effort(self) -> Collection[Task]:
        """The pending tasks without requests."""
        return self._best_effort.values()

    def pending(self) -> list[Task]:
        """Return the pending tasks with requests, in their order."""
        return sorted(
            (task for task in self.in_state(TaskState.PENDING) if not task.is_best_effort),
            key=self.task_order,
        )

    def in_state(self, *states: TaskState) -> Iterator[Task]:
        """Return the tasks in some states."""
        return (task for task in self.tasks.values() if task.state in states)

    @property
    def succeeded(self) -> int:
        """The number of pods that succeeded, before the start of the scheduler too."""
        return max(len(self.finished["Succeeded"]), self.group.succeeded)

    @property
    def ready_count(self) -> int:
        """The number of tasks with a node or succeeded: they count for minMember."""
        counts = self._counts
        return counts[TaskState.RESERVED] + counts[TaskState.PLACED] + self.succeeded

    @property
    def is_ready(self) -> bool:
        """True if enough tasks have a node to be bound."""
        return self.ready_count >= self.group.min_member

    @property
    def has_enough(self) -> bool:
        """True if there are enough pods to become ready."""
        return self.ready_count + self._counts[TaskState.PENDING] >= self.group.min_member

    @property
    def best_effort_count(self) -> int:
        """The number of pending tasks without requests."""
        return len(self.best_effort)

    @property
    def is_in_progress(self) -> bool:
        """True for a gang of which some tasks are held, and not yet enough."""
        return self._counts[TaskState.RESERVED] > 0 and not self.is_ready


def state_of(pod: Pod) -> TaskState:
    """Return the state of a pod as the API server has it."""
    if pod.metadata.deletion_timestamp is not None:
        return TaskState.RELEASING
    return TaskState.PLACED if pod.spec.node_name else TaskState.PENDING
