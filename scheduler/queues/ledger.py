"""The ledger: queues, jobs and tasks, as the informers and Reserve report them.

Pods and their groups arrive in any order: a task waits in its job, which counts once its group and
the group's queue exist. All profiles share one ledger.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from scheduler.api import resources
from scheduler.api.core import Node, Pod
from scheduler.api.pod_groups import PodGroup
from scheduler.config.types import GENERIC_WORKLOAD
from scheduler.queues.amounts import add, reached, shared
from scheduler.queues.jobs import Job, Task, TaskState, state_of
from scheduler.queues.objects import (
    POD_GROUP_KINDS,
    PRIORITY_CLASS_KIND,
    QUEUE_KINDS,
    Group,
    PriorityClass,
    Queue,
    group_key_of,
    group_of,
    group_of_core,
    priority_class_of,
    queue_of,
    shadow_key_of,
)
from scheduler.queues.water_filling import Demand, deserved
from scheduler.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from scheduler.api.unstructured import Unstructured
    from scheduler.framework.handle import Handle
    from scheduler.queues.amounts import Amounts

_log: Final = logging.getLogger(__name__)

T = TypeVar("T")


class LedgerOptions(NamedTuple):
    """The arguments that the ledger depends on; the profiles must agree in them."""

    default_queue: str
    tasks_by_priority: bool
    fill: Callable[[Amounts, Mapping[str, Demand]], dict[str, dict[str, float]]]


class Share(NamedTuple):
    """The amounts that a queue has, requests and deserves."""

    allocated: dict[str, float]
    request: Mapping[str, float]
    deserved: Mapping[str, float]


class Listener(Protocol):
    """Learns of changes of the ledger."""

    def on_room(self, jobs: Iterable[Job], /) -> None:
        """Called with jobs whose waiting tasks may fit now."""

    def on_new_task(self, job: Job, /) -> None:
        """Called with a job that has a task more."""

    def on_change(self, job: Job, /) -> None:
        """Called with a job whose group or tasks have changed."""


class Ledger:
    """Queues, jobs and tasks; listeners are called after each change."""

    def __init__(self, handle: Handle) -> None:
        self._handle: Final = handle
        self.options = LedgerOptions("default", tasks_by_priority=True, fill=deserved)
        #: The names of the profiles whose pods without a group count.
        self.profiles: Final[set[str]] = set()
        self.queues: Final[dict[str, Queue]] = {}
        #: The groups, also those whose queue does not exist.
        self.groups: Final[dict[str, Group]] = {}
        #: The jobs by key, also those whose group does not exist yet.
        self.jobs: Final[dict[str, Job]] = {}
        self._job_of: Final[dict[str, Job]] = {}
        self._classes: Final[dict[str, PriorityClass]] = {}
        self._nodes: Final[dict[str, dict[str, float]]] = {}
        self.total: Final[dict[str, float]] = {}
        self._shares: dict[str, Share] | None = None
        #: The number of changes of requests.
        self.version = 0
        self.listeners: Final[list[Listener]] = []
        self._has_core_groups: Final = GENERIC_WORKLOAD in handle.feature_gates
        self._watch()

    def join(self, profile_name: str, options: LedgerOptions) -> None:
        """Add a profile; raises ValueError if another one has other options."""
        if self.profiles and options != self.options:
            raise ValueError(
                "profiles differ in defaultQueue, taskOrder or fillEachResource: they must not"
            )
        self.options = options
        self.profiles.add(profile_name)

    def _watch(self) -> None:
        on_change = self._handle.on_change
        on_change(Node, self._on_node)
        on_change(Pod, self._on_pod)
        for kind in QUEUE_KINDS:
            on_change(kind, self._reads(queue_of, kind, self._on_queue))
        for kind in POD_GROUP_KINDS:
            on_change(kind, self._reads(group_of, kind, self._on_group))
        if self._has_core_groups:
            on_change(PodGroup, self._on_core_group)
        on_change(PRIORITY_CLASS_KIND, self._on_priority_class)

    def _reads(
        self,
        read: Callable[[Unstructured, str], T],
        kind: str,
        call: Callable[[str, T | None], None],
    ) -> Callable[[Any, Any], None]:
        """Return a function for `on_change` that passes on the decoded object, or None."""

        def on_change(old: Unstructured | None, new: Unstructured | None) -> None:
            obj = new if new is not None else old
            assert obj is not None, "a change has an object"
            namespace, name = obj.metadata.namespace, obj.metadata.name
            key = f"{namespace}/{name}" if namespace else name
            try:
                call(key, read(new, kind) if new is not None else None)
            except msgspec.ValidationError as error:
                _log.error("Ignored an object that is malformed", {"object": key, "err": error})

        return on_change

    # Objects.

    def _on_queue(self, name: str, queue: Queue | None) -> None:
        if queue is None:
            self.queues.pop(name, None)
        else:
            self.queues[name] = queue
        self._changed()
        self._on_room(self.jobs.values())

    def _on_group(self, key: str, group: Group | None) -> None:
        if group is None:
            self.groups.pop(key, None)
        else:
            before = self.groups.get(key)
            self.groups[key] = group
            if before is not None and before._replace(succeeded=group.succeeded) == group:
                if (job := self.jobs.get(key)) is not None:
                    job.group = group
                return
        self._changed()
        if (job := self.jobs.get(key)) is not None:
            job.group = group or _missing(key)
            self._on_room((job,))
            self._on_change(job)
        elif group is not None:
            self._on_change(self._job(key, is_shadow=False))

    def _on_core_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        obj = new if new is not None else old
        assert obj is not None, "a change has an object"
        key = f"{obj.metadata.namespace}/{obj.metadata.name}"
        self._on_group(key, group_of_core(new) if new is not None else None)

    def _on_priority_class(self, old: Unstructured | None, new: Unstructured | None) -> None:
        if old is not None:
            self._classes.pop(old.metadata.name, None)
        if new is not None:
            self._classes[new.metadata.name] = priority_class_of(new)

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if old is not None:
            add(self.total, self._nodes.pop(old.metadata.name, {}), -1)
        if new is not None:
            amounts = shared(resources.node_allocatable(new.status.allocatable))
            self._nodes[new.metadata.name] = amounts
            add(self.total, amounts)
            self._on_room(self.jobs.values())
        self._changed()

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        assert pod is not None, "a change has an object"
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self._on_pod(old, None)
            self._on_pod(None, new)
            return
        job = self._job_of.get(pod.metadata.uid)
        if new is None:
            if job is not None:
                self._remove(job, pod)
            if pod.spec.node_name:
                self._on_room(self.jobs.values())
            return
        if job is None:
            key = group_key_of(new)
            if not key and new.spec.scheduler_name not in self.profiles:
                return
            job = self._job(key or shadow_key_of(new), is_shadow=not key)
            self._job_of[new.metadata.uid] = job
        before = job.tasks.get(new.metadata.uid)
        state = state_of(new)
        if before is not None and before.state == TaskState.RESERVED and state == TaskState.PENDING:
            return
        self._set(job, Task(PodInfo(new), state))
        if before is None and state == TaskState.PENDING:
            for listener in self.listeners:
                listener.on_new_task(job)
        elif state == TaskState.RELEASING:
            self._on_room((job,))

    def _remove(self, job: Job, pod: Pod) -> None:
        """Forget a pod that is gone; one that has finished still counts."""
        job.remove(pod.metadata.uid)
        del self._job_of[pod.metadata.uid]
        if (finished := job.finished.get(pod.status.phase)) is not None:
            finished.add(pod.metadata.uid)
        if not job.tasks and job.key not in self.groups:
            self.jobs.pop(job.key, None)
        self._changed()
        self._on_change(job)
        self._on_room((job,))

    def _set(self, job: Job, task: Task) -> None:
        job.set(task)
        self._changed()
        self._on_change(job)

    def _job(self, key: str, *, is_shadow: bool) -> Job:
        job = self.jobs.get(key)
        if job is None:
            group = Group(key, "", 1, "", 0.0, "") if is_shadow else self.groups.get(key)
            by_priority = self.options.tasks_by_priority
            job = Job(group or _missing(key), is_shadow=is_shadow, by_priority=by_priority)
            self.jobs[key] = job
        return job

    # Reserve.

    def reserve(self, pod: PodInfo) -> None:
        """Count a pod as one with a node."""
        self._move(pod, TaskState.RESERVED)

    def unreserve(self, pod: PodInfo) -> Job | None:
        """Count a pod as one without a node again; return its job."""
        return self._move(pod.without_node(), TaskState.PENDING)

    def _move(self, pod: PodInfo, state: TaskState) -> Job | None:
        job = self._job_of.get(pod.uid)
        if job is None:
            return None
        old = job.tasks[pod.uid].state
        if old not in (TaskState.PENDING, TaskState.RESERVED) or old == state:
            return job
        task = Task(pod, state)
        job.set(task)
        queue = self.queue_of(job)
        if self._shares is not None and queue is not None:
            # Requests are as before, and so are the deserved amounts.
            sign = 1 if state == TaskState.RESERVED else -1
            add(self._shares[queue.name].allocated, task.requests, sign)
        self._on_change(job)
        return job

    # Questions.

    def job_of(self, pod: PodInfo) -> Job | None:
        """Return the job of a pod; None for a pod that is no task."""
        return self._job_of.get(pod.uid)

    def queue_of(self, job: Job) -> Queue | None:
        """Return the queue of a job; None if the queue or the group does not exist."""
        if not job.is_shadow and job.key not in self.groups:
            return None
        return self.queues.get(job.group.queue or self.options.default_queue)

    def has_a_claim(self, job: Job) -> bool:
        """Return True if a job's queue has less than it deserves of all that the job waits for.

        Only resources count that all queues together request too much of.
        """
        queue, head = self.queue_of(job), job.head
        share = self.shares.get(queue.name) if queue is not None else None
        if head is None or share is None:
            return False
        wanted = self.contended.intersection(head.requests)
        return not reached(share.allocated, share.deserved, wanted)

    def priority_of(self, job: Job) -> int:
        """Return the priority of a job: of its class, else of the global default class, else 0."""
        group = job.group
        if group.priority is not None:
            return group.priority
        named = self._classes.get(group.priority_class_name)
        if named is not None:
            return named.value
        return next((c.value for c in self._classes.values() if c.global_default), 0)

    @property
    def shares(self) -> Mapping[str, Share]:
        """The amounts that each queue with a task has, requests and deserves."""
        if self._shares is None:
            self._shares = self._count_shares()
        return self._shares

    def _count_shares(self, waiting: Collection[str] = ()) -> dict[str, Share]:
        """Count the shares; the pending tasks of jobs that are `waiting` request nothing."""
        allocated: dict[str, dict[str, float]] = {}
        request: dict[str, dict[str, float]] = {}
        for job in self.jobs.values():
            queue = self.queue_of(job) if job.tasks else None
            if queue is None:
                continue
            add(allocated.setdefault(queue.name, {}), job.allocated)
            wanted = request.setdefault(queue.name, {})
            add(wanted, job.allocated)
            if job.key not in waiting:
                add(wanted, job.pending_requests)
        demands = {name: Demand(self.queues[name].weight, of) for name, of in request.items()}
        by_queue = self.options.fill(self.total, demands)
        return {name: Share(allocated[name], request[name], by_queue[name]) for name in request}

    def limits(self, waiting: Collection[str]) -> Mapping[str, Mapping[str, float]]:
        """Return what queues deserve if jobs that fit nowhere, by their keys, ask for nothing."""
        return {name: share.deserved for name, share in self._count_shares(waiting).items()}

    def excess(self) -> dict[tuple[str, str], float]:
        """Return the amounts beyond the shares of queues, by queue and resource."""
        beyond = {
            (queue, name): share.allocated.get(name, 0) - amount
            for queue, share in self.shares.items()
            for name, amount in share.deserved.items()
        }
        return {key: amount for key, amount in beyond.items() if amount > 0}

    def resources_by_label(self) -> list[tuple[tuple[str, ...], float]]:
        """Return the amounts of the queues by queue, state and resource, for the metric."""
        return [
            ((queue, state, name), amount)
            for queue, share in self.shares.items()
            for state, amounts in share._asdict().items()
            for name, amount in amounts.items()
        ]

    @property
    def contended(self) -> frozenset[str]:
        """The resources that all queues together request more of than there is.

        All resources where they are filled together: each limits the others.
        """
        if self.options.fill is not deserved:
            return frozenset(name for name, amount in self.total.items() if amount)
        request: dict[str, float] = {}
        for share in self.shares.values():
            add(request, share.request)
        return frozenset(n for n, amount in request.items() if amount > self.total.get(n, 0))

    def _changed(self) -> None:
        self._shares = None
        self.version += 1

    def _on_room(self, jobs: Iterable[Job]) -> None:
        jobs = list(jobs)
        for listener in self.listeners:
            listener.on_room(jobs)

    def _on_change(self, job: Job) -> None:
        for listener in self.listeners:
            listener.on_change(job)


def _missing(key: str) -> Group:
    """Return the group that a job has until its own is known."""
    return Group(key, "", 0, "", 0.0, "")
