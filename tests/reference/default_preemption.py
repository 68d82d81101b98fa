"""DefaultPreemption: `framework/preemption/preemption.go`, `plugins/defaultpreemption`, by node.

`fits` is the verdict of all filters on a node of a cluster: None, or the first rejection.
Dry runs make clusters of their own; nothing is kept between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from scheduler.api.core import Node, Pod
from scheduler.api.workloads import PodDisruptionBudget
from tests.reference.cluster import UNRESOLVABLE, UNSCHEDULABLE, Cluster, Verdict
from tests.reference.inter_pod_affinity import is_empty, selects

Fits = Callable[["Pod", "Node", Cluster], Verdict | None]

NO_VICTIMS: Verdict = (UNRESOLVABLE, ("No preemption victims found for incoming pod",))


class Candidate(NamedTuple):
    node: str
    victims: tuple[Pod, ...]
    violations: int


class Rules(NamedTuple):
    """The input beside pod and cluster. `nominated` are pods by node."""

    fits: Fits
    budgets: Sequence[PodDisruptionBudget]
    nominated: Mapping[str, Sequence[Pod]]
    now: float


def priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def started(pod: Pod, now: float) -> float:
    time = pod.status.start_time
    return now if time is None else time.timestamp()


def is_more_important(first: Pod, second: Pod, now: float) -> bool:
    if priority(first) != priority(second):
        return priority(first) > priority(second)
    if first.status.start_time is None and second.status.start_time is None:
        return True  # the clock is read twice, and goes on in between
    return started(first, now) < started(second, now)


def sorted_by_importance(pods: Sequence[Pod], now: float) -> list[Pod]:
    """Go's sort of at most twelve elements."""
    done: list[Pod] = []
    for pod in pods:
        done.append(pod)
        at = len(done) - 1
        while at > 0 and is_more_important(done[at], done[at - 1], now):
            done[at], done[at - 1] = done[at - 1], done[at]
            at -= 1
    return done


def without(cluster: Cluster, gone: Sequence[Pod]) -> Cluster:
    uids = {pod.metadata.uid for pod in gone}
    return cluster._replace(pods=tuple(p for p in cluster.pods if p.metadata.uid not in uids))


def verdict(pod: Pod, node: Node, cluster: Cluster, rules: Rules) -> Verdict | None:
    """Return the rejection with the nominated pods of at least this priority, else without them."""
    expected = [
        other
        for other in rules.nominated.get(node.metadata.name, ())
        if priority(other) >= priority(pod)
    ]
    if expected:
        there = [_on(other, node) for other in expected]
        found = rules.fits(pod, node, cluster._replace(pods=(*cluster.pods, *there)))
        if found is not None:
            return found
    return rules.fits(pod, node, cluster)


def _on(pod: Pod, node: Node) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node.metadata.name))


def split_by_budgets(
    pods: Sequence[Pod], budgets: Sequence[PodDisruptionBudget]
) -> tuple[list[Pod], list[Pod]]:
    allowed = [budget.status.disruptions_allowed for budget in budgets]
    violating, others = [], []
    for pod in pods:
        violates = False
        for i, budget in enumerate(budgets):
            selector = budget.spec.selector
            if not pod.metadata.labels or budget.metadata.namespace != pod.metadata.namespace:
                continue
            if selector is None or is_empty(selector) or not selects(selector, pod.metadata.labels):
                continue
            if pod.metadata.name in budget.status.disrupted_pods:
                continue
            allowed[i] -= 1
            if allowed[i] < 0:
                violates = True
        (violating if violates else others).append(pod)
    return violating, others


def select_victims_on_node(
    pod: Pod, node: Node, cluster: Cluster, rules: Rules
) -> Candidate | Verdict:
    potential = [other for other in cluster.pods_on(node) if priority(other) < priority(pod)]
    if not potential:
        return NO_VICTIMS
    gone = list(potential)
    found = verdict(pod, node, without(cluster, gone), rules)
    if found is not None:
        return found
    potential = sorted_by_importance(potential, rules.now)
    violating, others = split_by_budgets(potential, rules.budgets)
    violations = 0
    victims = []
    for other in violating + others:
        gone.remove(other)
        if verdict(pod, node, without(cluster, gone), rules) is None:
            continue
        gone.append(other)
        victims.append(other)
        violations += any(other is each for each in violating)
    if violating and others:
        victims = sorted_by_importance(victims, rules.now)
    return Candidate(node.metadata.name, tuple(victims), violations)


def find_candidates(
    pod: Pod, cluster: Cluster, rules: Rules, order: Sequence[Node], wanted: int
) -> tuple[list[Candidate], dict[str, Verdict]]:
    """Tries nodes in this order until there are enough candidates."""
    good: list[Candidate] = []
    bad: list[Candidate] = []
    verdicts: dict[str, Verdict] = {}
    for node in order:
        found = select_victims_on_node(pod, node, cluster, rules)
        if not isinstance(found, Candidate):
            verdicts[node.metadata.name] = found
            continue
        group = bad if found.violations else good
        if len(group) < wanted:
            group.append(found)
        if good and len(good) + len(bad) >= wanted:
            break
    return good + bad, verdicts


def potential_nodes(pod: Pod, cluster: Cluster, rules: Rules) -> list[Node]:
    """Return the nodes that fewer pods may make fit, by the code of their rejection."""
    found = []
    for node in cluster.nodes:
        rejection = verdict(pod, node, cluster, rules)
        if rejection is not None and rejection[0] == UNSCHEDULABLE:
            found.append(node)
    return found


def best_of(candidates: Sequence[Candidate], now: float) -> list[Candidate]:
    """Return the candidates that are equal by all criteria."""

    def earliest(candidate: Candidate) -> float:
        highest = max(priority(pod) for pod in candidate.victims)
        return min(started(pod, now) for pod in candidate.victims if priority(pod) == highest)

    for score in (
        lambda c: -c.violations,
        lambda c: -priority(c.victims[0]),
        lambda c: -sum(priority(pod) + 2**31 for pod in c.victims),
        lambda c: -len(c.victims),
        earliest,
    ):
        highest = max(score(candidate) for candidate in candidates)
        candidates = [c for c in candidates if score(c) == highest]
    return list(candidates)
