"""Waiting pods that an assigned pod may concern: those whose verdict depends on other pods.

Only `PriorityQueue.assigned_pod_added` and `assigned_pod_updated` ask this. Upstream's event
handlers no longer call them while queueing hints are on; custom ones may.
Source: `getUnschedulablePodsWithCrossTopologyTerm`, `AffinityTerm.Matches`, `GetAffinityTerms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.api.selectors import parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.core import Pod, PodAffinityTerm
    from scheduler.queue.queued_pod_info import QueuedPodInfo

_POD_TOPOLOGY_SPREAD: Final = "PodTopologySpread"


def has_cross_topology_term(
    waiting: QueuedPodInfo, assigned: Pod, namespace_labels: Mapping[str, str]
) -> bool:
    """Whether PodTopologySpread rejected the waiting pod next to this one, or it wants such pods.

    `namespace_labels` are those of the assigned pod's namespace. Of pods with required affinity it
    does not matter who turned them down. Terms that cannot be parsed match nothing, none of them.
    """
    namespace = waiting.pod_info.namespace
    if (
        _POD_TOPOLOGY_SPREAD in waiting.unschedulable_plugins
        and assigned.metadata.namespace == namespace
    ):
        return True
    affinity = waiting.pod_info.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return False
    terms = affinity.pod_affinity.required_during_scheduling_ignored_during_execution
    try:
        # All are looked at before any counts: one malformed term spoils the others.
        verdicts = [_matches(term, namespace, assigned, namespace_labels) for term in terms]
    except ValueError:
        # Everything that can be wrong with a selector is one.
        return False
    return any(verdicts)


def _matches(
    term: PodAffinityTerm, namespace: str, pod: Pod, namespace_labels: Mapping[str, str]
) -> bool:
    selector = parse_label_selector(term.label_selector)
    namespace_selector = parse_label_selector(term.namespace_selector)
    own_only = not term.namespaces and term.namespace_selector is None
    namespaces = (namespace,) if own_only else term.namespaces
    return (
        pod.metadata.namespace in namespaces or namespace_selector.matches(namespace_labels)
    ) and selector.matches(pod.metadata.labels)
