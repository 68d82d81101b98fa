"""PodTopologyLabels: a pod learns its node's zone and region when it is bound (KEP-4742).

Source: plugin/pkg/admission/podtopologylabels/admission.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types.kind import PODS
from fakeapi.types.objects import Json, child, labels_of, mapping, text

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey

_NODES: Final = ("", "nodes")
_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels(Plugin):
    """The labels of the node overwrite those the pod, or the binding, has of the same name."""

    name = "PodTopologyLabels"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """New pods and their bindings."""
        return resource == PODS and subresource in ("", "binding") and operation is Operation.CREATE

    def mutate(self, review: Review) -> None:
        """Copy the labels, if the node is known."""
        node_name = _node_name(review)
        node = review.registry.store.get(_NODES, "", node_name) if node_name else None
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
