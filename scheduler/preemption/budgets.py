"""Disruption budgets: which of the victims on a node no budget lets go.

Source: `filterPodsWithPDBViolation` in `plugins/defaultpreemption/default_preemption.go`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.field import FieldErrors
from scheduler.api.selectors import Selector, SelectorError, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from scheduler.api.policy import PodDisruptionBudget
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.pod_kind import PodKind


class _Budget(NamedTuple):
    number: int
    selector: Selector
    disruptions_allowed: int
    #: Pods on their way out already, by name.
    disrupted_pods: Collection[str]


class Budgets:
    """The disruption budgets of a cluster, as they are during one preemption.

    A budget whose selector is malformed, empty or missing is about no pod.
    """

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: Final[dict[str, list[_Budget]]] = {}
        self._about: Final[dict[PodKind, list[_Budget]]] = {}
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
        """The pods whose going, in this order, would violate a budget, and the others.

        Each budget a pod falls under is charged for it, the budgets it violates as well.
        """
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        charged: Counter[int] = Counter()
        for pod in pods:
            violates = False
            for budget in self._budgets_of(pod):
                if pod.name not in budget.disrupted_pods:
                    charged[budget.number] += 1
                    violates |= charged[budget.number] > budget.disruptions_allowed
            (violating if violates else others).append(pod)
        return violating, others

    def _budgets_of(self, pod: PodInfo) -> list[_Budget]:
        """The budgets a pod falls under; pods that are alike fall under the same."""
        kind = pod.kind
        budgets = self._about.get(kind)
        if budgets is None:
            in_namespace = self._by_namespace.get(kind.namespace, ()) if kind.labels else ()
            budgets = [b for b in in_namespace if b.selector.matches(kind.labels)]
            self._about[kind] = budgets
        return budgets
