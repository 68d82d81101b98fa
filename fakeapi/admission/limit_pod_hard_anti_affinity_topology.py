"""LimitPodHardAntiAffinityTopology: off by default, required anti-affinity is between hosts only.

Source: plugin/pkg/admission/antiaffinity/admission.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types.errors import Forbidden
from fakeapi.types.kind import PODS
from fakeapi.types.objects import mapping, mappings, name_of, text

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey

_HOST: Final = "kubernetes.io/hostname"


class LimitPodHardAntiAffinityTopology(Plugin):
    """A pod may keep others off its host, not off its zone."""

    name = "LimitPodHardAntiAffinityTopology"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """New and changed pods."""
        return resource == PODS and not subresource and operation is not Operation.DELETE

    def check(self, review: Review) -> None:
        """Look at the topology key of each required term. Raises Forbidden."""
        affinity = mapping(mapping(review.object.get("spec")).get("affinity"))
        terms = mapping(affinity.get("podAntiAffinity"))
        for term in mappings(terms.get("requiredDuringSchedulingIgnoredDuringExecution")):
            key = text(term.get("topologyKey"))
            if key != _HOST:
                raise Forbidden(
                    "pods",
                    "",
                    name_of(review.object),
                    f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but "
                    f"only key {_HOST} is allowed",
                )
