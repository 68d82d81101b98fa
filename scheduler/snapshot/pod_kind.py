"""Pod kinds: pods that no selector or affinity term distinguishes share one object.

Spreading and pod affinity read only a pod's namespace, labels, affinity terms and deletion
timestamp. A weight function is therefore called once per pod kind, not once per pod.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import msgspec

from scheduler.api.pod_affinity import NO_TERMS, AffinityTerms, parse_affinity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.core import Affinity, Pod


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class PodKind:
    """Namespace, labels, affinity terms and deletion of a set of pods. One object per kind."""

    namespace: str
    labels: Mapping[str, str]
    affinity: AffinityTerms
    is_terminating: bool = field(kw_only=True)


class PodWeight(Hashable, Protocol):
    """A weight per pod kind. It is a cache key: functions with equal results must be equal.

    Two further attributes narrow the search of the pod index. `wanted_labels` are labels of which
    each kind with a weight has at least one. `terms` are affinity terms, as the index holds them
    (`PodIndex.anti_affinity_terms`), of which each kind with a weight has at least one.
    """

    @property
    def namespaces(self) -> frozenset[str] | None:
        """The namespaces whose pods can have a weight other than 0; None for all namespaces."""

    @property
    def needs_affinity_terms(self) -> bool:
        """True if pods without affinity terms have weight 0."""

    def __call__(self, kind: PodKind) -> int:
        """Return the weight of one pod of this kind; 0 if the pod does not count."""


class Rule:
    """Base of weights that are compared by type and key. The hash is computed once."""

    __slots__ = ("_hash", "_key")
    needs_affinity_terms: ClassVar[bool] = False

    def __init__(self, key: object) -> None:
        self._key: Final = key
        self._hash: Final = hash((type(self), key))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Rule) and type(other) is type(self) and other._key == self._key

    def __hash__(self) -> int:
        return self._hash


_parsed_terms: Final[weakref.WeakValueDictionary[tuple[str, bytes], AffinityTerms]] = (
    weakref.WeakValueDictionary()
)
_kinds: Final[weakref.WeakValueDictionary[tuple[object, ...], PodKind]] = (
    weakref.WeakValueDictionary()
)


def kind_of(pod: Pod) -> PodKind:
    """Return the pod's kind; the same object for all pods of that kind."""
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
    """Return the parsed terms; the same object for all pods with equal terms."""
    if affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity):
        return NO_TERMS
    text = msgspec.json.encode((affinity.pod_affinity, affinity.pod_anti_affinity))
    terms = _parsed_terms.get((namespace, text))
    if terms is None:
        terms = _parsed_terms[namespace, text] = parse_affinity(affinity, namespace)
    return terms
