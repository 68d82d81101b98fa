"""The order of importance of pods, and the choice of the node for a preemption.

Source: `pkg/scheduler/util/utils.go` (`MoreImportantPod`, `GetEarliestPodStartTime`),
`pkg/scheduler/framework/preemption/preemption.go` (`pickOneNodeForPreemption`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, overload

import numpy as np

from scheduler.framework.extender import Victims
from scheduler.preemption.pods_by_world import PodsByWorld

if TYPE_CHECKING:
    from scheduler.snapshot.columns import FloatArray, IntArray
    from scheduler.snapshot.pod_info import PodInfo

_UNSEEN: Final[Mapping[str, int]] = MappingProxyType({})
#: More than the resolution of a time of today as a float.
_CLOCK_STEP_SECONDS: Final = 1e-6

#: Returns True if the first pod is to be reprieved before the second one.
MoreImportantPod = Callable[["PodInfo", "PodInfo"], bool]

#: Added to priorities so that none is negative and more victims never have a smaller sum.
_PRIORITY_OFFSET: Final = 2**31


class Candidate(NamedTuple):
    """A node on which the preemptor would fit, and the victims there."""

    name: str
    victims: Victims


class Candidates(Sequence[Candidate]):
    """Candidates in order, as columns: a `Candidate` is made when it is read."""

    def __init__(
        self, names: Sequence[str], victims: PodsByWorld, num_pdb_violations: IntArray
    ) -> None:
        self.names: Final = names
        self.victims: Final = victims
        self.num_pdb_violations: Final = num_pdb_violations

    @staticmethod
    def of(candidates: Sequence[Candidate]) -> Candidates:
        """Return these candidates as columns."""
        if isinstance(candidates, Candidates):
            return candidates
        counts = np.array([len(each.victims.pods) for each in candidates], dtype=np.int64)
        violations = [each.victims.num_pdb_violations for each in candidates]
        pods = [pod for each in candidates for pod in each.victims.pods]
        names = [each.name for each in candidates]
        return Candidates(names, PodsByWorld(pods, counts), np.array(violations, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Candidate]: ...

    def __getitem__(self, index: int | slice) -> Candidate | Sequence[Candidate]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        number = range(len(self))[index]
        violations = int(self.num_pdb_violations[number])
        return Candidate(self.names[number], Victims(self.victims.of(number), violations))

    def take(self, which: IntArray) -> Candidates:
        """Return some candidates, in the order of these positions."""
        names = [self.names[number] for number in which.tolist()]
        return Candidates(names, self.victims.take(which), self.num_pdb_violations[which])

    def joined(self, other: Candidates) -> Candidates:
        """Return these candidates, and then others."""
        mine, its = self.victims, other.victims
        victims = PodsByWorld([*mine.pods, *its.pods], np.append(mine.counts, its.counts))
        violations = np.append(self.num_pdb_violations, other.num_pdb_violations)
        return Candidates([*self.names, *other.names], victims, violations)


#: No candidate at all.
NO_CANDIDATES: Final = Candidates.of(())

#: A score of a candidate; higher is better.
ScoreFunc = Callable[[Candidate], float]
#: Returns the score functions for some candidates, most significant first; none for upstream's.
OrderedScoreFuncs = Callable[[Sequence[Candidate]], Sequence[ScoreFunc]]


class Choice(NamedTuple):
    """The best candidate; `lost_by[node]` is the index of the criterion that eliminated a node."""

    best: Candidate
    lost_by: Mapping[str, int]


#: Upstream's criteria in words; the last one applies where all others are equal.
CRITERIA: Final = (
    "fewest violated disruption budgets",
    "lowest priority of the most important victim",
    "lowest sum of the victims' priorities",
    "fewest victims",
    "latest start of the most important victims",
    "first in order",
)


def by_importance(
    pods: PodsByWorld,
    now: float,
    more_important: MoreImportantPod | None = None,
    *,
    seen: Mapping[str, int] = _UNSEEN,
) -> PodsByWorld:
    """Return the pods of each world in order of importance, the most important one first.

    By default a pod of higher priority is more important, with equal priority the pod that started
    earlier. A pod without start time counts as started at `now`, in epoch seconds. Several pods
    without start time are in reverse order, as upstream: it reads the clock in each comparison, so
    the first pod of a comparison has always started earlier. As of v1.37 it reads the clock once
    for each victim: pods in `seen`, numbers by uid, are in the order of these numbers.
    """
    if more_important is not None:

        def compared(first: PodInfo, second: PodInfo) -> int:
            return more_important(second, first) - more_important(first, second)

        key = functools.cmp_to_key(compared)
        of_worlds = map(pods.of, range(len(pods.counts)))
        return PodsByWorld(
            [pod for some in of_worlds for pod in sorted(some, key=key)], pods.counts
        )
    times = np.array([pod.started for pod in pods.pods], dtype=np.float64)
    numbers = np.arange(len(times))
    waiting = np.flatnonzero(np.isnan(times))
    times[waiting] = now
    if seen:
        numbers[waiting] = [seen[pod.uid] for pod in pods.at(waiting)]
    else:
        numbers[waiting] *= -1
    order = np.lexsort((numbers, times, -pods.priorities, pods.worlds))
    return PodsByWorld(pods.at(order), pods.counts)


def earliest_start_times(pods: PodsByWorld, now: float) -> FloatArray:
    """Return the earliest start time of the pods with the highest priority of each world.

    That is `now` if none of these has started, and a little later in each further world: upstream
    reads the clock for each candidate. All times are in epoch seconds.
    """
    priorities = pods.priorities
    highest = np.maximum.reduceat(priorities, pods.starts)
    times = np.array([pod.started for pod in pods.pods], dtype=np.float64)
    is_left_out = np.isnan(times) | (priorities < np.repeat(highest, pods.counts))
    earliest = np.minimum.reduceat(np.where(is_left_out, np.inf, times), pods.starts)
    times_read = now + np.arange(len(earliest)) * _CLOCK_STEP_SECONDS
    return np.where(np.isinf(earliest), times_read, earliest)


def pick_one_node_for_preemption(
    candidates: Sequence[Candidate],
    now: float,
    ordered_score_funcs: OrderedScoreFuncs | None = None,
) -> Choice:
    """Choose the node to preempt on: each criterion keeps the candidates that are best by it.

    There must be a candidate, and each has a victim. Of several remaining candidates the first one
    is chosen; upstream iterates over a map and chooses any.
    """
    score_funcs = ordered_score_funcs(candidates) if ordered_score_funcs is not None else ()
    lost_by: dict[str, int] = {}
    left = Candidates.of(candidates)
    number = 0
    for scores_of in [_one_by_one(score) for score in score_funcs] or _criteria(now):
        if len(left) == 1:
            break
        scores = scores_of(left)
        is_best = scores == scores.max()
        if not is_best.all():
            lost = np.flatnonzero(~is_best).tolist()
            lost_by.update((left.names[position], number) for position in lost)
            left = left.take(np.flatnonzero(is_best))
        number += 1
    lost_by.update((name, number) for name in left.names[1:])
    return Choice(left[0], lost_by)


#: Returns a score per candidate; higher is better.
_Criterion = Callable[[Candidates], "IntArray | FloatArray"]


def _one_by_one(score: ScoreFunc) -> _Criterion:
    return lambda candidates: np.array([score(candidate) for candidate in candidates])


def _criteria(now: float) -> Sequence[_Criterion]:
    """Return upstream's criteria, in the order of `CRITERIA`."""
    return (
        lambda candidates: -candidates.num_pdb_violations,
        lambda candidates: -candidates.victims.priorities[candidates.victims.starts],
        lambda candidates: -_sums_of_priorities(candidates.victims),
        lambda candidates: -candidates.victims.counts,
        lambda candidates: earliest_start_times(candidates.victims, now),
    )


def _sums_of_priorities(pods: PodsByWorld) -> IntArray:
    return np.add.reduceat(pods.priorities + _PRIORITY_OFFSET, pods.starts)
