"""Which kinds of pods run where: counting pods by a rule without looking at every pod.

Spreading and pod affinity ask of a pod only its namespace, labels, affinity terms and whether it is
on its way out. Pods that are alike in these are one `PodKind`; a rule is asked once per kind, and
its answer is counted for all of them:

    rule(kind) -> weight          asked when the rule is new, and when a kind is new
    counts[node] += weight        when a pod of that kind comes or goes

A rule's counts are kept up to date from then on, so that asking again costs one copy. The least
recently used rules are forgotten.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import numpy as np

from scheduler.api.pod_affinity import NO_TERMS, AffinityTerms, parse_affinity
from scheduler.snapshot.columns import IntArray, grown
from scheduler.snapshot.kinds_by_label import KindsByLabel
from scheduler.snapshot.slot_index import SlotIndex
from scheduler.snapshot.terms_in_use import TermsInUse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from scheduler.api.core import Affinity, Pod
    from scheduler.api.pod_affinity import AffinityTerm
    from scheduler.snapshot.pod_info import PodInfo

#: Rules whose counts are kept; the least recently used one goes first.
RULES_MAX: Final = 128

#: Up to so many new kinds are looked at one by one.
_NEW_KINDS_MAX: Final = 8
#: Up to so many slots are counted one by one.
_SLOTS_MAX: Final = 16

_CAPACITY_MIN: Final = 16
_COMPACT_MIN: Final = 64


class PodKind:
    """What pods have in common as far as selectors and affinity terms can tell. One per kind."""

    __slots__ = ("__weakref__", "affinity", "is_terminating", "labels", "namespace")

    def __init__(
        self,
        namespace: str,
        labels: Mapping[str, str],
        affinity: AffinityTerms,
        *,
        is_terminating: bool,
    ) -> None:
        self.namespace: Final = namespace
        self.labels: Final = labels
        self.affinity: Final = affinity
        self.is_terminating: Final = is_terminating

    def __repr__(self) -> str:
        return f"PodKind({self.namespace}, {dict(self.labels)})"


class PodRule(Hashable, Protocol):
    """What a pod counts for, by its kind. Equal rules must be equal objects, and give the same.

    `namespaces` are the only ones in which the rule answers anything but 0; None means any.
    `asks_affinity` says that it answers 0 for pods without affinity terms.
    """

    @property
    def namespaces(self) -> frozenset[str] | None:
        """Where to look."""
        ...

    @property
    def asks_affinity(self) -> bool:
        """Whether only pods with affinity terms matter."""
        ...

    def __call__(self, kind: PodKind) -> int:
        """What one pod of this kind counts for; 0 if it does not count."""
        ...


class LabelRule(PodRule, Protocol):
    """A rule that knows which labels it looks for, so that not all kinds need to be looked at."""

    @property
    def wanted_labels(self) -> Collection[tuple[str, str]] | None:
        """Labels of which a kind has at least one if it counts; None if it may have none."""
        ...


class TermRule(PodRule, Protocol):
    """A rule that answers 0 for all kinds but those that use one of some terms."""

    @property
    def terms(self) -> Collection[AffinityTerm]:
        """The terms that count, as the index has them (`anti_affinity_terms`)."""
        ...


_parsed_terms: Final[weakref.WeakValueDictionary[tuple[str, bytes], AffinityTerms]] = (
    weakref.WeakValueDictionary()
)
_kinds: Final[weakref.WeakValueDictionary[tuple[object, ...], PodKind]] = (
    weakref.WeakValueDictionary()
)


def kind_of(pod: Pod) -> PodKind:
    """The kind a pod is of; the same object for all that are alike."""
    metadata = pod.metadata
    terms = _terms_of(pod.spec.affinity, metadata.namespace)
    is_terminating = metadata.deletion_timestamp is not None
    key = (metadata.namespace, frozenset(metadata.labels.items()), terms, is_terminating)
    kind = _kinds.get(key)
    if kind is None:
        kind = PodKind(metadata.namespace, metadata.labels, terms, is_terminating=is_terminating)
        _kinds[key] = kind
    return kind


def _terms_of(affinity: Affinity | None, namespace: str) -> AffinityTerms:
    """The terms of a pod; the same object for all pods that say the same, as long as one lives."""
    if affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity):
        return NO_TERMS
    text = msgspec.json.encode((affinity.pod_affinity, affinity.pod_anti_affinity))
    terms = _parsed_terms.get((namespace, text))
    if terms is None:
        terms = _parsed_terms[namespace, text] = parse_affinity(affinity, namespace)
    return terms


class _Group:
    """The pods of one kind: how many on which slot, and which rules count them for how much."""

    __slots__ = ("counted", "kind", "number", "slots")

    def __init__(self, kind: PodKind, number: int) -> None:
        self.kind: Final = kind
        #: Groups are numbered as they come; a kind that comes back is a new group.
        self.number: Final = number
        self.slots: Final[dict[int, int]] = {}
        self.counted: list[tuple[_Tally, int]] = []

    def forget_dropped(self) -> None:
        """Stop counting for rules that nobody keeps any more."""
        self.counted = [(tally, weight) for tally, weight in self.counted if not tally.is_dropped]


class _Tally:
    """A rule's counts by slot, right for all groups up to a number."""

    __slots__ = ("counts", "is_dropped", "rule", "up_to")

    def __init__(self, rule: PodRule, capacity: int) -> None:
        self.rule: Final = rule
        self.counts: IntArray = np.zeros(capacity, dtype=np.int64)
        self.up_to = 0
        self.is_dropped = False

    def take_in(self, group: _Group) -> None:
        """Count a group that is new to this rule."""
        weight = self.rule(group.kind)
        if not weight:
            return
        group.counted.append((self, weight))
        if len(group.slots) <= _SLOTS_MAX:
            for slot, number in group.slots.items():
                self.counts[slot] += number * weight
        else:
            slots = np.fromiter(group.slots.keys(), dtype=np.int64, count=len(group.slots))
            numbers = np.fromiter(group.slots.values(), dtype=np.int64, count=len(group.slots))
            self.counts[slots] += numbers * weight


class PodIndex(SlotIndex):
    """The pods of all nodes, by kind."""

    def __init__(self) -> None:
        super().__init__()
        self._groups: Final[dict[PodKind, _Group]] = {}
        self._by_namespace: Final[dict[str, dict[PodKind, _Group]]] = {}
        self._with_affinity: Final[dict[PodKind, _Group]] = {}
        #: In the order of their numbers; those that have died are cleared out now and then.
        self._in_order: list[_Group] = []
        self._by_label: Final = KindsByLabel(self._groups)
        self._last_number = 0
        self._capacity = _CAPACITY_MIN
        self._tallies: Final[dict[PodRule, _Tally]] = {}
        self._by_term: Final[dict[AffinityTerm, dict[PodKind, _Group]]] = {}
        #: The required anti-affinity terms of the pods there are.
        self.anti_affinity_terms: Final = TermsInUse()
        #: All their other terms: required affinity, and preferences.
        self.affinity_terms: Final = TermsInUse()

    # Reading.

    @property
    def anti_affinity_keys(self) -> Collection[str]:
        """The topology keys of all required anti-affinity terms of the pods there are."""
        return self.anti_affinity_terms.topology_keys

    @property
    def affinity_keys(self) -> Collection[str]:
        """The topology keys of all their other terms: required affinity, and preferences."""
        return self.affinity_terms.topology_keys

    def counts(self, rule: PodRule) -> IntArray:
        """What the pods on each slot count for by a rule. Not to be written to, or kept."""
        tally = self._tallies.pop(rule, None)
        if tally is None:
            if len(self._tallies) >= RULES_MAX:
                self._tallies.pop(next(iter(self._tallies))).is_dropped = True
            tally = _Tally(rule, self._capacity)
            for group in self._candidates(rule):
                tally.take_in(group)
        elif tally.up_to < self._last_number:
            self._catch_up(tally)
        tally.up_to = self._last_number
        self._tallies[rule] = tally
        return tally.counts

    def _candidates(self, rule: PodRule) -> Iterable[_Group]:
        """All groups that may count by a rule, and some that do not."""
        groups = self._narrowed(rule)
        if groups is not None:
            return groups
        if rule.asks_affinity:
            return self._with_affinity.values()
        if rule.namespaces is None:
            return self._groups.values()
        return [
            group
            for namespace in rule.namespaces
            for group in self._by_namespace.get(namespace, {}).values()
        ]

    def _narrowed(self, rule: PodRule) -> Iterable[_Group] | None:
        """Likewise, if the rule knows what it looks for; None if it does not."""
        # Asked by attribute: to ask whether it is of a protocol takes longer than all the rest.
        terms: Collection[AffinityTerm] | None = getattr(rule, "terms", None)
        if terms is not None:
            users = [self._by_term.get(term, {}) for term in terms]
            return users[0].values() if len(users) == 1 else _merged(users).values()
        labels: Collection[tuple[str, str]] | None = getattr(rule, "wanted_labels", None)
        return None if labels is None else self._by_label.find(labels)

    def _catch_up(self, tally: _Tally) -> None:
        """Count the groups that have come since; dead ones have no slots, and do no harm."""
        rule, up_to = tally.rule, tally.up_to
        groups = self._narrowed(rule) if self._last_number - up_to > _NEW_KINDS_MAX else None
        if groups is not None:
            for group in groups:
                if group.number > up_to:
                    tally.take_in(group)
            return
        namespaces = rule.namespaces
        for group in reversed(self._in_order):
            if group.number <= up_to:
                return
            if group.slots and (namespaces is None or group.kind.namespace in namespaces):
                tally.take_in(group)

    # Writing.

    def _make_room(self, slot: int) -> None:
        if slot >= self._capacity:
            self._grow(slot)

    def _add(self, slot: int, pod: PodInfo) -> None:
        group = self._groups.get(pod.kind)
        if group is None:
            group = self._new_group(pod.kind)
        group.slots[slot] = group.slots.get(slot, 0) + 1
        if len(group.counted) > RULES_MAX:
            group.forget_dropped()
        for tally, weight in group.counted:
            tally.counts[slot] += weight

    def _remove(self, slot: int, pod: PodInfo) -> None:
        group = self._groups[pod.kind]
        left = group.slots[slot] - 1
        if left:
            group.slots[slot] = left
        else:
            del group.slots[slot]
        for tally, weight in group.counted:
            tally.counts[slot] -= weight
        if not group.slots:
            self._drop_group(group)

    def _new_group(self, kind: PodKind) -> _Group:
        self._last_number += 1
        group = self._groups[kind] = _Group(kind, self._last_number)
        self._by_namespace.setdefault(kind.namespace, {})[kind] = group
        self._by_label.add(kind, group)
        self._in_order.append(group)
        if kind.affinity is not NO_TERMS:
            self._with_affinity[kind] = group
            anti_affinity, others = kind.affinity.required_anti_affinity, _other_terms(kind)
            self.anti_affinity_terms.add(anti_affinity)
            self.affinity_terms.add(others)
            for term in (*anti_affinity, *others):
                self._by_term.setdefault(term, {})[kind] = group
        return group

    def _drop_group(self, group: _Group) -> None:
        kind = group.kind
        del self._groups[kind]
        self._by_label.remove(kind)
        in_namespace = self._by_namespace[kind.namespace]
        del in_namespace[kind]
        if not in_namespace:
            del self._by_namespace[kind.namespace]
        if kind.affinity is not NO_TERMS:
            del self._with_affinity[kind]
            anti_affinity, others = kind.affinity.required_anti_affinity, _other_terms(kind)
            self.anti_affinity_terms.remove(anti_affinity)
            self.affinity_terms.remove(others)
            for term in {*anti_affinity, *others}:
                users = self._by_term[term]
                del users[kind]
                if not users:
                    del self._by_term[term]
        if len(self._in_order) > _COMPACT_MIN + 2 * len(self._groups):
            self._in_order = [group for group in self._in_order if group.slots]

    def _grow(self, slot: int) -> None:
        self._capacity = max(self._capacity * 2, slot + 1)
        for tally in self._tallies.values():
            tally.counts = grown(tally.counts, self._capacity)
        for group in self._groups.values():
            group.forget_dropped()  # their counts do not grow

    def check(self) -> None:
        """Verify that all counts are the sums over the pods; raises AssertionError. For tests."""
        found = Counter(
            (pod.kind, slot) for slot, pods in self._pods.items() for pod in pods.values()
        )
        kept = {
            (kind, slot): number
            for kind, group in self._groups.items()
            for slot, number in group.slots.items()
        }
        assert kept == dict(found), "pods by kind"
        for rule in list(self._tallies):
            expected = np.zeros(self._capacity, dtype=np.int64)
            for (kind, slot), number in kept.items():
                expected[slot] += number * rule(kind)
            assert (self.counts(rule) == expected).all(), f"counts by {rule}"


def _merged(groups: Iterable[Mapping[PodKind, _Group]]) -> dict[PodKind, _Group]:
    return {kind: group for some in groups for kind, group in some.items()}


def _other_terms(kind: PodKind) -> list[AffinityTerm]:
    """All terms of a kind but its required anti-affinity."""
    terms = kind.affinity
    preferred = (*terms.preferred_affinity, *terms.preferred_anti_affinity)
    return [*terms.required_affinity, *(weighted.term for weighted in preferred)]
