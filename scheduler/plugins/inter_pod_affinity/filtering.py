"""Count the pods that match affinity terms per topology domain, and filter all nodes at once.

A domain is the set of nodes with one value of a topology key. Rules count pods per node
(`scheduler.snapshot.pod_index`); the counts of a domain's nodes are added up for all domains at
once. Terms match in both directions:

    terms of the incoming pod, matched with existing pods: `MatchesAllTerms`, `SumOfMatchingTerms`
    terms of existing pods, matched with the incoming pod: `CountOfExistingTerms`,
    `SumOfExistingTerms`

`FilterState` holds the counts of PreFilter.
Mirrors `filtering.go` and `scoring.go` of `pkg/scheduler/framework/plugins/interpodaffinity`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Self

import numpy as np

from scheduler.api.selectors import NOTHING
from scheduler.framework.cycle_state import StateKey
from scheduler.framework.status import (
    Rejections,
    Status,
    reject,
    reject_by,
    unresolvable,
    unschedulable,
)
from scheduler.snapshot.columns import ABSENT
from scheduler.snapshot.pod_kind import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.api.pod_affinity import AffinityTerm
    from scheduler.snapshot.columns import BoolArray, FloatArray, IntArray
    from scheduler.snapshot.nodes import NodeInfo
    from scheduler.snapshot.pod_kind import PodKind, PodWeight
    from scheduler.snapshot.snapshot import Snapshot

_NO_AFFINITY: Final = unresolvable("node(s) didn't match pod affinity rules")
_ANTI_AFFINITY: Final = unschedulable("node(s) didn't match pod anti-affinity rules")
_EXISTING_ANTI_AFFINITY: Final = unschedulable(
    "node(s) didn't satisfy existing pods anti-affinity rules"
)

_NO_LABELS: Final[Mapping[str, str]] = {}
HOSTNAME: Final = "kubernetes.io/hostname"


class MatchesAllTerms(Rule):
    """Count the pods that match all terms of the incoming pod; none if it has no term.

    The namespaces that a namespace selector selects are in the term's `namespaces`. So the selector
    is evaluated without labels. Source: `podMatchesAllAffinityTerms`.
    """

    __slots__ = ("_terms", "namespaces", "wanted_labels")

    def __init__(self, terms: tuple[AffinityTerm, ...]) -> None:
        super().__init__(terms)
        self._terms: Final = terms
        self.namespaces: Final = _common([_namespaces_of(term) for term in terms])
        self.wanted_labels: Final = next(
            (labels for term in terms if (labels := term.wanted_labels) is not None), None
        )

    def __call__(self, kind: PodKind) -> int:
        return int(self.matches(kind.namespace, kind.labels))

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return bool(self._terms) and all(
            term.matches(namespace, labels, _NO_LABELS) for term in self._terms
        )


class SumOfMatchingTerms(Rule):
    """Add up the weights of the incoming pod's terms that match a pod.

    Namespace selectors are evaluated as by `MatchesAllTerms`.
    """

    __slots__ = ("_terms", "namespaces", "wanted_labels")

    def __init__(self, terms: tuple[tuple[int, AffinityTerm], ...]) -> None:
        super().__init__(terms)
        self._terms: Final = terms
        self.namespaces: Final = _any_of([_namespaces_of(term) for _, term in terms])
        wanted = [term.wanted_labels for _, term in terms]
        self.wanted_labels: Final = (
            None if None in wanted else {label for labels in wanted for label in labels or ()}
        )

    def __call__(self, kind: PodKind) -> int:
        """The sum for one pod."""
        namespace, labels = kind.namespace, kind.labels
        return sum(
            weight for weight, term in self._terms if term.matches(namespace, labels, _NO_LABELS)
        )


class CountOfExistingTerms(Rule):
    """Count the required anti-affinity terms of a pod that are in a set of terms."""

    __slots__ = ("terms",)

    needs_affinity_terms: ClassVar[bool] = True
    namespaces: Final = None

    def __init__(self, terms: frozenset[AffinityTerm]) -> None:
        super().__init__(terms)
        self.terms: Final = terms

    def __call__(self, kind: PodKind) -> int:
        return sum(term in self.terms for term in kind.affinity.required_anti_affinity)


class SumOfExistingTerms(Rule):
    """Add up the weights of the affinity terms of a pod that are in a set of terms.

    Preferred anti-affinity is negative, required affinity counts `hard_weight`.
    Source: `processExistingPod`.
    """

    __slots__ = ("_hard_weight", "terms")

    needs_affinity_terms: ClassVar[bool] = True
    namespaces: Final = None

    def __init__(self, terms: frozenset[AffinityTerm], hard_weight: int) -> None:
        super().__init__((terms, hard_weight))
        self.terms: Final = terms
        self._hard_weight: Final = hard_weight

    def __call__(self, kind: PodKind) -> int:
        """The sum for one pod."""
        terms, affinity = self.terms, kind.affinity
        weight = self._hard_weight * sum(term in terms for term in affinity.required_affinity)
        weight += sum(w for w, term in affinity.preferred_affinity if term in terms)
        return weight - sum(w for w, term in affinity.preferred_anti_affinity if term in terms)


def selects_namespaces(term: AffinityTerm) -> bool:
    """True if the term selects namespaces by their labels."""
    selector = term.namespace_selector
    return selector is not NOTHING and not selector.is_empty


def by_topology_key(
    terms: Iterable[tuple[int, AffinityTerm]],
) -> dict[str, tuple[tuple[int, AffinityTerm], ...]]:
    """Group weighted terms by topology key."""
    by_key: dict[str, list[tuple[int, AffinityTerm]]] = {}
    for weight, term in terms:
        by_key.setdefault(term.topology_key, []).append((weight, term))
    return {key: tuple(weighted) for key, weighted in by_key.items()}


def _namespaces_of(term: AffinityTerm) -> frozenset[str] | None:
    """Return the namespaces of an incoming pod's term; None for all."""
    return None if term.namespace_selector.matches(_NO_LABELS) else term.namespaces


def _common(sets: list[frozenset[str] | None]) -> frozenset[str] | None:
    limited = [names for names in sets if names is not None]
    return frozenset.intersection(*limited) if limited else None


def _any_of(sets: list[frozenset[str] | None]) -> frozenset[str] | None:
    limited = [names for names in sets if names is not None]
    return frozenset.union(*limited) if limited and len(limited) == len(sets) else None


class Domains:
    """The sum of counts or weights in each domain of a topology key.

    A dry run changes each node in a world of its own: `change` affects the sum at this node, but
    not at other nodes of its domain.
    """

    __slots__ = ("_changes", "_is_empty", "_numbers", "_outside", "_sums")

    def __init__(
        self, numbers: IntArray, sums: FloatArray, *, is_empty: bool, outside: int = 0
    ) -> None:
        #: Each node's domain, counted from 1; 0 for nodes without the key.
        self._numbers: Final = numbers
        self._sums: Final = sums
        self._is_empty: Final = is_empty
        #: The sum on nodes without the key, where it counts for the total.
        self._outside: Final = outside
        self._changes: IntArray | None = None

    @classmethod
    def empty(cls, nodes_total: int) -> Self:
        """Return domains without any pod."""
        return cls(np.zeros(nodes_total, dtype=np.int64), np.zeros(1), is_empty=True)

    def __bool__(self) -> bool:
        """True if a sum is not 0 or a dry run has changed a node."""
        return not self._is_empty or self._changes is not None

    @property
    def total(self) -> int:
        """The sum over all domains without changes."""
        return int(self._sums.sum()) + self._outside

    def at(self, rows: IntArray) -> FloatArray:
        """Return the sum of each row's domain; 0 for nodes without the key."""
        sums = self._sums.take(self._numbers.take(rows))
        if self._changes is not None:
            sums += self._changes.take(rows)
        return sums

    def present(self, rows: IntArray) -> BoolArray:
        """Return the rows that have the topology key."""
        return self._numbers.take(rows) > 0

    def change(self, row: int, count: int) -> None:
        """Add to the sum at a node, which must have the key."""
        if self._changes is None:
            self._changes = np.zeros(len(self._numbers), dtype=np.int64)
        self._changes[row] += count

    def changes(self, rows: IntArray) -> IntArray | int:
        """Return the changes of these rows."""
        return 0 if self._changes is None else self._changes.take(rows)

    def clone(self) -> Self:
        copy = type(self)(self._numbers, self._sums, is_empty=self._is_empty, outside=self._outside)
        if self._changes is not None:
            copy._changes = self._changes.copy()
        return copy


class Topology:
    """The domains of a snapshot's nodes, numbered once per topology key.

    With `hosts_apart` each node with a hostname is a domain of its own, also beside another node
    with the same one, and the pods on nodes without a hostname count for the total.
    """

    def __init__(self, snapshot: Snapshot, *, hosts_apart: bool = False) -> None:
        self._snapshot: Final = snapshot
        self._hosts_apart: Final = hosts_apart
        self._numbers: Final[dict[str, IntArray]] = {}

    def counted(self, topology_key: str, *rules: PodWeight) -> Domains:
        """Return the sum of the rules over all pods, by domain."""
        is_apart = self._hosts_apart and topology_key == HOSTNAME
        numbers = self._numbers.get(topology_key)
        if numbers is None:
            numbers = self._snapshot.nodes.labels(topology_key).codes - np.int64(ABSENT)
            if is_apart:
                numbers = np.where(numbers > 0, np.arange(1, len(numbers) + 1), 0)
            self._numbers[topology_key] = numbers
        counts = self._snapshot.count_pods(rules[0])
        for rule in rules[1:]:
            counts += self._snapshot.count_pods(rule)
        # Sums of counts and weights stay far below 2**53, up to which floats are exact.
        # They are floats already: `astype` is for the type checker.
        sums = np.bincount(numbers, weights=counts, minlength=1).astype(np.float64, copy=False)
        outside = int(sums[0]) if is_apart else 0
        sums[0] = 0.0
        return Domains(numbers, sums, is_empty=not np.count_nonzero(sums), outside=outside)

    def counted_by(self, rules: Mapping[str, PodWeight]) -> dict[str, Domains]:
        """Return the domains of each topology key, counted by its rule."""
        return {key: self.counted(key, rule) for key, rule in rules.items()}


class Required(NamedTuple):
    """The rules of an incoming pod's required terms.

    A pod counts if it matches all affinity terms; anti-affinity terms count by topology key.
    """

    affinity: MatchesAllTerms
    affinity_keys: frozenset[str]
    anti_affinity: Mapping[str, SumOfMatchingTerms]

    @staticmethod
    def from_terms(
        affinity: Iterable[AffinityTerm], anti_affinity: Iterable[AffinityTerm]
    ) -> Required:
        affinity = tuple(affinity)
        by_key = by_topology_key((1, term) for term in anti_affinity)
        return Required(
            MatchesAllTerms(affinity),
            frozenset(term.topology_key for term in affinity),
            {key: SumOfMatchingTerms(terms) for key, terms in by_key.items()},
        )


class Incoming(NamedTuple):
    """The incoming pod: what other pods' terms match, and its own rules."""

    kind: PodKind
    namespace_labels: Mapping[str, str]
    required: Required


@dataclass(slots=True)
class FilterState:
    """The matches in each domain, by topology key; upstream's `preFilterState`.

    `existing` counts the required anti-affinity terms of existing pods that match the incoming pod;
    the other two count existing pods that match its terms. A dry run changes each node in a world
    of its own, so that one state serves all of them.
    """

    incoming: Incoming
    existing: dict[str, Domains]
    affinity: dict[str, Domains]
    anti_affinity: dict[str, Domains]
    nodes_total: int

    def clone(self) -> FilterState:
        return replace(
            self,
            existing=_clones(self.existing),
            affinity=_clones(self.affinity),
            anti_affinity=_clones(self.anti_affinity),
        )

    def change(self, other: PodKind, node: NodeInfo, sign: int) -> None:
        """Add (1) or remove (-1) a pod of this kind on the node."""
        labels, row = node.labels, node.base_row
        kind, namespace_labels, required = self.incoming
        for term in other.affinity.required_anti_affinity:
            key = term.topology_key
            if key in labels and term.matches(kind.namespace, kind.labels, namespace_labels):
                if key not in self.existing:
                    self.existing[key] = Domains.empty(self.nodes_total)
                self.existing[key].change(row, sign)
        if self.affinity and required.affinity(other):
            for key, domains in self.affinity.items():
                if key in labels:
                    domains.change(row, sign)
        for key, rule in required.anti_affinity.items():
            if key in labels and (terms := rule(other)):
                self.anti_affinity[key].change(row, sign * terms)

    def rejections(self, rows: IntArray) -> Rejections | None:
        """Return the rejections of these rows, real or hypothetical; None if all pass."""
        rejected: list[tuple[BoolArray, Status]] = []
        if self.affinity:
            rejected.append((~self._satisfies_affinity(rows), _NO_AFFINITY))
        for counted, status in (
            (self.anti_affinity, _ANTI_AFFINITY),
            (self.existing, _EXISTING_ANTI_AFFINITY),
        ):
            rejected += [(domains.at(rows) > 0, status) for domains in counted.values() if domains]
        if len(rejected) == 1:
            return reject(*rejected[0])
        return reject_by(*rejected) if rejected else None

    def _satisfies_affinity(self, rows: IntArray) -> BoolArray:
        """Return the nodes with all topology keys and a matching pod in each of their domains.

        If no pod matches anywhere, and the incoming pod matches its own terms, the keys are enough:
        so the first of several such pods can be scheduled. Source: `satisfyPodAffinity`.
        """
        all_keys = np.ones(len(rows), dtype=np.bool_)
        all_pods = np.ones(len(rows), dtype=np.bool_)
        total = np.zeros(len(rows), dtype=np.int64)
        for domains in self.affinity.values():
            all_keys &= domains.present(rows)
            all_pods &= domains.at(rows) > 0
            total += domains.total + domains.changes(rows)
        if self.incoming.required.affinity(self.incoming.kind):
            all_pods |= total == 0
        return all_keys & all_pods


def _clones(counted: Mapping[str, Domains]) -> dict[str, Domains]:
    return {key: domains.clone() for key, domains in counted.items()}


FILTER_STATE: Final = StateKey[FilterState](
    "PreFilterInterPodAffinity", 'error reading "{}" from cycleState: not found'
)
