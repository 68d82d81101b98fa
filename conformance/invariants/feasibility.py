"""The rules that decide on which nodes a pod may run, each as a function of the cluster's state.

A rule returns the reason against a node, or None. The rules follow the filters in the default
profile of kube-scheduler v1.36, written from the documentation and with the suite's own arithmetic.
Not judged: limits of volumes per node, extended resources that come from devices, extenders, and
unbound claims that wait for a consumer.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ..format.reading import name_of
from ..format.resources import NANO, amounts, objects, part, pod_requests, shown
from ..judge.capacity import host_ports
from .devices import devices
from .matching import (
    any_term_matches,
    labels_of,
    node_affinity_matches,
    repelling_taints,
    required_terms,
    selects,
    term_matches,
    tolerates,
)
from .state import is_ending, uid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..api import Json
    from .state import State

    Rule = Callable[[Json, Json, State], "str | None"]


_BOUND: Final = "pv.kubernetes.io/bind-completed"
#: The taint for which `spec.unschedulable` stands.
_UNSCHEDULABLE: Final[Json] = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def resources(pod: Json, node: Json, state: State) -> str | None:
    """Compare requests with the free resources. Source: NodeResourcesFit, `fitsRequest`."""
    own = _others_on(pod, node, state)
    allocatable = amounts(part(part(node, "status"), "allocatable"))
    used = sum((pod_requests(other) for other in own), Counter[str]())
    used["pods"] = len(own) * NANO
    from_devices = {
        part(each, "spec").get("extendedResourceName") for each in state.of_kind("DeviceClass")
    }
    for resource, amount in {**pod_requests(pod), "pods": NANO}.items():
        room = allocatable.get(resource, 0) - used.get(resource, 0)
        if amount > max(room, 0) and amount > 0 and resource not in from_devices:
            return f"it requests {shown(amount)} of {resource}, {shown(max(room, 0))} is left"
    return None


def ports(pod: Json, node: Json, state: State) -> str | None:
    """Compare host ports with the ports in use. Source: NodePorts, `HostPortInfo.CheckConflict`."""
    wanted = host_ports(pod)
    for other in _others_on(pod, node, state):
        for port in wanted:
            if any(port.conflicts_with(taken) for taken in host_ports(other)):
                return f"pod {name_of(other)} has its host port {port.number}"
    return None


def _others_on(pod: Json, node: Json, state: State) -> list[Json]:
    name = str(part(node, "metadata").get("name"))
    return [other for other in state.pods_on(name) if uid_of(other) != uid_of(pod)]


def taints(pod: Json, node: Json, state: State) -> str | None:
    """Look for a taint that is not tolerated. Source: TaintToleration, NodeUnschedulable."""
    del state
    is_cordoned = part(node, "spec").get("unschedulable") is True
    for taint in [*repelling_taints(node), *([_UNSCHEDULABLE] if is_cordoned else [])]:
        if not tolerates(pod, taint):
            return f"it does not tolerate the taint {taint.get('key')}:{taint.get('effect')}"
    return None


def node_affinity(pod: Json, node: Json, state: State) -> str | None:
    """Compare the node with selector and required affinity. Source: NodeAffinity."""
    del state
    if node_affinity_matches(pod, node):
        return None
    return "its node selector or required node affinity does not match the node"


def anti_affinity(pod: Json, node: Json, state: State) -> str | None:
    """Look for pods that repel the pod, or are repelled. Source: InterPodAffinity, `Filter`."""
    labels, namespaces = labels_of(node), state.namespaces
    for other, place in state.placed:
        if uid_of(other) == uid_of(pod):
            continue
        for owner, subject in ((pod, other), (other, pod)):
            for term in required_terms(owner, "podAntiAffinity"):
                key = str(term.get("topologyKey"))
                domain = labels_of(place).get(key)
                if domain is None or labels.get(key) != domain:
                    continue
                if term_matches(term, owner, subject, namespaces):
                    return (
                        f"the anti-affinity of {name_of(owner)} excludes {name_of(subject)} "
                        f"in {key}={domain}"
                    )
    return None


def affinity(pod: Json, node: Json, state: State) -> str | None:
    """Look for the pods that the pod requires. Source: InterPodAffinity, `satisfyPodAffinity`.

    Each term's domain needs a pod that matches all terms. The first pod of a group needs none.
    """
    terms = required_terms(pod, "podAffinity")
    if not terms:
        return None
    labels, namespaces = labels_of(node), state.namespaces
    for term in terms:
        if str(term.get("topologyKey")) not in labels:
            return f"the node has no label {term.get('topologyKey')}"
    places = [
        labels_of(place)
        for other, place in state.placed
        if uid_of(other) != uid_of(pod)
        and all(term_matches(term, pod, other, namespaces) for term in terms)
    ]
    keys = [str(term.get("topologyKey")) for term in terms]
    missing = [key for key in keys if not any(each.get(key) == labels[key] for each in places)]
    if not missing:
        return None
    anywhere = any(key in each for each in places for key in keys)
    if not anywhere and all(term_matches(term, pod, pod, namespaces) for term in terms):
        return None
    return f"no pod that its affinity requires is in {missing[0]}={labels[missing[0]]}"


def spread(pod: Json, node: Json, state: State) -> str | None:
    """Compute the skew of hard constraints. Source: PodTopologySpread, `Filter`."""
    constraints = [
        rule
        for rule in objects(part(pod, "spec").get("topologySpreadConstraints"))
        if rule.get("whenUnsatisfiable") == "DoNotSchedule"
    ]
    keys = [str(rule.get("topologyKey")) for rule in constraints]
    for constraint, key in zip(constraints, keys, strict=True):
        domain = labels_of(node).get(key)
        if domain is None:
            return f"the node has no label {key}"
        counts = _matching_by_domain(pod, constraint, keys, state)
        least = min(counts.values(), default=0)
        minimum = constraint.get("minDomains")
        if isinstance(minimum, int) and len(counts) < minimum:
            least = 0
        own = int(selects(constraint.get("labelSelector"), labels_of(pod)))
        skew = counts.get(domain, 0) + own - least
        if skew > int(str(constraint.get("maxSkew"))):
            return f"the skew of {key} would be {skew}, of at most {constraint.get('maxSkew')}"
    return None


def _matching_by_domain(
    pod: Json, constraint: Json, keys: list[str], state: State
) -> dict[str, int]:
    """Return the number of selected pods by domain, of the nodes that the constraint counts."""
    selector = constraint.get("labelSelector")
    key, counts = str(constraint.get("topologyKey")), dict[str, int]()
    for name, node in state.nodes.items():
        labels = labels_of(node)
        if not all(each in labels for each in keys) or not _counts(pod, constraint, node):
            continue
        counts[labels[key]] = counts.get(labels[key], 0) + sum(
            selects(selector, labels_of(other))
            for other in state.pods_on(name)
            if uid_of(other) != uid_of(pod)
            and not is_ending(other)
            and part(other, "metadata").get("namespace") == part(pod, "metadata").get("namespace")
        )
    return counts


def _counts(pod: Json, constraint: Json, node: Json) -> bool:
    """Return True if a node counts, by the constraint's policies for affinity and taints."""
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not node_affinity_matches(
        pod, node
    ):
        return False
    honors = constraint.get("nodeTaintsPolicy", "Ignore") == "Honor"
    return not honors or all(tolerates(pod, taint) for taint in repelling_taints(node))


def volumes(pod: Json, node: Json, state: State) -> str | None:
    """Look for claims that the node cannot use. Source: VolumeBinding, VolumeRestrictions."""
    namespace = str(part(pod, "metadata").get("namespace"))
    for name in _claims(pod):
        claim = state.find("PersistentVolumeClaim", name, namespace)
        if claim is None:
            return f"its claim {name} does not exist"
        volume = state.find("PersistentVolume", str(part(claim, "spec").get("volumeName")))
        if volume is None or _BOUND not in part(part(claim, "metadata"), "annotations"):
            return f"its claim {name} is not bound"
        affinity = part(part(volume, "spec"), "nodeAffinity").get("required")
        if isinstance(affinity, dict) and not any_term_matches(
            objects(affinity.get("nodeSelectorTerms")), _labels_only(node)
        ):
            return f"the volume of its claim {name} is not reachable from the node"
        modes = part(claim, "spec").get("accessModes")
        if isinstance(modes, list) and "ReadWriteOncePod" in modes:
            for other, _ in state.placed:
                if (
                    uid_of(other) != uid_of(pod)
                    and part(other, "metadata").get("namespace") == namespace
                    and name in _claims(other)
                ):
                    return f"pod {name_of(other)} uses its claim {name} for one pod"
    return None


def _labels_only(node: Json) -> Json:
    """Return a node without its name, as upstream's `CheckNodeAffinity` of a volume sees it."""
    return {"metadata": {"labels": labels_of(node)}}


def _claims(pod: Json) -> Iterator[str]:
    for volume in objects(part(pod, "spec").get("volumes")):
        claim = part(volume, "persistentVolumeClaim").get("claimName")
        if isinstance(claim, str):
            yield claim


RULES: Final[dict[str, Rule]] = {
    "resources": resources,
    "ports": ports,
    "taints": taints,
    "node_affinity": node_affinity,
    "anti_affinity": anti_affinity,
    "affinity": affinity,
    "spread": spread,
    "volumes": volumes,
    "devices": devices,
}


def reasons_against(pod: Json, node: Json, state: State) -> dict[str, str]:
    """Return the reasons against a node, by rule; empty if the pod may run there."""
    reasons = {name: rule(pod, node, state) for name, rule in RULES.items()}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def feasible_nodes(pod: Json, state: State) -> list[str]:
    """Return the names of the nodes on which a pod may run."""
    return [name for name, node in state.nodes.items() if not reasons_against(pod, node, state)]
