"""Measures of a run: what the scheduler has made of a history.

Amounts are summed up as pods get nodes and end, and integrated over virtual time; curves and
fragmentation are sampled after equal numbers of decisions.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from scheduler.api.resources import CPU, MEMORY, PODS, count_text, node_allocatable
from scheduler.cycle.pod_group.results import PodGroupAttempt
from scheduler.simulate.history.format import PRICE
from scheduler.snapshot import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.api.core import Node, Pod
    from scheduler.assembly.simulated_cluster import SimulatedCluster
    from scheduler.cycle.schedule_one import Found
    from scheduler.queue import QueuedPodInfo
    from scheduler.snapshot import IntArray

#: Decisions between two samples at the start; the distance doubles whenever there are twice as many
#: samples as this.
_SAMPLES: Final = 100
#: The request shapes by which fragmentation is measured: the most frequent ones.
_SHAPES_MAX: Final = 50
_COUNTS: Final = re.compile(r"\b\d+ ")
_HOUR_SECONDS: Final = 3600.0


class Sample(msgspec.Struct, frozen=True):
    """The state after a decision. Loads and amounts are in percent of the cluster."""

    seconds: float
    arrived_percent: float
    allocated_percent: float
    waiting: int
    imbalance: float
    #: Idle amounts that the frequent requests cannot use, as too little is left of this resource,
    #: or of another one.
    fragmented_percent: float
    blocked_percent: float


class Results(msgspec.Struct, frozen=True):
    """The results of one run. `scarce` is the resource that loads and fragments are measured in.

    `unschedulable` counts the pods that never got a node, by request and reason.
    """

    scarce: str
    numbers: dict[str, float]
    unschedulable: list[tuple[str, str, int]]
    samples: list[Sample]


class _Integral:
    """An amount for each key, and its sum over time (amount times seconds)."""

    def __init__(self) -> None:
        self.now: Final[defaultdict[str, float]] = defaultdict(float)
        self.over_time: Final[defaultdict[str, float]] = defaultdict(float)
        self._seconds = 0.0

    def pass_until(self, seconds: float) -> None:
        """Count the amounts of now for the time until then."""
        duration, self._seconds = seconds - self._seconds, seconds
        for key, amount in self.now.items():
            self.over_time[key] += amount * duration


class Measures:
    """Follows one run. `noted` is to be called after each cycle.

    It is made before the history is played.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster: Final = cluster
        self._start: Final = cluster.clock.now()
        self.decisions = 0
        self._failures: Final[dict[str, str]] = {}
        self._waiting: Final[dict[str, tuple[Pod, float]]] = {}
        #: The running pods, and since when.
        self._running: Final[dict[str, tuple[PodInfo, float]]] = {}
        self._waits: Final[list[float]] = []
        self._arrived: Final[Counter[str]] = Counter()
        self._shapes: Final[Counter[tuple[tuple[str, int], ...]]] = Counter()
        self._offered: Final = _Integral()
        self._used: Final = _Integral()
        #: By namespace and resource, with a space between them.
        self._shares: Final = _Integral()
        #: The prices of all nodes with pods, under one key.
        self._busy: Final = _Integral()
        self._prices: Final[dict[str, float]] = {}
        self._pods_on: Final[Counter[str]] = Counter()
        self._lost_core_seconds = 0.0
        self._end = 0.0
        self._distance = 1
        self._samples: Final[list[Sample]] = []
        informers = cluster.core.informers
        informers.nodes.on_change(self._node_changed)
        informers.pods.add_event_handler(
            on_add=lambda pod, is_initial: self._pod_changed(pod),
            on_update=lambda old, new: self._pod_changed(new),
            on_delete=lambda pod, final_state_unknown: self._ended(pod),
        )

    def noted(self, queued: QueuedPodInfo, found: Found | PodGroupAttempt | None) -> None:
        """Take note of the result of a cycle."""
        if found is None:
            return
        if isinstance(found, PodGroupAttempt):
            self.decisions += len(found.members)
        else:
            self.decisions += 1
            if found.result is None and found.status is not None:
                self._failures[queued.uid] = found.status.message
        if self.decisions % self._distance == 0:
            self._sample()

    # Changes.

    def _pass_time(self) -> float:
        now = self._cluster.clock.now() - self._start
        for integral in (self._offered, self._used, self._shares, self._busy):
            integral.pass_until(now)
        return now

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._pass_time()
        for node, sign in ((old, -1), (new, 1)):
            for name, amount in node_allocatable(node.status.allocatable).items() if node else ():
                self._offered.now[name] += sign * amount
        if new is not None:
            self._prices[new.metadata.name] = float(new.metadata.annotations.get(PRICE, "1"))

    def _pod_changed(self, pod: Pod) -> None:
        """Follow a pod until it has a node."""
        uid = pod.metadata.uid
        if uid in self._running:
            return
        now = self._pass_time()
        arrival = self._waiting.get(uid)
        if arrival is None:
            info = PodInfo(pod)
            self._arrived.update(info.requests.resources)
            self._shapes[tuple(sorted(info.requests.resources.items()))] += 1
            if not pod.spec.node_name:
                self._waiting[uid] = pod, now
        if pod.spec.node_name:
            if arrival is not None:
                self._waits.append(now - arrival[1])
            self._waiting.pop(uid, None)
            self._failures.pop(uid, None)
            self._running[uid] = PodInfo(pod), now
            self._count(self._running[uid][0], now, sign=1)

    def _ended(self, pod: Pod) -> None:
        now, uid = self._pass_time(), pod.metadata.uid
        self._waiting.pop(uid, None)
        if uid not in self._running:
            return
        info, since = self._running.pop(uid)
        self._count(info, now, sign=-1)
        if any(c.type == "DisruptionTarget" for c in pod.status.conditions):
            self._lost_core_seconds += info.requests[CPU] / 1000 * (now - since)

    def _count(self, info: PodInfo, now: float, *, sign: int) -> None:
        """Count a pod that has come to a node (1), or left it (-1)."""
        node, self._end = info.spec.node_name, now
        for name, amount in info.requests.resources.items():
            self._used.now[name] += sign * amount
            self._shares.now[f"{info.namespace} {name}"] += sign * amount
        was_busy = self._pods_on[node] > 0
        self._pods_on[node] += sign
        is_busy = self._pods_on[node] > 0
        self._busy.now[""] += (is_busy - was_busy) * self._prices.get(node, 1.0)

    # Results.

    @property
    def _scarce(self) -> str:
        """The resource with the highest arrived load; extended resources go before the others."""
        loads = {
            name: (name not in (CPU, MEMORY), self._arrived[name] / offered)
            for name, offered in self._offered.now.items()
            if offered and name != PODS and self._arrived[name]
        }
        return max(loads, key=lambda name: loads[name], default=CPU)

    def _sample(self) -> None:
        table, scarce = self._cluster.core.cache.table, self._scarce
        offered = max(self._offered.now[scarce], 1)
        total = len(table)
        names = [name for name in self._offered.now if name in table.allocatable and name != PODS]
        free = {
            name: table.allocatable[name][:total] - table.column(table.requested, name)[:total]
            for name in names
        }
        fragmented, blocked = _fragments(free, scarce, self._shapes.most_common(_SHAPES_MAX))
        self._samples.append(
            Sample(
                seconds=self._cluster.clock.now() - self._start,
                arrived_percent=100 * self._arrived[scarce] / offered,
                allocated_percent=100 * self._used.now[scarce] / offered,
                waiting=len(self._waiting),
                imbalance=_imbalance(free, table.allocatable, total),
                fragmented_percent=100 * fragmented / offered,
                blocked_percent=100 * blocked / offered,
            )
        )
        if len(self._samples) >= 2 * _SAMPLES:
            del self._samples[::2]
            self._distance *= 2

    def results(self) -> Results:
        """Return the results; to be called after the history has been played."""
        self._pass_time()
        waits = np.array(self._waits or [0.0])
        numbers = {
            "decisions": float(self.decisions),
            "pods": float(self._shapes.total()),
            "unschedulable": float(len(self._waiting)),
            "wait mean s": float(waits.mean()),
            **{f"wait p{part} s": float(np.percentile(waits, part)) for part in (50, 95, 99)},
            "makespan s": self._end,
            "preempted": float(len(self._cluster.api.victims)),
            "lost core s": self._lost_core_seconds,
            "imbalance %": _mean(s.imbalance for s in self._samples),
            "Jain index": _jain(
                [v for k, v in self._shares.over_time.items() if k.endswith(f" {self._scarce}")]
            ),
            "node cost": self._busy.over_time[""] / _HOUR_SECONDS,
        }
        for cause in ("fragmented", "blocked"):
            amounts = [(s, getattr(s, f"{cause}_percent")) for s in self._samples]
            numbers[f"{cause} %"] = _mean(amount for _, amount in amounts)
            numbers[f"{cause} rate %"] = _mean(
                100 * amount / max(100 - sample.allocated_percent, amount, 1e-9)
                for sample, amount in amounts
            )
        for name, offered in self._offered.over_time.items():
            if name != PODS and offered and self._arrived[name]:
                numbers[f"used {name} %"] = 100 * self._used.over_time[name] / offered
        return Results(self._scarce, numbers, self._unschedulable(), self._samples)

    def _unschedulable(self) -> list[tuple[str, str, int]]:
        """Return the waiting pods by request and reason, the most frequent first."""
        counts: Counter[tuple[str, str]] = Counter()
        for uid, (pod, _) in self._waiting.items():
            requests = sorted(PodInfo(pod).requests.resources.items())
            shape = ", ".join(f"{count_text(name, amount)} {name}" for name, amount in requests)
            message = self._failures.get(uid, "not tried")
            _, _, reasons = message.partition(": ")
            reason = _COUNTS.sub("", (reasons or message).partition(". ")[0].rstrip("."))
            counts[shape, reason] += 1
        return [(shape, reason, number) for (shape, reason), number in counts.most_common()]


def _fragments(
    free: Mapping[str, IntArray],
    scarce: str,
    shapes: Sequence[tuple[tuple[tuple[str, int], ...], int]],
) -> tuple[float, float]:
    """Return the idle amounts that the request shapes cannot use, as means weighted by frequency.

    The first is idle on nodes that have too little of the scarce resource for the shape, the second
    on nodes that have enough of it, and too little of another resource.
    """
    if scarce not in free:
        return 0.0, 0.0
    idle, weight = np.maximum(free[scarce], 0), sum(number for _, number in shapes)
    fragmented = blocked = 0.0
    for shape, number in shapes:
        requests = dict(shape)
        if wanted := requests.pop(scarce, 0):
            short = free[scarce] < wanted
            others = np.zeros(len(idle), dtype=np.bool_)
            for name, amount in requests.items():
                others |= free[name] < amount if name in free else np.True_
            fragmented += number * int(idle[short].sum())
            blocked += number * int(idle[~short & others].sum())
        else:
            blocked += number * int(idle.sum())
    return fragmented / max(weight, 1), blocked / max(weight, 1)


def _imbalance(
    free: Mapping[str, IntArray], allocatable: Mapping[str, IntArray], total: int
) -> float:
    """Return the standard deviation of the nodes' utilisation in percent (CPU and memory)."""
    deviations = []
    for name in (CPU, MEMORY):
        if name in free:
            offered = allocatable[name][:total]
            used = 1 - free[name][offered > 0] / offered[offered > 0]
            deviations.append(100 * float(used.std()) if len(used) else 0.0)
    return _mean(deviations)


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean([*values] or [0.0])


def _jain(shares: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 for equal shares, 1/n if one of n has all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
