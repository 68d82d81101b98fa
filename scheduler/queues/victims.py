"""The pods that may be evicted for a task, and what their queues and jobs would be left with.

A rule looks at all victims of a plan together. A queue keeps its deserved amounts, and a gang its
minMember, whatever the number of victims.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from scheduler.queues.amounts import Amounts, add, dominant_share, ratio, reached
from scheduler.queues.args import Action, Rule
from scheduler.queues.jobs import Job, Task, TaskState
from scheduler.queues.objects import is_of_the_system

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.extender import Victims
    from scheduler.preemption import Candidate
    from scheduler.queues.parts import Parts
    from scheduler.snapshot.nodes import NodeInfo
    from scheduler.snapshot.pod_info import PodInfo

#: Shares that differ by less are equal, as in kube-batch.
_SHARE_DELTA: Final = 1e-6


class VictimSearch:
    """Finds the pods that may be evicted for the tasks of a job by one action."""

    #: The task of the search that has begun.
    _task: Task

    def __init__(self, action: Action, job: Job, parts: Parts) -> None:
        self._action: Final = action
        self._job: Final = job
        _, args, ledger, self._order, _ = parts
        self._args: Final = args
        self._ledger: Final = ledger
        wanted = args.reclaim_rules if action == Action.RECLAIM else args.preempt_rules
        self._rules: Final = frozenset(wanted)
        queue = ledger.queue_of(job)
        assert queue is not None, "a job without a queue is not scheduled"
        self._queue: Final = queue.name
        self._contended: Final = ledger.contended
        self._priority: Final = ledger.priority_of(job)
        #: What queues and jobs have after the evictions that were planned.
        self._of_queue: Final = {n: dict(s.allocated) for n, s in ledger.shares.items()}
        self._of_job: Final[dict[str, dict[str, float]]] = {}
        self._evicted: Final[Counter[str]] = Counter()
        self._lacking: frozenset[str] = frozenset()
        self._largest_first = False
        #: The part of its deserved amounts that the queue has without the task, and with it.
        self._share_before = self._share_with_task = 0.0
        self._eligible: Final[dict[str, frozenset[str]]] = {}

    def begin(self, task: Task, *, largest_first: bool = False) -> bool:
        """Begin to search for a task; return False if nothing may be evicted for it.

        A queue reclaims while it has less than it deserves of all that the task lacks. With
        `largest_first` the largest pods are taken rather than the least important ones, which may
        use up what a queue can give in vain.
        """
        self._task = task
        self._largest_first = largest_first
        self._eligible.clear()
        if self._action != Action.RECLAIM or Rule.PROPORTION not in self._rules:
            return True
        self._lacking = self._scarce_for(task)
        deserved = self._ledger.shares[self._queue].deserved
        has = self._of_queue[self._queue]
        with_task = {name: has.get(name, 0) + task.requests[name] for name in self._lacking}
        wanted = {name: deserved.get(name, 0) for name in self._lacking}
        self._share_before = dominant_share(has, wanted)
        self._share_with_task = dominant_share(with_task, wanted)
        return bool(self._lacking) and not reached(has, deserved, self._lacking)

    def _scarce_for(self, task: Task) -> frozenset[str]:
        """Return the resources that a task requests and queues together request too much of.

        If the cluster has enough idle of some of them, it is the others that the task lacks.
        """
        wanted = self._contended.intersection(task.requests)
        if not self._args.count_idle_room:
            return wanted
        idle = dict(self._ledger.total)
        for allocated in self._of_queue.values():
            add(idle, allocated, -1)
        return frozenset(n for n in wanted if idle.get(n, 0) < task.requests[n]) or wanted

    def is_eligible(self, node: NodeInfo, victim: PodInfo, preemptor: PodInfo) -> bool:
        """Return True if a pod may be evicted together with all others of its node that may."""
        if node.name not in self._eligible:
            found = self._eligible_on(node)
            self._eligible[node.name] = frozenset(task.uid for task in found)
        return victim.uid in self._eligible[node.name]

    @property
    def ignores_idle_room(self) -> bool:
        """True if victims alone must make room: else a queue would come to more than its share."""
        has, deserved = self._of_queue[self._queue], self._ledger.shares[self._queue].deserved
        wanted = self._contended.intersection(self._task.requests)
        return not self._args.count_idle_room or (
            Rule.PROPORTION in self._args.rules and bool(reached(has, deserved, wanted))
        )

    def covering(self, node: NodeInfo) -> list[PodInfo]:
        """Return the least important pods of a node that request as much as the task together.

        None if there are not enough, the most important one first.
        """
        if not self._args.count_idle_room and node.pod_count >= node.allowed_pods:
            return []
        left = dict(self._task.requests)
        victims: list[PodInfo] = []
        for task in self._eligible_on(node):
            victims.insert(0, task.pod)
            left = {n: a - task.requests.get(n, 0) for n, a in left.items()}
            if all(amount <= 0 for amount in left.values()):
                return victims
        return []

    def place(self, task: Task, victims: Iterable[PodInfo]) -> None:
        """Count a task as placed, and its victims as evicted."""
        add(self._of_queue[self._queue], task.requests)
        add(self._amounts(self._job), task.requests)
        for pod in victims:
            job = self._ledger.job_of(pod)
            assert job is not None, "a victim is a task"
            self._evict(job, job.tasks[pod.uid])

    # The importance of victims.

    def more_important(self, first: PodInfo, second: PodInfo) -> bool:
        """Return True if the first pod is to stay rather than the second."""
        one, other = self._importance(first), self._importance(second)
        return one > other if one != other else first.uid < second.uid

    def score_funcs(self, candidates: object) -> tuple[_Score, ...]:
        """Return the criteria for nodes: budgets, priorities of jobs, number of victims."""
        del candidates
        return (
            lambda candidate: -candidate.victims.num_pdb_violations,
            lambda candidate: -self._highest_priority(candidate.victims),
            lambda candidate: -len(candidate.victims.pods),
        )

    def _highest_priority(self, victims: Victims) -> int:
        jobs = (self._ledger.job_of(pod) for pod in victims.pods)
        return max(self._ledger.priority_of(job) for job in jobs if job is not None)

    def _importance(self, pod: PodInfo) -> tuple[float, ...]:
        job = self._ledger.job_of(pod)
        queue = self._ledger.queue_of(job) if job is not None else None
        if job is None or queue is None:
            return (0.0,)
        task = job.tasks[pod.uid]
        share = self._order.share_of_queue(queue.name)
        return -share, self._ledger.priority_of(job), task.priority, -task.created

    # Rules.

    def _eligible_on(self, node: NodeInfo) -> list[Task]:
        """Return the tasks of a node that may all be evicted.

        The tasks first that have more of the resources of which the node has too little, and of
        these the least important one.
        """
        offered, used = node.allocatable, node.requested
        lacking = {
            name
            for name, amount in self._task.requests.items()
            if offered.get(name, 0) - used.get(name, 0) < amount
        }
        found: list[tuple[Job, Task]] = []
        for pod in node.pods:
            job = self._ledger.job_of(pod)
            task = job.tasks.get(pod.uid) if job is not None else None
            if job is not None and task is not None and self._is_candidate(job, task):
                found.append((job, task))
        found.sort(key=lambda one: one[1].uid, reverse=True)
        found.sort(key=lambda one: self._importance(one[1].pod))
        if self._largest_first:
            found.sort(key=lambda one: -dominant_share(one[1].requests, self._ledger.total))
        found.sort(key=lambda one: -len(lacking.intersection(one[1].requests)))
        evicted: list[tuple[Job, Task]] = []
        for job, task in found:
            if all(self._allows(rule, job, task) for rule in self._rules):
                self._evict(job, task)
                evicted.append((job, task))
        for job, task in evicted:
            self._evict(job, task, sign=-1)
        return [task for _, task in evicted]

    def _is_candidate(self, job: Job, task: Task) -> bool:
        """Return True for a bound task on the right side of the queue's border."""
        queue = self._ledger.queue_of(job)
        if queue is None or task.state != TaskState.PLACED:
            return False
        if self._action == Action.RECLAIM:
            return queue.name != self._queue and not task.is_best_effort
        if queue.name != self._queue or (task.is_best_effort and not self._args.count_idle_room):
            return False
        if job is self._job:
            return task.priority < self._task.priority
        if not self._args.stable_evictions or Rule.PRIORITY not in self._rules:
            return True
        priority = self._ledger.priority_of(job)
        return priority < self._priority or (priority == self._priority and Rule.DRF in self._rules)

    def _allows(self, rule: Rule, job: Job, task: Task) -> bool:
        if rule == Rule.CONFORMANCE:
            return not is_of_the_system(task.pod.pod)
        if rule == Rule.GANG:
            least = job.group.min_member
            return least <= 1 or job.ready_count - self._evicted[job.key] - 1 >= least
        if rule == Rule.PROPORTION:
            return self._keeps_its_share(job, task)
        if rule == Rule.DRF:
            return self._has_the_larger_share(job, task)
        return True

    def _keeps_its_share(self, job: Job, task: Task) -> bool:
        """Return True if a queue keeps its share of the resources that the preemptor lacks.

        So a queue that has lost a pod reclaims none itself. As pods are not as fine as shares, it
        also gives a pod with which it has too much, if the preemptor's queue stays within its own
        share and is worse off until then.
        """
        queue = self._ledger.queue_of(job)
        assert queue is not None, "the task is a candidate"
        if self._lacking.isdisjoint(task.requests):
            return False
        kept = self._contended
        if self._args.count_idle_room:
            kept = self._lacking.intersection(task.requests)
        has, deserved = self._of_queue[queue.name], self._ledger.shares[queue.name].deserved
        left = {name: has.get(name, 0) - task.requests.get(name, 0) for name in kept}
        if reached(left, deserved, kept) == kept:
            return True
        is_fair = self._args.return_borrowed_room and self._share_with_task <= 1
        return is_fair and all(
            has.get(name, 0) > deserved.get(name, 0)
            and ratio(left[name], deserved.get(name, 0)) > self._share_before
            for name in kept
        )

    def _has_the_larger_share(self, job: Job, task: Task) -> bool:
        """Return True if a job's share is not below the preemptor's after the exchange.

        Priorities go first.
        """
        is_lower = self._ledger.priority_of(job) < self._priority
        if job is self._job or (is_lower and self._args.stable_evictions):
            return True
        mine = self._share(self._amounts(self._job), self._task.requests, 1)
        theirs = self._share(self._amounts(job), task.requests, -1)
        return mine < theirs + _SHARE_DELTA

    def _share(self, amounts: Amounts, change: Amounts, sign: int) -> float:
        changed = dict(amounts)
        add(changed, change, sign)
        return dominant_share(changed, self._ledger.total)

    def _amounts(self, job: Job) -> dict[str, float]:
        return self._of_job.setdefault(job.key, dict(job.allocated))

    def _evict(self, job: Job, task: Task, sign: int = 1) -> None:
        queue = self._ledger.queue_of(job)
        assert queue is not None, "the task is a candidate"
        add(self._of_queue[queue.name], task.requests, -sign)
        add(self._amounts(job), task.requests, -sign)
        self._evicted[job.key] += sign


if TYPE_CHECKING:
    from collections.abc import Callable

    _Score = Callable[[Candidate], float]
