"""The affinity terms of the pods there are, found by the pod they mean.

Which existing pods have something to say about an incoming pod must not take a look at each of
them. Pods of one template share their terms, and a term that wants a label to have one of some
values is filed under these: a pod is then asked about only by terms filed under its own labels, and
by the few that want no certain value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from scheduler.api.pod_affinity import AffinityTerm

_NOTHING: Final[Mapping[str, frozenset[AffinityTerm]]] = {}


class TermsInUse:
    """Terms of one sort, each with the number of those that use it."""

    def __init__(self) -> None:
        self._uses: Final[dict[AffinityTerm, int]] = {}
        self._by_label: Final[dict[tuple[str, str], dict[AffinityTerm, None]]] = {}
        #: Terms that are not filed under a label.
        self._others: Final[dict[AffinityTerm, None]] = {}

    def __len__(self) -> int:
        return len(self._uses)

    def __contains__(self, term: object) -> bool:
        return term in self._uses

    @property
    def topology_keys(self) -> Collection[str]:
        """The topology keys of all terms."""
        return {term.topology_key for term in self._uses}

    def add(self, terms: Iterable[AffinityTerm]) -> None:
        """One more user of these terms."""
        for term in terms:
            uses = self._uses.get(term, 0)
            self._uses[term] = uses + 1
            if not uses:
                for drawer in self._drawers(term):
                    drawer[term] = None

    def remove(self, terms: Iterable[AffinityTerm]) -> None:
        """One less; raises KeyError for terms that nobody uses."""
        for term in terms:
            self._uses[term] -= 1
            if not self._uses[term]:
                del self._uses[term]
                for drawer in self._drawers(term):
                    del drawer[term]
                for label in term.wanted_labels or ():
                    if not self._by_label[label]:
                        del self._by_label[label]

    def _drawers(self, term: AffinityTerm) -> list[dict[AffinityTerm, None]]:
        wanted = term.wanted_labels
        if wanted is None:
            return [self._others]
        return [self._by_label.setdefault(label, {}) for label in wanted]

    def about(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Mapping[str, frozenset[AffinityTerm]]:
        """The terms that mean a pod, by topology key; a key without any is not there."""
        found: dict[str, list[AffinityTerm]] = {}
        drawers = [self._others] if self._others else []
        by_label = self._by_label
        drawers += [by_label[label] for label in labels.items() if label in by_label]
        for drawer in drawers:
            for term in drawer:
                if term.matches(namespace, labels, namespace_labels):
                    found.setdefault(term.topology_key, []).append(term)
        if not found:
            return _NOTHING
        return {key: frozenset(terms) for key, terms in found.items()}
