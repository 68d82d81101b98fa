"""The pods of DaemonSets: one for each node that is eligible."""

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
    Toleration,
)
from scheduler.api.node_selectors import METADATA_NAME, parse_node_selector
from scheduler.api.selectors import selector_from_set
from scheduler.api.tolerations import HARD_EFFECTS, find_untolerated_taint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scheduler.api.core import Node, Pod

#: The taints that the DaemonSet controller lets its pods tolerate.
_TOLERATED: Final = tuple(
    Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect=effect)
    for key, effect in (
        *(("not-ready", "NoExecute"), ("unreachable", "NoExecute")),
        *(("disk-pressure", "NoSchedule"), ("memory-pressure", "NoSchedule")),
        *(("pid-pressure", "NoSchedule"), ("unschedulable", "NoSchedule")),
    )
)


def is_daemon(pod: Pod) -> bool:
    """True for a pod of a DaemonSet."""
    owner = pod.metadata.controller
    return owner is not None and owner.kind == "DaemonSet"


def daemon_pods(pods: Iterable[Pod], node: Node) -> Iterator[Pod]:
    """Yield a pod for a node of each DaemonSet that has pods, if the node is eligible.

    Source: `NodeShouldRunDaemonPod`.
    """
    of_sets = {
        owner.uid: pod for pod in pods if is_daemon(pod) and (owner := pod.metadata.controller)
    }
    for pod in of_sets.values():
        spec = pod.spec
        required = _required(pod)
        if (
            selector_from_set(spec.node_selector).matches(node.metadata.labels)
            and (required is None or parse_node_selector(_pinned(required, node)).matches(node))
            and not find_untolerated_taint(
                node.spec.taints, (*spec.tolerations, *_TOLERATED), HARD_EFFECTS
            )
        ):
            yield _for_node(pod, node)


def _for_node(pod: Pod, node: Node) -> Pod:
    """Return the pod of the same DaemonSet for another node."""
    owner = pod.metadata.controller
    assert owner is not None, "it is the pod of a DaemonSet"
    name = f"{owner.name}-{node.metadata.name}"
    metadata = replace(pod.metadata, name=name, uid=f"daemon-{name}", deletion_timestamp=None)
    affinity = pod.spec.affinity or Affinity()
    required = _pinned(_required(pod) or NodeSelector((NodeSelectorTerm(),)), node)
    of_nodes = replace(
        affinity.node_affinity or NodeAffinity(),
        required_during_scheduling_ignored_during_execution=required,
    )
    spec = replace(
        pod.spec,
        node_name="",
        affinity=replace(affinity, node_affinity=of_nodes),
        tolerations=(*dict.fromkeys((*pod.spec.tolerations, *_TOLERATED)),),
    )
    return replace(pod, metadata=metadata, spec=spec, status=PodStatus())


def _required(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def _pinned(required: NodeSelector, node: Node) -> NodeSelector:
    """Return the terms for one node, in the place of another one."""
    field = NodeSelectorRequirement(METADATA_NAME, "In", (node.metadata.name,))
    return NodeSelector(
        tuple(replace(term, match_fields=(field,)) for term in required.node_selector_terms)
    )
