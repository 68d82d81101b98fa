"""LimitRanger: the LimitRanges of a namespace give defaults to containers, and set bounds.

Source: plugin/pkg/admission/limitranger/admission.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from fakeapi.admission import limits
from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types.kind import PODS
from fakeapi.types.objects import Json, is_deleting, mapping

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey

_CLAIMS: Final = ("", "persistentvolumeclaims")
_LIMIT_RANGES: Final = ("", "limitranges")


class LimitRanger(Plugin):
    """Containers that say nothing get what the ranges say; what is out of range is refused."""

    name = "LimitRanger"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """New pods, their resizes, and claims: a pod's other updates cannot change resources."""
        if operation is Operation.DELETE:
            return False
        if resource == PODS:
            return subresource == ("resize" if operation is Operation.UPDATE else "")
        return resource == _CLAIMS and not subresource

    def mutate(self, review: Review) -> None:
        """Fill in the defaults of pods."""
        if review.resource == PODS and (ranges := _ranges(review)):
            review.object["spec"] = copy.deepcopy(mapping(review.object.get("spec")))
            for limit_range in ranges:
                limits.apply_container_defaults(review.object, limit_range)

    def check(self, review: Review) -> None:
        """Check the bounds. Raises Forbidden with all that one range finds."""
        complaints_of = (
            limits.pod_complaints if review.resource == PODS else limits.claim_complaints
        )
        for limit_range in _ranges(review):
            complaints = list(dict.fromkeys(complaints_of(review.object, limit_range)))
            if complaints:
                one = len(complaints) == 1
                raise review.forbid(complaints[0] if one else f"[{', '.join(complaints)}]")


def _ranges(review: Review) -> list[Json]:
    if review.old is not None and is_deleting(review.old):
        return []
    store = review.registry.store
    if not store.collection(_LIMIT_RANGES).revisions:
        return []
    return store.in_namespace(_LIMIT_RANGES, review.target.namespace)
