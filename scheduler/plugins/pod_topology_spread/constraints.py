"""Parse topology spread constraints: a pod's own, or the profile's for pods without constraints.

Parsed constraints are cached per pod template: by the constraints and the values of the labels in
`matchLabelKeys`. Constraints of a profile have no selector; it is derived from the pod's services
and controller.
Mirrors `podtopologyspread/common.go` and `plugins/helper/spread.go`, v1.36.3.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from scheduler.api.core import TopologySpreadConstraint
from scheduler.api.field import FieldErrors
from scheduler.api.selectors import (
    NOTHING,
    Selector,
    SelectorError,
    parse_label_selector,
    selector_from_set,
)
from scheduler.api.workloads import Service
from scheduler.snapshot.pod_kind import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.api.core import LabelSelector
    from scheduler.api.workloads import ReplicaSet, ReplicationController, StatefulSet
    from scheduler.framework.handle import Handle
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.pod_kind import PodKind

#: Values of `whenUnsatisfiable`.
DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"

_HONOR: Final = "Honor"

#: Constraints of pods without any, under defaulting type `System`.
SYSTEM_DEFAULT_CONSTRAINTS: Final = (
    TopologySpreadConstraint(
        topology_key="kubernetes.io/hostname", when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3
    ),
    TopologySpreadConstraint(
        topology_key="topology.kubernetes.io/zone", when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5
    ),
)

#: The kinds that `default_selector` lists.
LISTED_KINDS: Final = ("services", "replicationcontrollers", "replicasets", "statefulsets")


class SpreadConstraint(NamedTuple):
    """A parsed constraint with all defaults."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


class MatchingPods(Rule):
    """Rule that counts a namespace's pods by a selector, without terminating ones.

    A selector without requirements counts no pod, as upstream's `countPodsMatchSelector`.
    """

    __slots__ = ("_namespace", "_selector", "namespaces", "wanted_labels")

    def __init__(self, namespace: str, selector: Selector) -> None:
        requirements = sorted((r.key, r.operator, r.values) for r in selector.requirements)
        super().__init__((namespace, *requirements))
        self._namespace: Final = namespace
        self._selector: Final = selector
        self.namespaces: Final = frozenset((namespace,))
        self.wanted_labels: Final = selector.wanted_labels

    @property
    def counts_nothing(self) -> bool:
        """True if no pod can match."""
        return not self._selector.requirements

    def __call__(self, kind: PodKind) -> int:
        if kind.is_terminating or kind.namespace != self._namespace:
            return 0
        return int(self._selector.matches(kind.labels))


def has_keys(labels: Mapping[str, str], constraints: Iterable[SpreadConstraint]) -> bool:
    """True if a node with these labels has all topology keys."""
    return all(constraint.topology_key in labels for constraint in constraints)


def parse_constraints(
    constraints: Sequence[TopologySpreadConstraint], labels: Mapping[str, str], action: str
) -> tuple[SpreadConstraint, ...]:
    """Parse the constraints with this action (`whenUnsatisfiable`); `labels` are the pod's.

    Raises `SelectorError` or `FieldErrors` for a malformed selector.
    """
    keys = {key for constraint in constraints for key in constraint.match_label_keys}
    matched = tuple((key, labels[key]) for key in sorted(keys) if key in labels) if keys else ()
    return _parsed(msgspec.json.encode(constraints), action, matched)


_DECODER: Final = msgspec.json.Decoder(tuple[TopologySpreadConstraint, ...])


@functools.lru_cache(maxsize=2048)
def _parsed(
    encoded: bytes, action: str, matched: tuple[tuple[str, str], ...]
) -> tuple[SpreadConstraint, ...]:
    labels = dict(matched)
    return tuple(
        _parse(constraint, labels)
        for constraint in _DECODER.decode(encoded)
        if constraint.when_unsatisfiable == action
    )


def _parse(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> SpreadConstraint:
    selector = parse_label_selector(constraint.label_selector)
    matched = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    if matched:
        selector = _both(selector_from_set(matched), selector)
    affinity, taints = constraint.node_affinity_policy, constraint.node_taints_policy
    return SpreadConstraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        selector=selector,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_affinity=affinity is None or affinity == _HONOR,
        honors_taints=taints == _HONOR,
    )


def _both(first: Selector, second: Selector) -> Selector:
    """Return the conjunction; a second selector that selects nothing is returned as it is."""
    if not second.requirements and not second.is_empty:
        return second
    return Selector((*first.requirements, *second.requirements))


def default_selector(pod: PodInfo, handle: Handle) -> Selector:
    """Return the selector of the pod's services and controller; empty without either.

    A controller that is missing or has a malformed selector is ignored.
    """
    labels: dict[str, str] = {}
    services = handle.lister(Service).list(pod.namespace)
    for service in services:
        selected = service.spec.selector
        if selected and selected.items() <= pod.labels.items():
            labels.update(selected)
    owner = pod.pod.metadata.controller
    kind = (owner.api_version, owner.kind) if owner is not None else None
    if owner is None or kind not in _CONTROLLERS:
        return selector_from_set(labels)
    controller = handle.lister(_CONTROLLERS[kind]).get(owner.name, pod.namespace)
    if controller is not None and owner.kind == "ReplicationController":
        labels.update(cast("ReplicationController", controller).spec.selector)
    selector = selector_from_set(labels)
    if controller is None or owner.kind == "ReplicationController":
        return selector
    own = _parsed_or_nothing(cast("ReplicaSet | StatefulSet", controller).spec.selector)
    return Selector((*selector.requirements, *own.requirements))


_CONTROLLERS: Final[Mapping[tuple[str, str] | None, str]] = {
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "StatefulSet"): "statefulsets",
}


def _parsed_or_nothing(selector: LabelSelector | None) -> Selector:
    try:
        return parse_label_selector(selector)
    except (SelectorError, FieldErrors):
        return NOTHING
