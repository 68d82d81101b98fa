"""What InterPodAffinity counts: which pods are meant by whose terms, and how many per domain.

A domain is the set of nodes with one value of a topology key. Pods are counted by rules, per node
(`scheduler.snapshot.pod_index`), and the counts of a domain's nodes are added up, all domains at
once. There are two directions:

    terms of the incoming pod     mean existing pods    `MatchesAllTerms`, `SumOfMatchingTerms`
    terms of existing pods        mean the incoming pod `CountOfExistingTerms`, `SumOfExistingTerms`

`FilterState` is what PreFilter has counted in both, and judges nodes by it.
Mirrors `filtering.go` and `scoring.go` of `pkg/scheduler/framework/plugins/interpodaffinity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self

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

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.api.pod_affinity import AffinityTerm
    from scheduler.snapshot.columns import BoolArray, FloatArray, IntArray
    from scheduler.snapshot.nodes import NodeInfo
    from scheduler.snapshot.pod_kind import PodKind, PodWeight
    from scheduler.snapshot.snapshot import Snapshot

_NOT_NEAR: Final = unresolvable("node(s) didn't match pod affinity rules")
_TOO_NEAR: Final = unschedulable("node(s) didn't match pod anti-affinity rules")
_UNWELCOME: Final = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

_NO_LABELS: Final[Mapping[str, str]] = {}


class _Rule:
    """A rule that is what its key is. Rules are compared far more often than made."""

    __slots__ = ("_hash", "_key")

    def __init__(self, key: object) -> None:
        self._key: Final = key
        self._hash: Final = hash((type(self), key))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, _Rule) and type(other) is type(self) and other._key == self._key

    def __hash__(self) -> int:
        return self._hash


class MatchesAllTerms(_Rule):
    """Counts the pods that every one of the incoming pod's terms means; none if it has no term.

    Namespace selectors are asked about a namespace without labels: what they select has been put
    into `namespaces` before. Source: `podMatchesAllAffinityTerms`.
    """

    __slots__ = ("_terms", "namespaces", "wanted_labels")

    needs_affinity_terms: Final = False

    def __init__(self, terms: tuple[AffinityTerm, ...]) -> None:
        super().__init__(terms)
        self._terms: Final = terms
        self.namespaces: Final = _common([_namespaces_of(term) for term in terms])
        self.wanted_labels: Final = next(
            (labels for term in terms if (labels := term.wanted_labels) is not None), None
        )

    def __call__(self, kind: PodKind) -> int:
        """1 for each pod."""
        return int(self.means(kind.namespace, kind.labels))

    def means(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether the terms mean a pod with these labels."""
        return bool(self._terms) and all(
            term.matches(namespace, labels, _NO_LABELS) for term in self._terms
        )


class SumOfMatchingTerms(_Rule):
    """Adds up the weights of those of the incoming pod's terms that mean a pod.

    Namespace selectors are asked as by `MatchesAllTerms`.
    """

    __slots__ = ("_terms", "namespaces", "wanted_labels")

    needs_affinity_terms: Final = False

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


class CountOfExistingTerms(_Rule):
    """Counts required anti-affinity terms of existing pods: those that are among some terms."""

    __slots__ = ("terms",)

    needs_affinity_terms: Final = True
    namespaces: Final = None

    def __init__(self, terms: frozenset[AffinityTerm]) -> None:
        super().__init__(terms)
        self.terms: Final = terms

    def __call__(self, kind: PodKind) -> int:
        """How many terms of one pod are."""
        return sum(term in self.terms for term in kind.affinity.required_anti_affinity)


class SumOfExistingTerms(_Rule):
    """Adds up the weights of existing pods' other terms that are among some terms.

    Preferred anti-affinity counts against, required affinity for `hard_weight`.
    Source: `processExistingPod`.
    """

    __slots__ = ("_hard_weight", "terms")

    needs_affinity_terms: Final = True
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


def is_open(term: AffinityTerm) -> bool:
    """Whether it depends on the namespaces there are which pods a term means."""
    selector = term.namespace_selector
    return selector is not NOTHING and not selector.is_empty


def by_topology_key(
    terms: Iterable[tuple[int, AffinityTerm]],
) -> dict[str, tuple[tuple[int, AffinityTerm], ...]]:
    """Weighted terms, sorted out by topology key."""
    found: dict[str, list[tuple[int, AffinityTerm]]] = {}
    for weight, term in terms:
        found.setdefault(term.topology_key, []).append((weight, term))
    return {key: tuple(weighted) for key, weighted in found.items()}


def _namespaces_of(term: AffinityTerm) -> frozenset[str] | None:
    """The namespaces that a term of an incoming pod looks at; None for all."""
    return None if term.namespace_selector.matches(_NO_LABELS) else term.namespaces


def _common(sets: list[frozenset[str] | None]) -> frozenset[str] | None:
    limited = [names for names in sets if names is not None]
    return frozenset.intersection(*limited) if limited else None


def _any_of(sets: list[frozenset[str] | None]) -> frozenset[str] | None:
    limited = [names for names in sets if names is not None]
    return frozenset.union(*limited) if limited and len(limited) == len(sets) else None


class Domains:
    """What pods count for in each domain of a topology key, as seen from each node of a snapshot.

    A dry run changes nodes one by one, each in a world of its own: `change` is seen from the node
    changed, and from no other node of its domain.
    """

    __slots__ = ("_changes", "_is_empty", "_numbers", "_sums")

    def __init__(self, numbers: IntArray, sums: FloatArray, *, is_empty: bool) -> None:
        #: Each node's domain, counted from 1; 0 for nodes without the key.
        self._numbers: Final = numbers
        self._sums: Final = sums
        self._is_empty: Final = is_empty
        self._changes: IntArray | None = None

    @classmethod
    def empty(cls, nodes_total: int) -> Self:
        """No pod counts on any node of the snapshot, so far."""
        return cls(np.zeros(nodes_total, dtype=np.int64), np.zeros(1), is_empty=True)

    def __bool__(self) -> bool:
        """Whether pods count for anything in any domain, or something has been changed."""
        return not self._is_empty or self._changes is not None

    @property
    def total(self) -> int:
        """The sum over all domains, whatever has been changed."""
        return int(self._sums.sum())

    def at(self, rows: IntArray) -> FloatArray:
        """The sum of the domain of each of these rows; 0 for nodes without the key."""
        sums = self._sums.take(self._numbers.take(rows))
        if self._changes is not None:
            sums += self._changes.take(rows)
        return sums

    def present(self, rows: IntArray) -> BoolArray:
        """Which of these rows have the topology key."""
        return self._numbers.take(rows) > 0

    def change(self, row: int, count: int) -> None:
        """So much more for the domain of a node, which must have the key, as seen from there."""
        if self._changes is None:
            self._changes = np.zeros(len(self._numbers), dtype=np.int64)
        self._changes[row] += count

    def changes(self, rows: IntArray) -> IntArray | int:
        """What has been changed on each of these rows."""
        return 0 if self._changes is None else self._changes.take(rows)

    def clone(self) -> Self:
        copy = type(self)(self._numbers, self._sums, is_empty=self._is_empty)
        if self._changes is not None:
            copy._changes = self._changes.copy()
        return copy


class Topology:
    """The domains of a snapshot's nodes, numbered once for each topology key asked about."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot: Final = snapshot
        self._numbers: Final[dict[str, IntArray]] = {}

    def counted(self, topology_key: str, *rules: PodWeight) -> Domains:
        """Count the pods on all nodes by the sum of some rules, and add them up by domain."""
        numbers = self._numbers.get(topology_key)
        if numbers is None:
            numbers = self._snapshot.nodes.labels(topology_key).codes - np.int64(ABSENT)
            self._numbers[topology_key] = numbers
        counts = self._snapshot.count_pods(rules[0])
        for rule in rules[1:]:
            counts += self._snapshot.count_pods(rule)
        # Sums of counts and weights stay far below 2**53, up to which floats are exact.
        # They are floats already: `astype` is for the type checker.
        sums = np.bincount(numbers, weights=counts, minlength=1).astype(np.float64, copy=False)
        sums[0] = 0.0
        return Domains(numbers, sums, is_empty=not np.count_nonzero(sums))

    def counted_by(self, rules: Mapping[str, PodWeight]) -> dict[str, Domains]:
        """Count by one rule for each topology key."""
        return {key: self.counted(key, rule) for key, rule in rules.items()}


class Required(NamedTuple):
    """What an incoming pod's required terms ask about other pods.

    All affinity terms must mean a pod, under all of their topology keys; anti-affinity terms are
    asked by topology key.
    """

    affinity: MatchesAllTerms
    affinity_keys: frozenset[str]
    anti_affinity: Mapping[str, SumOfMatchingTerms]

    @staticmethod
    def of(affinity: Iterable[AffinityTerm], anti_affinity: Iterable[AffinityTerm]) -> Required:
        """Sort out the terms."""
        affinity = tuple(affinity)
        by_key = by_topology_key((1, term) for term in anti_affinity)
        return Required(
            MatchesAllTerms(affinity),
            frozenset(term.topology_key for term in affinity),
            {key: SumOfMatchingTerms(terms) for key, terms in by_key.items()},
        )


class Incoming(NamedTuple):
    """The incoming pod: what others' terms look at, and what it requires itself."""

    kind: PodKind
    namespace_labels: Mapping[str, str]
    required: Required


class FilterState:
    """How many pods count in each domain, by topology key; see `preFilterState`.

    `existing` counts the required anti-affinity terms of existing pods that mean the incoming pod,
    the other two count existing pods that it means. In a dry run each node is changed in a world of
    its own, so that one state serves for all of them.
    """

    def __init__(
        self,
        incoming: Incoming,
        *,
        existing: dict[str, Domains],
        affinity: dict[str, Domains],
        anti_affinity: dict[str, Domains],
        nodes_total: int,
    ) -> None:
        self._incoming: Final = incoming
        self.existing: Final = existing
        self.affinity: Final = affinity
        self.anti_affinity: Final = anti_affinity
        self._nodes_total: Final = nodes_total

    def clone(self) -> FilterState:
        return FilterState(
            self._incoming,
            existing=_clones(self.existing),
            affinity=_clones(self.affinity),
            anti_affinity=_clones(self.anti_affinity),
            nodes_total=self._nodes_total,
        )

    def change(self, other: PodKind, node: NodeInfo, sign: int) -> None:
        """A pod of this kind has come to the node (1), or gone from it (-1)."""
        labels, row = node.labels, node.base_row
        kind, namespace_labels, required = self._incoming
        for term in other.affinity.required_anti_affinity:
            key = term.topology_key
            if key in labels and term.matches(kind.namespace, kind.labels, namespace_labels):
                if key not in self.existing:
                    self.existing[key] = Domains.empty(self._nodes_total)
                self.existing[key].change(row, sign)
        if self.affinity and required.affinity(other):
            for key, domains in self.affinity.items():
                if key in labels:
                    domains.change(row, sign)
        for key, rule in required.anti_affinity.items():
            if key in labels and (terms := rule(other)):
                self.anti_affinity[key].change(row, sign * terms)

    def rejections(self, rows: IntArray) -> Rejections | None:
        """The verdicts on these rows of the snapshot, or on hypothetical versions of them."""
        verdicts: list[tuple[BoolArray, Status]] = []
        if self.affinity:
            verdicts.append((~self._in_company(rows), _NOT_NEAR))
        for counted, status in ((self.anti_affinity, _TOO_NEAR), (self.existing, _UNWELCOME)):
            verdicts += [(domains.at(rows) > 0, status) for domains in counted.values() if domains]
        if len(verdicts) == 1:
            return reject(*verdicts[0])
        return reject_by(*verdicts) if verdicts else None

    def _in_company(self, rows: IntArray) -> BoolArray:
        """Which nodes have all topology keys, and wanted pods in all of their domains.

        If there is no such pod anywhere the keys alone will do, if the pod is one itself: the first
        of several that want to be together must find a place. See `satisfyPodAffinity`.
        """
        all_keys = np.ones(len(rows), dtype=np.bool_)
        all_pods = np.ones(len(rows), dtype=np.bool_)
        total = np.zeros(len(rows), dtype=np.int64)
        for domains in self.affinity.values():
            all_keys &= domains.present(rows)
            all_pods &= domains.at(rows) > 0
            total += domains.total + domains.changes(rows)
        if self._incoming.required.affinity(self._incoming.kind):
            all_pods |= total == 0
        return all_keys & all_pods


def _clones(counted: Mapping[str, Domains]) -> dict[str, Domains]:
    return {key: domains.clone() for key, domains in counted.items()}


#: Where PreFilter leaves its counts.
FILTER_STATE: Final = StateKey[FilterState](
    "PreFilterInterPodAffinity", 'error reading "{}" from cycleState: not found'
)
