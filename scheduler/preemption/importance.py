"""The order of importance of pods, and the choice of the node for a preemption.

Source: `pkg/scheduler/util/utils.go` (`MoreImportantPod`, `GetEarliestPodStartTime`),
`pkg/scheduler/framework/preemption/preemption.go` (`pickOneNodeForPreemption`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from scheduler.framework.extender import Victims
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
    pods: Sequence[PodInfo],
    now: float,
    more_important: MoreImportantPod | None = None,
    *,
    seen: Mapping[str, int] = _UNSEEN,
    groups: IntArray | None = None,
) -> list[PodInfo]:
    """Return pods in order of importance, the most important one first.

    By default a pod of higher priority is more important, with equal priority the pod that started
    earlier. A pod without start time counts as started at `now`, in epoch seconds. Several pods
    without start time are in reverse order, as upstream: it reads the clock in each comparison, so
    the first pod of a comparison has always started earlier. As of v1.37 it reads the clock once
    for each victim: pods in `seen`, numbers by uid, are in the order of these numbers.
    With `groups`, the number of each pod's group, the groups stay apart, by number.
    """
    if more_important is not None:
        assert groups is None, "a rule orders one group"

        def compared(first: PodInfo, second: PodInfo) -> int:
            return more_important(second, first) - more_important(first, second)

        return sorted(pods, key=functools.cmp_to_key(compared))
    priorities = np.array([pod.priority for pod in pods], dtype=np.int64)
    times = np.array([pod.started for pod in pods], dtype=np.float64)
    keys: list[IntArray | FloatArray] = [times, -priorities]
    if groups is not None:
        keys.append(groups)
    waiting = np.flatnonzero(np.isnan(times)).tolist()
    if waiting:
        times[waiting] = now
        numbers = np.arange(len(pods))
        numbers[waiting] = [seen.get(pods[position].uid, -position) for position in waiting]
        keys.insert(0, numbers)
    return [pods[position] for position in np.lexsort(keys).tolist()]


def earliest_start_time(pods: Sequence[PodInfo], now: float) -> float:
    """Return the earliest start time of the pods with the highest priority, in epoch seconds."""
    highest, earliest = pods[0].priority, pods[0].started
    for pod in pods[1:]:
        if pod.priority < highest:
            continue
        started = pod.started
        if pod.priority > highest:
            highest, earliest = pod.priority, started
        elif started is not None and (earliest is None or started < earliest):
            earliest = started
    return now if earliest is None else earliest


def pick_one_node_for_preemption(
    candidates: Sequence[Candidate],
    now: float,
    ordered_score_funcs: OrderedScoreFuncs | None = None,
) -> Choice:
    """Choose the node to preempt on: each criterion keeps the candidates that are best by it.

    There must be a candidate. Of several remaining candidates the first one is chosen; upstream
    iterates over a map and chooses any.
    """
    score_funcs = ordered_score_funcs(candidates) if ordered_score_funcs is not None else ()
    lost_by: dict[str, int] = {}
    left = candidates
    number = 0
    for scores_of in [_one_by_one(score) for score in score_funcs] or _criteria(now):
        if len(left) == 1:
            break
        scores = scores_of(left)
        highest = max(scores)
        if min(scores) < highest:
            kept = []
            for candidate, score in zip(left, scores, strict=True):
                if score == highest:
                    kept.append(candidate)
                else:
                    lost_by[candidate.name] = number
            left = kept
        number += 1
    lost_by.update((candidate.name, number) for candidate in left[1:])
    return Choice(left[0], lost_by)


#: Returns a score per candidate; higher is better.
_Criterion = Callable[[Sequence[Candidate]], list[float]]


def _one_by_one(score: ScoreFunc) -> _Criterion:
    return lambda candidates: [score(candidate) for candidate in candidates]


def _criteria(now: float) -> Sequence[_Criterion]:
    """Return upstream's criteria, in the order of `CRITERIA`."""
    return (
        lambda candidates: [-c.victims.num_pdb_violations for c in candidates],
        lambda candidates: [-c.victims.pods[0].priority for c in candidates],
        lambda candidates: [-_sum_of_priorities(c.victims.pods) for c in candidates],
        lambda candidates: [-len(c.victims.pods) for c in candidates],
        # Upstream reads the clock for each candidate: of victims that have not started, those of
        # the last one start latest.
        lambda candidates: [
            earliest_start_time(c.victims.pods, now + position * _CLOCK_STEP_SECONDS)
            for position, c in enumerate(candidates)
        ],
    )


def _sum_of_priorities(pods: Sequence[PodInfo]) -> int:
    return sum([pod.priority for pod in pods]) + _PRIORITY_OFFSET * len(pods)
