"""Random histories of queues: what changes in a cluster, and what must hold whenever it is quiet.

The scheduler runs in virtual time with all improvements. Evicted pods vanish and come back under a
new name, so that two jobs that evict each other in turns would do so for ever.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from hypothesis import strategies as st

from scheduler.api.core import Pod
from scheduler.queues.amounts import add
from scheduler.queues.jobs import Job
from scheduler.queues.ledger import Ledger
from scheduler.queues.reservations import Reservation, reservations_of_all

from .player import Playing

GIB = 2**30
_CONF = {
    "actions": "reclaim, allocate, backfill, preempt",
    "tiers": [
        {"plugins": [{"name": n} for n in ("priority", "gang", "conformance", "drf", "proportion")]}
    ],
}
_CLASSES = [{"name": "low", "value": 1}, {"name": "high", "value": 9}]


class JobSpec(NamedTuple):
    """A job: its pods are equal."""

    queue: int
    pods: int
    least: int
    cpu: int
    memory: int
    priority: str


class Step(NamedTuple):
    """A change: a job comes, or some running pods end."""

    job: JobSpec | None
    ending: tuple[int, ...]


class History(NamedTuple):
    """Weights of queues, cores of nodes, and changes."""

    weights: tuple[int, ...]
    nodes: tuple[int, ...]
    steps: tuple[Step, ...]


def random_history(seed: int) -> History:
    """Return a history in which queues ask for about twice what the cluster has."""
    rng = random.Random(seed)
    nodes = tuple(rng.randint(1, 8) for _ in range(rng.randint(1, 4)))
    weights = tuple(rng.choice((0, 1, 1, 2, 4)) for _ in range(rng.randint(1, 3)))
    steps = tuple(_random_step(rng, len(weights)) for _ in range(rng.randint(2, 8)))
    return History(weights, nodes, steps)


def _random_step(rng: random.Random, queues: int) -> Step:
    count = rng.randint(1, 8)
    job = JobSpec(
        queue=rng.randrange(queues),
        pods=count,
        least=rng.choice((1, 1, 1, 2, 3, count, count + 1)),
        cpu=rng.choice((0, 1, 1, 1, 2, 2, 3)),
        memory=rng.choice((0, 1, 1, 2, 4)),
        priority=rng.choice(("", "", "low", "high")),
    )
    ending = tuple(rng.randrange(30) for _ in range(rng.choice((0, 0, 0, 1, 3))))
    return Step(job if rng.random() < 0.9 else None, ending)


histories = st.integers(0, 2**32).map(random_history)


def complaints(history: History) -> list[str]:
    """Play a history; return the invariants that were broken."""
    return asyncio.run(_Playing(history).run())


class _Playing(Playing):
    """A history that is being played."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.jobs: list[tuple[str, JobSpec]] = []
        self.found: list[str] = []
        queues = [f"q{number}" for number in range(len(history.weights))]
        super().__init__(
            {
                "conf": _CONF,
                "recreate": True,
                "priorityClasses": _CLASSES,
                "nodes": [
                    {
                        "name": f"n{number}",
                        "allocatable": {"cpu": str(cpu), "memory": f"{2 * cpu}Gi", "pods": "20"},
                    }
                    for number, cpu in enumerate(history.nodes)
                ],
                "queues": [
                    {"name": name, "weight": weight, "created": number}
                    for number, (name, weight) in enumerate(
                        zip(queues, history.weights, strict=True)
                    )
                ],
                "pods": [],
            },
            improved=True,
        )

    async def run(self) -> list[str]:
        self.create()
        for number, step in enumerate(self.history.steps):
            before = {pod.key for pod in self._running()}
            if step.job is not None:
                self._add_job(number, step.job)
            running = self._running()
            for index in step.ending:
                if running:
                    self.finish(running.pop(index % len(running)))
            victims = len(self.cluster.api.victims)
            await self.cluster.run_until(self.cluster.clock.now() + 40)
            self.found += [f"step {number}: {text}" for text in self._complaints(before, victims)]
        await self.cluster.close()
        return self.found

    def _running(self) -> list[Pod]:
        on_nodes = [p for p in self.cluster.pods if p.spec.node_name]
        running = [p for p in on_nodes if p.status.phase != "Succeeded"]
        return sorted(running, key=lambda pod: pod.key)

    def _add_job(self, number: int, job: JobSpec) -> None:
        name = f"j{number}"
        self.jobs.append((name, job))
        row = {
            "name": name,
            "namespace": "default",
            "queue": f"q{job.queue % len(self.history.weights)}",
            "minMember": job.least,
            "created": number,
            "priorityClassName": job.priority,
        }
        self.add_group(row)
        requests = {
            **({"cpu": str(job.cpu)} if job.cpu else {}),
            **({"memory": f"{job.memory}Gi"} if job.memory else {}),
        }
        for index in range(job.pods):
            self.add_pod(
                {
                    "name": f"{name}-{index}",
                    "namespace": "default",
                    "group": name,
                    "requests": requests,
                    "created": number,
                }
            )

    # Invariants.

    def _complaints(self, before: set[str], victims: int) -> Iterator[str]:
        pods = self._running()
        yield from self._beyond_capacity(pods)
        yield from self._partial_gangs(pods, before)
        evicted = len(self.cluster.api.victims) - victims
        if evicted > 40:
            yield f"{evicted} evictions without an end"
        yield from self._useless_evictions()
        yield from self._robbed_queues(pods)

    def _beyond_capacity(self, pods: Iterable[Pod]) -> Iterator[str]:
        used: Counter[str] = Counter()
        for pod in pods:
            used[pod.spec.node_name] += _cpu(pod)
        for number, cpu in enumerate(self.history.nodes):
            if used[f"n{number}"] > cpu:
                yield f"node n{number} has {cpu} cores, and pods with {used[f'n{number}']}"

    def _partial_gangs(self, pods: Iterable[Pod], before: set[str]) -> Iterator[str]:
        for name, job in self.jobs:
            mine = [pod for pod in pods if _group(pod) == name]
            new = [pod for pod in mine if pod.key not in before]
            if new and len(mine) + self.finished[name] < job.least:
                yield f"{len(mine)} of gang {name} are bound, {job.least} are the least"

    def _useless_evictions(self) -> Iterator[str]:
        for victim, key in self.cluster.preemptors.items():
            namespace, _, name = key.partition("/")
            preemptor = self.cluster.api.objects("pods").get(name, namespace)
            if preemptor is not None and not preemptor.spec.node_name and key not in self.returned:
                yield f"{victim} was evicted for {key}, which is not bound"

    def _robbed_queues(self, pods: list[Pod]) -> Iterator[str]:
        """Yield the waiting pods that fit in place of a pod beyond the share of its queue."""
        handle = next(iter(self.cluster.core.profiles.values())).handle
        ledger = handle.shared(Ledger)
        starving = [r for r in handle.shared(reservations_of_all) if not r.is_exclusive]
        for job in ledger.jobs.values():
            head, queue = job.head, ledger.queue_of(job)
            if head is None or queue is None or job.group.min_member > job.ready_count + 1:
                continue
            share = ledger.shares[queue.name]
            if any(share.allocated.get(n, 0) >= share.deserved.get(n, 0) for n in head.requests):
                continue
            first = [(r.node_name, r.pod) for r in starving if _goes_before(ledger, r, job)]
            for pod in pods:
                free = self._free(ledger, pods, pod)
                for node_name, reserved in first:
                    if node_name == pod.spec.node_name:
                        add(free, reserved.requests.resources, -1)
                fits = all(free[name] >= amount for name, amount in head.requests.items())
                if fits and _may_go(ledger, pod, queue.name):
                    yield f"{head.pod.key} of {queue.name} waits, and {pod.key} could go for it"

    def _free(self, ledger: Ledger, pods: Iterable[Pod], victim: Pod) -> dict[str, float]:
        """Return the room on a victim's node without it."""
        node_name = victim.spec.node_name
        cpu = self.history.nodes[int(node_name[1:])]
        free = {"cpu": cpu * 1000.0, "memory": 2.0 * cpu * GIB}
        for pod in pods:
            if pod.spec.node_name == node_name and pod is not victim:
                for name, amount in _requests(ledger, pod).items():
                    free[name] -= amount
        return free


def _goes_before(ledger: Ledger, starving: Reservation, job: Job) -> bool:
    """Return True for the pod of another job that starves, and has a right to its room.

    It is the first of its queue, or its queue has less than it deserves.
    """
    other = ledger.jobs[starving.job_key]
    queue = ledger.queue_of(other)
    if other is job or queue is None:
        return False
    share, requests = ledger.shares[queue.name], starving.pod.requests.resources
    has_less = all(share.allocated.get(n, 0) < share.deserved.get(n, 0) for n in requests)
    return has_less or queue == ledger.queue_of(job)


def _may_go(ledger: Ledger, pod: Pod, queue: str) -> bool:
    """Return True if the queue and the gang of a pod have enough without it."""
    job = next(job for job in ledger.jobs.values() if pod.metadata.uid in job.tasks)
    other = ledger.queue_of(job)
    if other is None or other.name == queue:
        return False
    requests = _requests(ledger, pod)
    share = ledger.shares[other.name]
    beyond = all(
        share.allocated[name] - amount >= share.deserved.get(name, 0)
        for name, amount in requests.items()
    )
    least = job.group.min_member
    return bool(requests) and beyond and (least <= 1 or job.ready_count > least)


def _requests(ledger: Ledger, pod: Pod) -> Mapping[str, float]:
    return next(
        job.tasks[pod.metadata.uid].requests
        for job in ledger.jobs.values()
        if pod.metadata.uid in job.tasks
    )


def _cpu(pod: Pod) -> int:
    requests: Any = pod.spec.containers[0].resources.requests
    return int(requests.get("cpu", 0))


def _group(pod: Pod) -> str:
    return pod.metadata.annotations["scheduling.k8s.io/group-name"]
