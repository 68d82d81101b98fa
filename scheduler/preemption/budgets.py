"""Disruption budgets: finds the victims on a node whose eviction violates a budget.

Source: `filterPodsWithPDBViolation` in `plugins/defaultpreemption/default_preemption.go`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import numpy as np

from scheduler.api.field import FieldErrors
from scheduler.api.selectors import Selector, SelectorError, parse_label_selector
from scheduler.snapshot.columns import run_starts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scheduler.api.core import LabelSelector
    from scheduler.api.workloads import PodDisruptionBudget
    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.pod_kind import PodKind


class Budgets:
    """The disruption budgets of a cluster.

    A budget whose selector is malformed, empty or missing matches no pod. With `stops_at_first` a
    pod that violates a budget does not count against those after it, as since 1.37.
    """

    def __init__(
        self, budgets: Iterable[PodDisruptionBudget] = (), *, stops_at_first: bool = False
    ) -> None:
        self._stops_at_first: Final = stops_at_first
        self._budgets: list[PodDisruptionBudget] = []
        #: The namespace and the selector of each budget.
        self._scopes: list[tuple[str, LabelSelector | None]] = []
        #: The budgets that match pods: numbers and selectors by namespace, and numbers by pod kind.
        self._by_namespace: Final[dict[str, list[tuple[int, Selector]]]] = {}
        self._of_kind: Final[WeakKeyDictionary[PodKind, list[int]]] = WeakKeyDictionary()
        self.update(budgets)

    def update(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        """Replace all budgets. Selectors are parsed if one has changed: statuses change more."""
        self._budgets = [*budgets]
        scopes = [(budget.metadata.namespace, budget.spec.selector) for budget in self._budgets]
        if scopes == self._scopes:
            return
        self._scopes = scopes
        self._by_namespace.clear()
        self._of_kind.clear()
        for number, (namespace, selector) in enumerate(scopes):
            try:
                parsed = parse_label_selector(selector)
            except (SelectorError, FieldErrors):
                continue
            if not parsed.is_empty:
                self._by_namespace.setdefault(namespace, []).append((number, parsed))

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def violating(self, pods: Sequence[PodInfo], first_on_node: IntArray) -> BoolArray:
        """Return for each pod if its eviction violates a budget.

        Pods are evicted in this order, on each node as if there were no other. `first_on_node`
        is the position of the first pod on each pod's node; the pods of a node are in sequence.
        Up to 1.36 every pod counts against each budget that matches it, also against budgets that
        it violates.
        """
        positions, numbers = self._matches(pods)
        if self._stops_at_first and len(np.unique(positions)) < len(positions):
            return self._violating_in_turn(pods, first_on_node)
        order = np.argsort(numbers, kind="stable")
        positions, numbers = positions.take(order), numbers.take(order)
        nodes = first_on_node.take(positions)
        first = np.flatnonzero(run_starts(numbers) | run_starts(nodes))
        before = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
        allowed = np.array([budget.status.disruptions_allowed for budget in self._budgets])
        violating = np.zeros(len(pods), dtype=np.bool_)
        violating[positions[before >= allowed.take(numbers)]] = True
        return violating

    def _violating_in_turn(self, pods: Sequence[PodInfo], first_on_node: IntArray) -> BoolArray:
        starts = np.unique(first_on_node)
        on_nodes = (pods[start:end] for start, end in itertools.pairwise((*starts, len(pods))))
        violations = (self.violations([pod] for pod in on_node) for on_node in on_nodes)
        return np.fromiter(itertools.chain.from_iterable(violations), dtype=np.bool_)

    def _matches(self, pods: Sequence[PodInfo]) -> tuple[IntArray, IntArray]:
        """Return the pairs of a pod and a budget that it counts against, pods in order.

        The first array has the position of the pod in each pair, the second one the number of the
        budget.
        """
        kinds = [pod.kind for pod in pods]
        code_of = {kind: code for code, kind in enumerate(dict.fromkeys(kinds))}
        codes = np.fromiter(map(code_of.__getitem__, kinds), dtype=np.int64, count=len(kinds))
        by_kind = [self._budgets_of(kind) for kind in code_of]
        counts = np.array([len(numbers) for numbers in by_kind], dtype=np.int64)
        starts = np.cumsum(counts) - counts
        totals = counts.take(codes)
        positions = np.repeat(np.arange(len(pods)), totals)
        in_pod = np.arange(len(positions)) - np.repeat(np.cumsum(totals) - totals, totals)
        flat = np.array([number for numbers in by_kind for number in numbers], dtype=np.int64)
        numbers = flat.take(np.repeat(starts.take(codes), totals) + in_pod)
        for number in np.unique(numbers).tolist():
            if disrupted := self._budgets[number].status.disrupted_pods:
                counted = [pods[position].name not in disrupted for position in positions.tolist()]
                kept = (numbers != number) | counted
                positions, numbers = positions[kept], numbers[kept]
        return positions, numbers

    def violations(self, units: Iterable[Sequence[PodInfo]]) -> Iterator[bool]:
        """Yield for each unit of pods that are evicted together, in this order, if it violates one.

        Counting stops at the first violated budget of the first violating pod of a unit, as in
        upstream for pod groups.
        """
        disruptions: Counter[int] = Counter()
        for pods in units:
            yield any(self._violates(pod, disruptions) for pod in pods)

    def _violates(self, pod: PodInfo, disruptions: Counter[int]) -> bool:
        for number in self._budgets_of(pod.kind):
            status = self._budgets[number].status
            if pod.name not in status.disrupted_pods:
                disruptions[number] += 1
                if disruptions[number] > status.disruptions_allowed:
                    return True
        return False

    def _budgets_of(self, kind: PodKind) -> list[int]:
        """Return the numbers of the budgets that match pods of a kind."""
        numbers = self._of_kind.get(kind)
        if numbers is None:
            in_namespace = self._by_namespace.get(kind.namespace, ()) if kind.labels else ()
            numbers = [n for n, selector in in_namespace if selector.matches(kind.labels)]
            self._of_kind[kind] = numbers
        return numbers
