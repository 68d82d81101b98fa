"""Sign fragments that several plugins share: what of a pod their verdicts depend on.

Two pods with equal fragments get equal verdicts from the plugin that signs. Values are made of what
JSON can hold, and lists whose order says nothing are sorted.
Source: `k8s.io/kube-scheduler/framework/signers.go`, v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api.volumes import claim_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.api.core import NodeSelectorRequirement, NodeSelectorTerm
    from scheduler.framework.interface import SignFragment
    from scheduler.snapshot.pod_info import PodInfo

DYNAMIC_RESOURCES_SIGNER_NAME: Final = "v1.Pod.Spec.DynamicResources"
IMAGE_NAMES_SIGNER_NAME: Final = "v1.Pod.Spec.CanonicalImageNames()"
LABELS_SIGNER_NAME: Final = "v1.Pod.Labels"
NODE_NAME_SIGNER_NAME: Final = "v1.Pod.Spec.NodeName"
NODE_AFFINITY_SIGNER_NAME: Final = "v1.Pod.Spec.Affinity.NodeAffinity"
NODE_SELECTOR_SIGNER_NAME: Final = "v1.Pod.Spec.Affinity.NodeSelector"
HOST_PORTS_SIGNER_NAME: Final = "v1.Pod.Spec.HostPorts()"
RESOURCES_SIGNER_NAME: Final = "v1.Pod.Spec.ContainerRequestsAndOverheads()"
SCHEDULER_NAME_SIGNER_NAME: Final = "v1.Pod.Spec.SchedulerName"
TOLERATIONS_SIGNER_NAME: Final = "v1.Pod.Spec.Tolerations"
VOLUMES_SIGNER_NAME: Final = "v1.Pod.Spec.Volumes.NonSyntheticSources()"
FEATURES_SIGNER_NAME: Final = "v1.Pod.Spec.RequiredFeatures()"


def tolerations_fragment(pod: PodInfo) -> SignFragment:
    """The pod's tolerations, by key and value."""
    tolerations = sorted(pod.spec.tolerations, key=lambda t: (t.key, t.value))
    return TOLERATIONS_SIGNER_NAME, [msgspec.to_builtins(t) for t in tolerations]


def host_ports_fragment(pod: PodInfo) -> SignFragment:
    """The numbers of the host ports that any container names, those of init containers included."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    numbers = {port.host_port for c in containers for port in c.ports if port.host_port}
    return HOST_PORTS_SIGNER_NAME, sorted(numbers)


def resources_fragment(pod: PodInfo) -> SignFragment:
    """What the pod asks for; asking for nothing of a resource is not asking."""
    requests = {name: count for name, count in pod.spec_requests.items() if count}
    return RESOURCES_SIGNER_NAME, requests


def node_affinity_fragment(pod: PodInfo) -> SignFragment:
    """The pod's node affinity, required and preferred; None without one."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None:
        return NODE_AFFINITY_SIGNER_NAME, None
    required = affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    value = {
        "Required": sorted(_text(_term(t)) for t in required.node_selector_terms)
        if required
        else [],
        "Preferred": sorted(
            _text({"Weight": term.weight, "Preference": _term(term.preference)})
            for term in preferred
        ),
    }
    return NODE_AFFINITY_SIGNER_NAME, value


def volumes_fragment(pod: PodInfo) -> SignFragment:
    """The pod's volumes, whatever they are called, of the kinds that bear on where it can run.

    An ephemeral volume stands for the claim made for this very pod, so that claim is named.
    """
    texts = []
    for volume in pod.spec.volumes:
        source = msgspec.to_builtins(msgspec.structs.replace(volume, name=""))
        if volume.ephemeral is not None:
            source["ephemeral"] = claim_name(pod.pod, volume)
        if source:
            texts.append(_text(source))
    return VOLUMES_SIGNER_NAME, sorted(texts)


def _term(term: NodeSelectorTerm) -> dict[str, list[str]]:
    return {
        "MatchExpressions": _requirements(term.match_expressions),
        "MatchFields": _requirements(term.match_fields),
    }


def _requirements(requirements: Sequence[NodeSelectorRequirement]) -> list[str]:
    return sorted(
        _text({"key": r.key, "operator": r.operator, "values": sorted(r.values)})
        for r in requirements
    )


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
