"""Which pod is more important than another, and which node loses least by a preemption.

Source: `pkg/scheduler/util/utils.go` (`MoreImportantPod`, `GetEarliestPodStartTime`),
`pkg/scheduler/framework/preemption/preemption.go` (`pickOneNodeForPreemption`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.handle import Victims
    from scheduler.snapshot.pod_info import PodInfo

#: Whether the first pod is spared before the second one.
MoreImportantPod = Callable[["PodInfo", "PodInfo"], bool]

#: Makes all priorities at least 0, so that more victims never sum up to less.
_PRIORITY_OFFSET: Final = 2**31


class Candidate(NamedTuple):
    """A node on which a pod would fit, and who would have to leave it."""

    name: str
    victims: Victims


#: What speaks for a node; more is better.
ScoreFunc = Callable[[Candidate], float]
#: The criteria for some candidates, the first one first; none for upstream's.
OrderedScoreFuncs = Callable[[Sequence[Candidate]], Sequence[ScoreFunc]]


class Choice(NamedTuple):
    """The best candidate, and by which criterion, counted from 0, each other one was left out."""

    best: Candidate
    lost_by: Mapping[str, int]


#: By what upstream chooses, in words; the last one applies where all others are equal.
CRITERIA: Final = (
    "fewest violated disruption budgets",
    "lowest priority of the most important victim",
    "lowest sum of the victims' priorities",
    "fewest victims",
    "latest start of the most important victims",
    "first in order",
)


def by_importance(
    pods: Iterable[PodInfo], now: float, more_important: MoreImportantPod | None = None
) -> list[PodInfo]:
    """Pods in order of importance, the most important one first.

    By default that is the one of higher priority, or else the one that started earlier. A pod that
    has not started counts as starting now, `now` being epoch seconds. Of several such pods the last
    one comes first: upstream asks the clock for each comparison and finds each pod to be earlier
    than the one it is compared with, and its sort of a dozen elements turns them round.
    """
    if more_important is not None:

        def compared(first: PodInfo, second: PodInfo) -> int:
            return more_important(second, first) - more_important(first, second)

        return sorted(pods, key=functools.cmp_to_key(compared))
    pods = list(pods)
    keys = [_importance(pod, now, place) for place, pod in enumerate(pods)]
    return [pods[place] for place in sorted(range(len(pods)), key=keys.__getitem__)]


def _importance(pod: PodInfo, now: float, place: int) -> tuple[int, float, int]:
    if pod.started is None:
        return -pod.priority, now, -place
    return -pod.priority, pod.started, place


def earliest_start_time(pods: Sequence[PodInfo], now: float) -> float:
    """When the first of the pods with the highest priority among these started, epoch seconds."""
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
    """The node to preempt on: each criterion leaves over those that are best by it.

    There must be a candidate. Where several are left the first one is taken; upstream, walking a
    map, takes any.
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


#: What speaks for each of some candidates.
_Criterion = Callable[[Sequence[Candidate]], list[float]]


def _one_by_one(score: ScoreFunc) -> _Criterion:
    return lambda candidates: [score(candidate) for candidate in candidates]


def _criteria(now: float) -> Sequence[_Criterion]:
    """Upstream's criteria, as `CRITERIA` names them."""
    return (
        lambda candidates: [-c.victims.num_pdb_violations for c in candidates],
        lambda candidates: [-c.victims.pods[0].priority for c in candidates],
        lambda candidates: [-_sum_of_priorities(c.victims.pods) for c in candidates],
        lambda candidates: [-len(c.victims.pods) for c in candidates],
        lambda candidates: [earliest_start_time(c.victims.pods, now) for c in candidates],
    )


def _sum_of_priorities(pods: Sequence[PodInfo]) -> int:
    return sum([pod.priority for pod in pods]) + _PRIORITY_OFFSET * len(pods)
