"""Parsed terms of pod affinity and anti-affinity, and the rule which pods they match.

Source: `AffinityTerm` and `GetAffinityTerms` in `k8s.io/kube-scheduler/framework/types.go`,
`PodInfo.Update` in `pkg/scheduler/framework/types.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.field import FieldErrors, aggregate
from scheduler.api.selectors import NOTHING, Selector, SelectorError, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from scheduler.api.core import Affinity, PodAffinityTerm, WeightedPodAffinityTerm


class AffinityTerm(NamedTuple):
    """Pods that `selector` selects, in `namespaces` or where `namespace_selector` matches."""

    namespaces: frozenset[str]
    selector: Selector
    topology_key: str
    namespace_selector: Selector

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Return True if a pod matches, by its namespace, its labels and its namespace's labels."""
        if namespace in self.namespaces or self.namespace_selector.matches(namespace_labels):
            return self.selector.matches(labels)
        return False

    @property
    def wanted_labels(self) -> Collection[tuple[str, str]] | None:
        """Labels of which every matching pod has at least one; None if there are no such labels."""
        return () if self.selector is NOTHING else self.selector.wanted_labels


class WeightedTerm(NamedTuple):
    """A preferred term with its weight."""

    weight: int
    term: AffinityTerm


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class AffinityTerms:
    """All terms of a pod. A list with an invalid term is empty, and `errors` has its text.

    The keys of `errors` are upstream's names of the lists (`requiredAffinityTerms`). Terms are
    compared by identity; parsed terms are shared between the pods of a template.
    """

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedTerm, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """All errors in one line."""
        return aggregate(f"{name}: {text}" for name, text in self.errors.items())


NO_TERMS: Final = AffinityTerms()


def parse_affinity(affinity: Affinity | None, namespace: str) -> AffinityTerms:
    """Parse the terms of a pod in `namespace`, the default namespace of its terms."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    errors: dict[str, str] = {}

    def listed(name: str, terms: Sequence[PodAffinityTerm]) -> tuple[AffinityTerm, ...]:
        try:
            return tuple([_parse(term, namespace) for term in terms])
        except (SelectorError, FieldErrors) as error:
            errors[name] = str(error)
            return ()

    def weighted(name: str, terms: Sequence[WeightedPodAffinityTerm]) -> tuple[WeightedTerm, ...]:
        parsed = listed(name, [term.pod_affinity_term for term in terms])
        return tuple(
            WeightedTerm(t.weight, term) for t, term in zip(terms, parsed, strict=bool(parsed))
        )

    return AffinityTerms(
        listed(
            "requiredAffinityTerms",
            near.required_during_scheduling_ignored_during_execution if near else (),
        ),
        listed(
            "requiredAntiAffinityTerms",
            far.required_during_scheduling_ignored_during_execution if far else (),
        ),
        weighted(
            "preferredAffinityTerms",
            near.preferred_during_scheduling_ignored_during_execution if near else (),
        ),
        weighted(
            "preferredAntiAffinityTerms",
            far.preferred_during_scheduling_ignored_during_execution if far else (),
        ),
        errors,
    )


def _parse(term: PodAffinityTerm, namespace: str) -> AffinityTerm:
    if not term.namespaces and term.namespace_selector is None:
        namespaces = frozenset((namespace,))
    else:
        namespaces = frozenset(term.namespaces)
    selector = parse_label_selector(term.label_selector)
    return AffinityTerm(
        namespaces, selector, term.topology_key, parse_label_selector(term.namespace_selector)
    )
