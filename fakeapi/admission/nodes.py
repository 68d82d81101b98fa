"""TaintNodesByCondition and PodTopologyLabels: taints of new nodes, labels of bound pods.

Source: plugin/pkg/admission/{nodetaint,podtopologylabels}/admission.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types.kind import NODES, PODS
from fakeapi.types.objects import Json, child, labels_of, mapping, mappings, text

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey


_KEY: Final = "node.kubernetes.io/not-ready"
_EFFECT: Final = "NoSchedule"
_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class TaintNodesByCondition(Plugin):
    """Taints new nodes, until a node controller finds them ready; off by default."""

    name = "TaintNodesByCondition"
    resources = (NODES,)

    def mutate(self, review: Review) -> None:
        spec = child(review.object, "spec")
        taints = mappings(spec.get("taints"))
        if not any(t.get("key") == _KEY and t.get("effect") == _EFFECT for t in taints):
            spec["taints"] = [*taints, {"key": _KEY, "effect": _EFFECT}]


class PodTopologyLabels(Plugin):
    """Copies zone and region of the node to a pod that is bound to it (KEP-4742)."""

    name = "PodTopologyLabels"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        return resource == PODS and subresource in ("", "binding") and operation is Operation.CREATE

    def mutate(self, review: Review) -> None:
        node_name = _node_name(review)
        node = review.registry.store.get(NODES, "", node_name) if node_name else None
        if node is None:
            return
        node_labels = labels_of(node.object)
        copied: Json = {key: node_labels[key] for key in _LABELS if key in node_labels}
        if copied:
            child(child(review.object, "metadata"), "labels").update(copied)


def _node_name(review: Review) -> str:
    if review.target.subresource == "binding":
        target = mapping(review.object.get("target"))
        return text(target.get("name")) if target.get("kind") == "Node" else ""
    return text(mapping(review.object.get("spec")).get("nodeName"))
