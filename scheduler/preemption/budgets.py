"""Disruption budgets: finds the victims on a node whose eviction violates a budget.

Source: `filterPodsWithPDBViolation` in `plugins/defaultpreemption/default_preemption.go`.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.api.field import FieldErrors
from scheduler.api.selectors import Selector, SelectorError, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from scheduler.api.workloads import PodDisruptionBudget
    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.pod_kind import PodKind


class _Budget(NamedTuple):
    number: int
    selector: Selector
    disruptions_allowed: int
    #: The names of pods whose eviction has been processed.
    disrupted_pods: Collection[str]


class Budgets:
    """The disruption budgets of a cluster during one preemption.

    A budget whose selector is malformed, empty or missing matches no pod.
    """

    def __init__(self, budgets: Collection[PodDisruptionBudget]) -> None:
        self._budgets: Final = budgets
        self._of_kind: Final[dict[PodKind, list[_Budget]]] = {}

    @functools.cached_property
    def _by_namespace(self) -> dict[str, list[_Budget]]:
        """The budgets that match pods. Most preemptions find no candidate, and need none."""
        found: dict[str, list[_Budget]] = {}
        for number, budget in enumerate(self._budgets):
            try:
                selector = parse_label_selector(budget.spec.selector)
            except (SelectorError, FieldErrors):
                continue
            if not selector.is_empty:
                status = budget.status
                found.setdefault(budget.metadata.namespace, []).append(
                    _Budget(number, selector, status.disruptions_allowed, status.disrupted_pods)
                )
        return found

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def violating(self, pods: Sequence[PodInfo], first_on_node: IntArray) -> BoolArray:
        """Return for each pod if its eviction violates a budget.

        Pods are evicted in this order, on each node as if there were no other. `first_on_node`
        is the position of the first pod on each pod's node; the pods of a node are in sequence.
        Every pod counts against each budget that matches it, also against budgets that it violates.
        """
        violating = np.zeros(len(pods), dtype=np.bool_)
        kinds = [pod.kind for pod in pods]
        code_of = {kind: code for code, kind in enumerate(dict.fromkeys(kinds))}
        codes = np.fromiter(map(code_of.__getitem__, kinds), dtype=np.int64, count=len(kinds))
        totals = np.bincount(codes, minlength=len(code_of)).tolist()
        matched: dict[int, tuple[_Budget, list[int]]] = {}
        for kind, code in code_of.items():
            for budget in self._budgets_of(kind):
                matched.setdefault(budget.number, (budget, []))[1].append(code)
        for budget, by_kind in matched.values():
            if sum(totals[code] for code in by_kind) <= budget.disruptions_allowed:
                continue
            is_matched: IntArray = np.zeros(len(code_of), dtype=np.int64)
            is_matched[by_kind] = 1
            counts = is_matched.take(codes)
            if budget.disrupted_pods:
                counts *= [pod.name not in budget.disrupted_pods for pod in pods]
            disruptions: IntArray = np.cumsum(counts)
            before: IntArray = (disruptions - counts).take(first_on_node)
            violating |= (counts > 0) & (disruptions - before > budget.disruptions_allowed)
        return violating

    def violations(self, units: Iterable[Sequence[PodInfo]]) -> Iterator[bool]:
        """Yield for each unit of pods that are evicted together, in this order, if it violates one.

        Counting stops at the first violated budget of the first violating pod of a unit, as in
        upstream for pod groups.
        """
        disruptions: Counter[int] = Counter()
        for pods in units:
            yield any(self._violates(pod, disruptions) for pod in pods)

    def _violates(self, pod: PodInfo, disruptions: Counter[int]) -> bool:
        for budget in self._budgets_of(pod.kind):
            if pod.name not in budget.disrupted_pods:
                disruptions[budget.number] += 1
                if disruptions[budget.number] > budget.disruptions_allowed:
                    return True
        return False

    def _budgets_of(self, kind: PodKind) -> list[_Budget]:
        """Return the budgets that match pods of a kind."""
        budgets = self._of_kind.get(kind)
        if budgets is None:
            in_namespace = self._by_namespace.get(kind.namespace, ()) if kind.labels else ()
            budgets = [b for b in in_namespace if b.selector.matches(kind.labels)]
            self._of_kind[kind] = budgets
        return budgets
