"""ExtendedResourceToleration: off by default, pods tolerate the taints of devices they ask for.

Source: plugin/pkg/admission/extendedresourcetoleration/admission.go and
AddOrUpdateTolerationInPod in pkg/apis/core/helper/helpers.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types.kind import PODS
from fakeapi.types.objects import Json, mapping, mappings
from fakeapi.types.pod_resources import is_extended_resource

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey


class ExtendedResourceToleration(Plugin):
    """A node tainted with the name of an extended resource is for pods that request it."""

    name = "ExtendedResourceToleration"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """New and changed pods."""
        return resource == PODS and not subresource and operation is not Operation.DELETE

    def mutate(self, review: Review) -> None:
        """Add a toleration for each extended resource, in order of their names."""
        spec = mapping(review.object.get("spec"))
        containers = mappings(spec.get("containers")) + mappings(spec.get("initContainers"))
        requested = {
            name
            for container in containers
            for name in mapping(mapping(container.get("resources")).get("requests"))
            if is_extended_resource(name)
        }
        tolerations = mappings(spec.get("tolerations"))
        for name in sorted(requested):
            wanted: Json = {"key": name, "operator": "Exists", "effect": "NoSchedule"}
            tolerations = _with(tolerations, wanted)
        if requested:
            review.object["spec"] = {**spec, "tolerations": tolerations}


def _with(tolerations: list[Json], wanted: Json) -> list[Json]:
    """The toleration takes the place of those that match it in all but the seconds."""
    updated = [wanted if _key(item) == _key(wanted) else item for item in tolerations]
    return updated if wanted in updated else [*tolerations, wanted]


def _key(toleration: Json) -> tuple[object, ...]:
    fields = ("key", "effect", "operator", "value")
    return tuple(toleration.get(field) or "" for field in fields)
