"""The pods of all nodes by pod kind, label and affinity term; weighted counts of pods per node.

    weight(kind)               called when the weight function is new, and when a kind is new
    counts[slot] += weight     when a pod of that kind is added to or removed from a node

Counts are kept up to date from then on, so that a repeated query costs one copy. They are cached
per weight function; the least recently used ones are evicted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.api.pod_affinity import NO_TERMS
from scheduler.lru_cache import LruCache
from scheduler.snapshot.columns import IntArray, Slot, grown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from scheduler.api.pod_affinity import AffinityTerm
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.pod_kind import PodKind, PodWeight

#: The number of weight functions whose counts are cached.
WEIGHTS_MAX: Final = 128
#: The number of label keys that are indexed. An index over a label such as the pod's name is as
#: large as the number of pods, so only keys that queries use have one.
LABEL_KEYS_MAX: Final = 32

#: Up to this many new kinds, all of them are weighed; beyond it an index narrows the search.
_NEW_KINDS_MAX: Final = 8
#: Up to this many slots, counts are added one by one; beyond it by one numpy operation.
_SLOTS_MAX: Final = 16

_CAPACITY_MIN: Final = 16
_COMPACT_MIN: Final = 64

_NO_TERMS_FOUND: Final[Mapping[str, frozenset[AffinityTerm]]] = {}


class PodsBySlot:
    """The base of indexes over the pods of all nodes: finds the pods that were added or removed.

    Nodes are identified by slot: a number that a node keeps until it is deleted.
    """

    def __init__(self) -> None:
        self._pods: Final[dict[Slot, Mapping[str, PodInfo]]] = {}

    def set_pods(self, slot: Slot, pods: Mapping[str, PodInfo]) -> bool:
        """Set the pods on a slot, by uid. `pods` is kept and must not change afterwards.

        Returns True if the pods of the slot have changed.
        """
        self._ensure_capacity(slot)
        before = self._pods.get(slot, {})
        if pods:
            self._pods[slot] = pods
        else:
            self._pods.pop(slot, None)
        if before == pods:
            return False
        for uid, pod in before.items():
            if pods.get(uid) is not pod:
                self._remove(slot, pod)
        for uid, pod in pods.items():
            if before.get(uid) is not pod:
                self._add(slot, pod)
        return True

    def keep_only(self, slots: Iterable[Slot]) -> None:
        """Remove the pods on all other slots."""
        for slot in self._pods.keys() - set(slots):
            self.set_pods(slot, {})

    def _ensure_capacity(self, slot: Slot) -> None:
        """Grow the arrays so that `slot` is a valid index, even for a node without pods."""
        raise NotImplementedError

    def _add(self, slot: Slot, pod: PodInfo) -> None:
        raise NotImplementedError

    def _remove(self, slot: Slot, pod: PodInfo) -> None:
        raise NotImplementedError


class _KindOnNodes:
    """The number of pods of one kind on each slot, and the cached counts that include them."""

    __slots__ = ("included_in", "kind", "number", "slots")

    def __init__(self, kind: PodKind, number: int) -> None:
        self.kind: Final = kind
        #: Numbers only grow; a kind that was removed and is added again gets a new one.
        self.number: Final = number
        self.slots: Final[dict[Slot, int]] = {}
        self.included_in: list[tuple[_CachedCounts, int]] = []

    def drop_evicted(self) -> None:
        """Stop updating counts that the cache has evicted."""
        self.included_in = [(c, weight) for c, weight in self.included_in if not c.is_evicted]


class _CachedCounts:
    """The weighted counts per slot of one weight function.

    Kinds with a number above `up_to` are not included yet.
    """

    __slots__ = ("by_slot", "is_evicted", "up_to", "weight")

    def __init__(self, weight: PodWeight, capacity: int) -> None:
        self.weight: Final = weight
        self.by_slot: IntArray = np.zeros(capacity, dtype=np.int64)
        self.up_to = 0
        self.is_evicted = False

    def include(self, kind: _KindOnNodes) -> None:
        """Add the pods of a kind that is not included yet."""
        weight = self.weight(kind.kind)
        if not weight:
            return
        kind.included_in.append((self, weight))
        if len(kind.slots) <= _SLOTS_MAX:
            for slot, number in kind.slots.items():
                self.by_slot[slot] += number * weight
        else:
            slots = np.fromiter(kind.slots.keys(), dtype=np.int64, count=len(kind.slots))
            numbers = np.fromiter(kind.slots.values(), dtype=np.int64, count=len(kind.slots))
            self.by_slot[slots] += numbers * weight


class PodIndex(PodsBySlot):
    """The pods of all nodes, by kind."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: Final[dict[PodKind, _KindOnNodes]] = {}
        self._by_namespace: Final[dict[str, dict[PodKind, _KindOnNodes]]] = {}
        self._with_affinity: Final[dict[PodKind, _KindOnNodes]] = {}
        #: Ordered by number; removed kinds are cleared out now and then.
        self._in_order: list[_KindOnNodes] = []
        self._by_label: Final = _LabelIndex(self._kinds)
        self._last_number = 0
        self._capacity = _CAPACITY_MIN
        self._counts: Final[LruCache[PodWeight, _CachedCounts]] = LruCache(WEIGHTS_MAX)
        self._by_term: Final[dict[AffinityTerm, dict[PodKind, _KindOnNodes]]] = {}
        #: The required anti-affinity terms of all pods.
        self.anti_affinity_terms: Final = AffinityTermIndex()
        #: The other terms of all pods: required affinity and both preferences.
        self.affinity_terms: Final = AffinityTermIndex()

    # Reading.

    def counts(self, weight: PodWeight) -> IntArray:
        """Return the sum of the pods' weights per slot. Do not write to it or keep it."""
        counts = self._counts.touch(weight)
        if counts is None:
            counts = _CachedCounts(weight, self._capacity)
            for kind in self._candidates(weight):
                counts.include(kind)
            evicted = self._counts.put(weight, counts)
            if evicted is not None:
                evicted.is_evicted = True
        elif counts.up_to < self._last_number:
            self._include_new_kinds(counts)
        counts.up_to = self._last_number
        return counts.by_slot

    def _candidates(self, weight: PodWeight) -> Iterable[_KindOnNodes]:
        """Return all kinds with a weight, and possibly kinds without."""
        kinds = self._narrowed(weight)
        if kinds is not None:
            return kinds
        if weight.needs_affinity_terms:
            return self._with_affinity.values()
        if weight.namespaces is None:
            return self._kinds.values()
        return [
            kind
            for namespace in weight.namespaces
            for kind in self._by_namespace.get(namespace, {}).values()
        ]

    def _narrowed(self, weight: PodWeight) -> Iterable[_KindOnNodes] | None:
        """Return the candidates that an index finds; None if no index applies."""
        # `getattr` instead of `isinstance`, which for protocols takes longer than all the rest.
        terms: Collection[AffinityTerm] | None = getattr(weight, "terms", None)
        if terms is not None:
            by_term = [self._by_term.get(term, {}) for term in terms]
            return by_term[0].values() if len(by_term) == 1 else _merged(by_term).values()
        labels: Collection[tuple[str, str]] | None = getattr(weight, "wanted_labels", None)
        return None if labels is None else self._by_label.find(labels)

    def _include_new_kinds(self, counts: _CachedCounts) -> None:
        """Add the kinds that are new since the last query; removed kinds have no slots."""
        weight, up_to = counts.weight, counts.up_to
        kinds = self._narrowed(weight) if self._last_number - up_to > _NEW_KINDS_MAX else None
        if kinds is not None:
            for kind in kinds:
                if kind.number > up_to:
                    counts.include(kind)
            return
        namespaces = weight.namespaces
        for kind in reversed(self._in_order):
            if kind.number <= up_to:
                return
            if kind.slots and (namespaces is None or kind.kind.namespace in namespaces):
                counts.include(kind)

    # Writing.

    def _ensure_capacity(self, slot: Slot) -> None:
        if slot < self._capacity:
            return
        self._capacity = max(self._capacity * 2, slot + 1)
        for counts in self._counts.values():
            counts.by_slot = grown(counts.by_slot, self._capacity)
        for kind in self._kinds.values():
            kind.drop_evicted()  # their counts do not grow

    def _add(self, slot: Slot, pod: PodInfo) -> None:
        kind = self._kinds.get(pod.kind)
        if kind is None:
            kind = self._add_kind(pod.kind)
        kind.slots[slot] = kind.slots.get(slot, 0) + 1
        if len(kind.included_in) > WEIGHTS_MAX:
            kind.drop_evicted()
        for counts, weight in kind.included_in:
            counts.by_slot[slot] += weight

    def _remove(self, slot: Slot, pod: PodInfo) -> None:
        kind = self._kinds[pod.kind]
        left = kind.slots[slot] - 1
        if left:
            kind.slots[slot] = left
        else:
            del kind.slots[slot]
        for counts, weight in kind.included_in:
            counts.by_slot[slot] -= weight
        if not kind.slots:
            self._remove_kind(kind)

    def _add_kind(self, kind: PodKind) -> _KindOnNodes:
        self._last_number += 1
        added = self._kinds[kind] = _KindOnNodes(kind, self._last_number)
        self._by_namespace.setdefault(kind.namespace, {})[kind] = added
        self._by_label.add(kind, added)
        self._in_order.append(added)
        if kind.affinity is not NO_TERMS:
            self._with_affinity[kind] = added
            anti_affinity, others = kind.affinity.required_anti_affinity, _other_terms(kind)
            self.anti_affinity_terms.add(anti_affinity)
            self.affinity_terms.add(others)
            for term in (*anti_affinity, *others):
                self._by_term.setdefault(term, {})[kind] = added
        return added

    def _remove_kind(self, removed: _KindOnNodes) -> None:
        kind = removed.kind
        del self._kinds[kind]
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
                kinds = self._by_term[term]
                del kinds[kind]
                if not kinds:
                    del self._by_term[term]
        if len(self._in_order) > _COMPACT_MIN + 2 * len(self._kinds):
            self._in_order = [kind for kind in self._in_order if kind.slots]

    def check(self) -> None:
        """Verify that all counts are the sums over the pods; raises AssertionError. For tests."""
        counts = Counter(
            (pod.kind, slot) for slot, pods in self._pods.items() for pod in pods.values()
        )
        kept = {
            (kind, slot): number
            for kind, on_nodes in self._kinds.items()
            for slot, number in on_nodes.slots.items()
        }
        assert kept == dict(counts), "pods by kind"
        for weight in list(self._counts):
            expected = np.zeros(self._capacity, dtype=np.int64)
            for (kind, slot), number in kept.items():
                expected[slot] += number * weight(kind)
            assert (self.counts(weight) == expected).all(), f"counts by {weight}"


def _merged(buckets: Iterable[Mapping[PodKind, _KindOnNodes]]) -> dict[PodKind, _KindOnNodes]:
    return {kind: on_nodes for some in buckets for kind, on_nodes in some.items()}


def _other_terms(kind: PodKind) -> list[AffinityTerm]:
    """Return all terms of a kind but its required anti-affinity."""
    terms = kind.affinity
    preferred = (*terms.preferred_affinity, *terms.preferred_anti_affinity)
    return [*terms.required_affinity, *(weighted.term for weighted in preferred)]


class _LabelIndex:
    """Finds pod kinds by label. A label key is indexed from the first query that uses it on."""

    def __init__(self, kinds: Mapping[PodKind, _KindOnNodes]) -> None:
        self._kinds: Final = kinds
        self._by_key: Final[LruCache[str, dict[str, dict[PodKind, _KindOnNodes]]]] = LruCache(
            LABEL_KEYS_MAX
        )

    def find(self, labels: Iterable[tuple[str, str]]) -> Collection[_KindOnNodes]:
        """Return all kinds with at least one of these labels, each once."""
        matches: dict[PodKind, _KindOnNodes] = {}
        for key, value in labels:
            by_value = self._by_key.touch(key)
            if by_value is None:
                by_value = {}
                for kind, on_nodes in self._kinds.items():
                    if key in kind.labels:
                        by_value.setdefault(kind.labels[key], {})[kind] = on_nodes
                self._by_key.put(key, by_value)
            matches.update(by_value.get(value, {}))
        return matches.values()

    def add(self, kind: PodKind, on_nodes: _KindOnNodes) -> None:
        """Add a new kind to the index of each of its labels."""
        for key, by_value in self._by_key.items():
            if key in kind.labels:
                by_value.setdefault(kind.labels[key], {})[kind] = on_nodes

    def remove(self, kind: PodKind) -> None:
        """Remove a kind."""
        for key, by_value in self._by_key.items():
            value = kind.labels.get(key)
            if value is not None:
                kinds = by_value[value]
                del kinds[kind]
                if not kinds:
                    del by_value[value]


class AffinityTermIndex:
    """The affinity terms of existing pods, found by the labels of a pod that they match.

    A term that requires one of some values of a label is in the bucket of each of these
    labels. For an incoming pod only the buckets of its own labels are searched, and the terms that
    require no certain label.
    """

    def __init__(self) -> None:
        #: The number of pod kinds with each term.
        self._uses: Final[dict[AffinityTerm, int]] = {}
        self._by_label: Final[dict[tuple[str, str], dict[AffinityTerm, None]]] = {}
        self._without_label: Final[dict[AffinityTerm, None]] = {}

    def __len__(self) -> int:
        return len(self._uses)

    def __contains__(self, term: object) -> bool:
        return term in self._uses

    def add(self, terms: Iterable[AffinityTerm]) -> None:
        """Add the terms of one pod kind."""
        for term in terms:
            uses = self._uses.get(term, 0)
            self._uses[term] = uses + 1
            if not uses:
                for bucket in self._buckets(term):
                    bucket[term] = None

    def remove(self, terms: Iterable[AffinityTerm]) -> None:
        """Remove the terms of one pod kind; raises KeyError for an unknown term."""
        for term in terms:
            self._uses[term] -= 1
            if not self._uses[term]:
                del self._uses[term]
                for bucket in self._buckets(term):
                    del bucket[term]
                for label in term.wanted_labels or ():
                    if not self._by_label[label]:
                        del self._by_label[label]

    def _buckets(self, term: AffinityTerm) -> list[dict[AffinityTerm, None]]:
        wanted = term.wanted_labels
        if wanted is None:
            return [self._without_label]
        return [self._by_label.setdefault(label, {}) for label in wanted]

    def matching(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Mapping[str, frozenset[AffinityTerm]]:
        """Return the terms that match a pod, by topology key; keys without terms are left out."""
        by_topology_key: dict[str, list[AffinityTerm]] = {}
        buckets = [self._without_label] if self._without_label else []
        by_label = self._by_label
        buckets += [by_label[label] for label in labels.items() if label in by_label]
        for bucket in buckets:
            for term in bucket:
                if term.matches(namespace, labels, namespace_labels):
                    by_topology_key.setdefault(term.topology_key, []).append(term)
        if not by_topology_key:
            return _NO_TERMS_FOUND
        return {key: frozenset(terms) for key, terms in by_topology_key.items()}
