"""Disruption budgets: finds the victims on a node whose eviction violates a budget.

Source: `filterPodsWithPDBViolation` in `plugins/defaultpreemption/default_preemption.go`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.field import FieldErrors
from scheduler.api.selectors import Selector, SelectorError, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from scheduler.api.workloads import PodDisruptionBudget
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

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: Final[dict[str, list[_Budget]]] = {}
        self._of_kind: Final[dict[PodKind, list[_Budget]]] = {}
        for number, budget in enumerate(budgets):
            try:
                selector = parse_label_selector(budget.spec.selector)
            except (SelectorError, FieldErrors):
                continue
            if not selector.is_empty:
                status = budget.status
                self._by_namespace.setdefault(budget.metadata.namespace, []).append(
                    _Budget(number, selector, status.disruptions_allowed, status.disrupted_pods)
                )

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def split(self, pods: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Return the pods whose eviction, in this order, violates a budget, and the others.

        Every pod counts against each budget that matches it, also against budgets that it violates.
        """
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        disruptions: Counter[int] = Counter()
        for pod in pods:
            violates = False
            for budget in self._budgets_of(pod):
                if pod.name not in budget.disrupted_pods:
                    disruptions[budget.number] += 1
                    violates |= disruptions[budget.number] > budget.disruptions_allowed
            (violating if violates else others).append(pod)
        return violating, others

    def violations(self, units: Iterable[Sequence[PodInfo]]) -> Iterator[bool]:
        """Yield for each unit of pods that are evicted together, in this order, if it violates one.

        Counting stops at the first violated budget of the first violating pod of a unit, as in
        upstream for pod groups.
        """
        disruptions: Counter[int] = Counter()
        for pods in units:
            yield any(self._violates(pod, disruptions) for pod in pods)

    def _violates(self, pod: PodInfo, disruptions: Counter[int]) -> bool:
        for budget in self._budgets_of(pod):
            if pod.name not in budget.disrupted_pods:
                disruptions[budget.number] += 1
                if disruptions[budget.number] > budget.disruptions_allowed:
                    return True
        return False

    def _budgets_of(self, pod: PodInfo) -> list[_Budget]:
        """Return the budgets that match a pod, cached by pod kind."""
        kind = pod.kind
        budgets = self._of_kind.get(kind)
        if budgets is None:
            in_namespace = self._by_namespace.get(kind.namespace, ()) if kind.labels else ()
            budgets = [b for b in in_namespace if b.selector.matches(kind.labels)]
            self._of_kind[kind] = budgets
        return budgets
