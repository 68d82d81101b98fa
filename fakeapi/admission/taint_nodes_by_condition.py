"""TaintNodesByCondition: a new node is not ready until its node controller says so.

Source: plugin/pkg/admission/nodetaint/admission.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types.objects import child, mappings

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey

_NODES: Final = ("", "nodes")
_KEY: Final = "node.kubernetes.io/not-ready"
_EFFECT: Final = "NoSchedule"


class TaintNodesByCondition(Plugin):
    """Nothing is scheduled to a node before it is known to be ready."""

    name = "TaintNodesByCondition"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """New nodes."""
        return resource == _NODES and not subresource and operation is Operation.CREATE

    def mutate(self, review: Review) -> None:
        """Add the taint, unless it is there."""
        spec = child(review.object, "spec")
        taints = mappings(spec.get("taints"))
        if not any(t.get("key") == _KEY and t.get("effect") == _EFFECT for t in taints):
            spec["taints"] = [*taints, {"key": _KEY, "effect": _EFFECT}]
