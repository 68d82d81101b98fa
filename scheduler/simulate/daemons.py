"""The pods of DaemonSets on a new node, and the nodes that are eligible for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from scheduler.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodStatus,
)
from scheduler.api.node_selectors import METADATA_NAME, parse_node_selector
from scheduler.api.selectors import selector_from_set
from scheduler.api.tolerations import HARD_EFFECTS, find_untolerated_taint
from scheduler.simulate.controllers import controller_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scheduler.api.core import Node, Pod

_DAEMON_SET: Final = "DaemonSet"


def is_daemon(pod: Pod) -> bool:
    """True for a pod of a DaemonSet."""
    owner = controller_of(pod)
    return owner is not None and owner.kind == _DAEMON_SET


def is_eligible(pod: Pod, node: Node) -> bool:
    """True if a DaemonSet creates this pod for a node. Source: `NodeShouldRunDaemonPod`."""
    spec = pod.spec
    if not selector_from_set(spec.node_selector).matches(node.metadata.labels):
        return False
    required = _required(pod)
    if required is not None and not parse_node_selector(required).matches(node):
        return False
    return find_untolerated_taint(node.spec.taints, spec.tolerations, HARD_EFFECTS) is None


def daemon_pods(pods: Iterable[Pod], node: Node) -> Iterator[Pod]:
    """Yield a pod for a new node of each DaemonSet that has pods."""
    name, seen = node.metadata.name, set()
    for pod in pods:
        owner = controller_of(pod)
        if owner is None or owner.kind != _DAEMON_SET or owner.uid in seen:
            continue
        seen.add(owner.uid)
        created = f"{owner.name}-{name}"
        metadata = replace(
            pod.metadata, name=created, uid=f"daemon-{created}", deletion_timestamp=None
        )
        spec = replace(pod.spec, node_name="", affinity=_pinned(pod, name))
        daemon = replace(pod, metadata=metadata, spec=spec, status=PodStatus())
        if is_eligible(daemon, node):
            yield daemon


def _required(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def _pinned(pod: Pod, node: str) -> Affinity:
    """Return the affinity of a DaemonSet's pod for another node."""
    field = NodeSelectorRequirement(METADATA_NAME, "In", (node,))
    required = _required(pod)
    terms = required.node_selector_terms if required is not None else (NodeSelectorTerm(),)
    affinity = pod.spec.affinity or Affinity()
    pinned = NodeSelector(tuple(replace(term, match_fields=(field,)) for term in terms))
    of_nodes = replace(
        affinity.node_affinity or NodeAffinity(),
        required_during_scheduling_ignored_during_execution=pinned,
    )
    return replace(affinity, node_affinity=of_nodes)
